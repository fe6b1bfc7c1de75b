"""Reports its environment, leaves files wherever it can, and waits."""

import json
import os
import resource
import socket
import sys
import tempfile
from pathlib import Path


def leave(folder: str) -> bool:
    try:
        Path(folder, "left-behind").write_text("for the next one", "ascii")
    except OSError:
        return False
    return True


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def reach_localhost() -> bool:
    with socket.create_server(("localhost", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1]), timeout=10).close()
    return True


temporary = tempfile.gettempdir()
report = {
    "environment": dict(os.environ),
    "found": sorted(str(path) for path in Path(temporary).iterdir()),
    "left": leave(temporary),
    "home": leave(str(Path.home())),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
    "descriptors": [number for number in range(256) if is_open(number)],
    "localhost": reach_localhost(),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "beside": sorted(path.name for path in Path().iterdir()),
}
sys.stdout.write(json.dumps(report) + "\n")
sys.stdout.flush()
sys.stdin.buffer.read(1)
