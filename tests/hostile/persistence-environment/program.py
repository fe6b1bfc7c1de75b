"""The first leaves a start-up file and a daemon that knows the token; the second starts Python and looks for both."""

import os
import subprocess
import sys
import time
from pathlib import Path

from _report import ROLE, TOKEN, report

HOME = Path(os.environ.get("HOME", "/tmp"))
START_UP = HOME / "usercustomize.py"
if ROLE == "first":
    START_UP.write_text(f"import os; os.environ['LEFT'] = '{TOKEN}'\n", "ascii")
    if not os.fork():
        os.setsid()
        for stream in range(3):
            os.close(stream)
        time.sleep(20)
        os._exit(0)
    report(False, "first left a start-up file and a daemon")
else:
    words = [
        sys.executable,
        "-c",
        "import sys; sys.path.insert(0, sys.argv[1]); import usercustomize, os; print(os.environ['LEFT'])",
    ]
    done = subprocess.run([*words, str(HOME)], capture_output=True, text=True, check=False)
    others = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            others += int(path.parent.name) != os.getpid() and f"first\0{TOKEN}".encode() in path.read_bytes()
        except OSError:
            continue
    found = TOKEN in done.stdout
    report(
        found or others > 0, f"second: start-up file {'found' if found else 'not found'}, {others} daemons of the first"
    )
