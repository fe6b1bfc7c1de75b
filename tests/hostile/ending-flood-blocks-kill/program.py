"""Writes to all streams as fast as it can, so that the engine's own buffers are full when it is to be killed.

Where its own streams do not go through the engine, those of its container's init program still do.
"""

import os
import time
from pathlib import Path

ENDLESS = 1 << 60
os.write(1, b"up")
block = bytes(1024 * 1024)
floods = [(1, ENDLESS), (2, ENDLESS)]
if b"docker-init" in Path("/proc/1/cmdline").read_bytes():  # elsewhere it is no process of this sandbox
    # More than the engine's buffers hold. It throws away what init says on stdout while nobody is attached to that:
    # endlessly, that would take the machine's processors until the kill.
    floods += [(os.open("/proc/1/fd/1", os.O_WRONLY), 64), (os.open("/proc/1/fd/2", os.O_WRONLY), ENDLESS)]
for handle, blocks in floods:
    if os.fork() == 0:
        for _ in range(blocks):
            os.write(handle, block)
        time.sleep(3600)
while True:
    time.sleep(60)
