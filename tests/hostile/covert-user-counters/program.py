"""The first takes most of what one user may have of inotify; the second counts what is left."""

import os
import time
from pathlib import Path

from _report import LIBC, ROLE, report

MOST = int(Path("/proc/sys/user/max_inotify_instances").read_text("ascii"))
until = time.monotonic() + 6
if ROLE == "first":
    taken = [LIBC.inotify_init1(0) for _ in range(MOST // 2)]
    time.sleep(6)
    report(False, f"first took {len([each for each in taken if each >= 0])} of {MOST}")
else:
    left = MOST
    while left > MOST * 3 // 4 and time.monotonic() < until:
        taken = []
        while len(taken) < MOST * 3 // 4 + 1 and (made := LIBC.inotify_init1(0)) >= 0:
            taken.append(made)
        left = len(taken)
        for each in taken:
            os.close(each)
        time.sleep(0.3)
    report(0 < left <= MOST * 3 // 4, f"second got {left} of {MOST}")
