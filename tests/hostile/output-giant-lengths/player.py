"""Announces a payload of 4 GiB, sends a part of it and leaves."""

import struct

from _frames import MIB, ask, ready, write

ready()
ask()
write(struct.pack("<4sII", b"SPI1", 2, 2**32 - 1) + b"{}")
for _ in range(192):
    write(bytes(MIB))
