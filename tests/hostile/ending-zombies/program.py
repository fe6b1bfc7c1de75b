"""Leaves a hundred orphans that end at once, and counts how many are never reaped."""

import os
import time

from _report import report

for _ in range(100):
    child = os.fork()
    if not child:
        if not os.fork():
            time.sleep(0.05)
        os._exit(0)
    os.waitpid(child, 0)
time.sleep(1)
states = []
for number in filter(str.isdigit, os.listdir("/proc")):
    with open(f"/proc/{number}/stat", encoding="ascii") as file:
        states.append(file.read().rpartition(")")[2].split()[0])
zombies = states.count("Z")
report(zombies > 50, f"{zombies} zombies of 100 orphans")
