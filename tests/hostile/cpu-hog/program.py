"""Four processes compute for two and a half seconds where 0.08 of a core is allowed."""

import os
import time

from _report import report

WORKERS, SECONDS = 4, 2.5
until = time.monotonic() + SECONDS
children = []
for _ in range(WORKERS):
    child = os.fork()
    if child == 0:
        while time.monotonic() < until:
            sum(range(10_000))
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
spent = os.times()
share = (spent.children_user + spent.children_system) / SECONDS
report(share > 0.18, f"{share:.2f} cores used by {WORKERS} processes for {SECONDS} s")
