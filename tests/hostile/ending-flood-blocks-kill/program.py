"""Writes to both streams as fast as it can, so that the engine's own buffers are full when it is to be killed."""

import os

os.write(1, b"up")
block = bytes(1024 * 1024)
while True:
    os.write(1, block)
    os.write(2, block)
