"""Looks for anybody else, and knocks with signal 0, which harms nobody."""

import os
from pathlib import Path

from _report import report

OWN = {b"docker-init", b"init", b"python3", b"tini"}
strangers = []
for folder in Path("/proc").glob("[0-9]*"):
    try:
        name = (folder / "comm").read_bytes().strip()
    except OSError:
        continue
    if name not in OWN:
        strangers.append(f"{folder.name} {name.decode('latin-1')}")
reached = []
for pid in range(2, 4000):
    if pid != os.getpid():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        except PermissionError:
            pass
        reached.append(pid)
report(bool(strangers or reached), f"strangers: {strangers[:5]}; pids reached: {reached[:5]}; own pid {os.getpid()}")
