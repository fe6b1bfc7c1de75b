"""Five generations of orphans, 242 in all; each marks its place in one shared page."""

import mmap
import os
import time

from _report import report

GENERATIONS, WIDE = 5, 2
first = os.getpid()
born = mmap.mmap(-1, mmap.PAGESIZE)
for _ in range(GENERATIONS):
    for _ in range(WIDE):
        try:
            child = os.fork()
        except OSError:
            continue
        if child == 0:
            born[os.getpid() % mmap.PAGESIZE] = 1
            break
if os.getpid() == first:
    time.sleep(1)
    alive = bytes(born).count(1)
    report(alive >= 100, f"{alive} orphans at once")
else:
    time.sleep(30)
