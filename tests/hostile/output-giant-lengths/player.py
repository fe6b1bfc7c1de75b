"""Announces a payload of 4 GiB and sends a part of it."""

import struct
import time

from _frames import MIB, ask, ready, write

ready()
ask()
write(struct.pack("<4sII", b"SPI1", 2, 2**32 - 1) + b"{}")
for _ in range(192):
    write(bytes(MIB))
time.sleep(60)
