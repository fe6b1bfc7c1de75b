"""Submits a folder and kills itself at the n-th change to files: `submit_and_die.py CUP FOLDER TEAM N FILE`.

With 0 it runs to the end and writes the number of changes to FILE.
"""

import os
import signal
import sys
from pathlib import Path

CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.chmod", "os.truncate", "sqlite3.connect"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Count:
    """An audit hook that counts changes to files and kills the process at one of them."""

    def __init__(self, last: int) -> None:
        self.done, self._last = 0, last

    def __call__(self, event: str, details: tuple) -> None:
        """Handles an audit event, before its action happens."""
        opens = event == "open" and len(details) > 2 and isinstance(details[2], int) and details[2] & WRITING
        if event in CHANGES or opens or event == "fcntl.flock":
            self.done += 1
            if self.done == self._last:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    cup, folder, team, number, told = sys.argv[1:]
    from orchestrator.cli.app import app  # before the count, because imports write missing byte code

    count = Count(int(number))
    sys.addaudithook(count)
    words = ["submit", cup, folder, "--team", team, "--task", "quarters", "--backend", "process", "--allow-unisolated"]
    if code := app(words, standalone_mode=False):
        sys.exit(code)
    Path(told).write_text(str(count.done))
