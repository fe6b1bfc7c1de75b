"""Sixteen processes take 24 MiB each where 128 MiB are allowed together."""

import os
import time

from _report import MIB, report

HUNGRY = 16
reader, writer = os.pipe()
children = []
for _ in range(HUNGRY):
    child = os.fork()
    if child == 0:
        hoard = b"x" * (24 * MIB)
        os.write(writer, b".")
        time.sleep(30)
        os._exit(len(hoard) % 2)
    children.append(child)
os.close(writer)
os.set_blocking(reader, False)
sated = 0
until = time.monotonic() + 2.5
while sated < HUNGRY and time.monotonic() < until:
    try:
        sated += len(os.read(reader, HUNGRY))
    except BlockingIOError:
        time.sleep(0.05)
report(sated == HUNGRY, f"{sated} of {HUNGRY} processes hold 24 MiB each")
for child in children:
    os.kill(child, 9)
