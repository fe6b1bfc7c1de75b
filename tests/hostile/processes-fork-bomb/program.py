"""Forks 300 times where 48 processes are allowed."""

import os
import time

from _report import name, report

children = []
how = "no error"
for _ in range(300):
    try:
        child = os.fork()
    except OSError as error:
        how = name(error)
        break
    if child == 0:
        time.sleep(30)
        os._exit(0)
    children.append(child)
report(len(children) >= 48, f"{len(children)} processes at once: {how}")
for child in children:
    os.kill(child, 9)
