"""Answers `hello` with zeros without end."""

import time

from _frames import MIB, write

for _ in range(256):
    write(bytes(MIB))
time.sleep(60)
