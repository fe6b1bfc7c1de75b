"""Each leaves a file in /dev/shm and waits for that of the other."""

import time
from pathlib import Path

from _report import ROLE, TOKEN, report

other = {"first": "second", "second": "first"}[ROLE]
mine, yours = (Path("/dev/shm", f"hostile-{TOKEN}-{who}") for who in (ROLE, other))
mine.touch()
until = time.monotonic() + 6
while not (met := yours.exists()) and time.monotonic() < until:
    time.sleep(0.05)
time.sleep(1)
mine.unlink()
report(met, f"{ROLE} {'saw the other one' if met else 'was alone'}")
