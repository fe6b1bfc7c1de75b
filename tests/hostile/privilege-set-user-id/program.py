"""Starts `su`, which waits for a password as root, and looks whose process it is."""

import subprocess
import time
from pathlib import Path

from _report import attempt, report_all


def start(*words: str) -> str:
    """Returns its user ids if it ever ran as root."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        until = time.monotonic() + 1
        while child.poll() is None and time.monotonic() < until:
            status = Path(f"/proc/{child.pid}/status").read_text("ascii")
            uids = status.partition("Uid:")[2].partition("\n")[0].split()
            if uids[1:2] == ["0"]:
                child.kill()
                return f"user ids {' '.join(uids)}"
            time.sleep(0.001)
        child.kill()
    raise PermissionError(1, "never root")


report_all(attempt("su", start, "/usr/bin/su"), attempt("passwd", start, "/usr/bin/passwd"))
