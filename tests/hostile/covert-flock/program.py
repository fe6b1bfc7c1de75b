"""The first locks files that all sandboxes of a machine share; the second finds them locked."""

import fcntl
import os
import time
from pathlib import Path

from _report import ROLE, name, report

FILES = [f"/proc/self/ns/{each}" for each in ("user", "time", "cgroup", "pid_for_children")]
opened, errors, held = [], set(), set()
for path in FILES:
    try:
        opened.append((path, os.open(path, os.O_RDONLY)))
    except OSError as error:
        errors.add(name(error))
until = time.monotonic() + 5
while time.monotonic() < until and not held:
    for path, descriptor in opened:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if ROLE == "first" else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            if ROLE == "second":
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        except BlockingIOError:
            held.add(Path(path).name)
        except OSError as error:
            errors.add(name(error))
    time.sleep(0.1)
if ROLE == "first":
    time.sleep(max(0.0, until - time.monotonic()))
report(
    bool(held), f"{ROLE}: locked by the other one: {', '.join(held) or 'nothing'}; {', '.join(errors) or 'no error'}"
)
