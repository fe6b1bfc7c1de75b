"""Starts children until the kernel refuses, says so, and keeps them."""

import os
import time

count = 0
try:
    while True:
        if not os.fork():
            time.sleep(600)
            os._exit(0)
        count += 1
except OSError:
    os.write(1, str(count).encode() + b"\n")
time.sleep(600)
