"""Leaves a grandchild that is nobody's child."""

import os
import time

if not os.fork():
    if os.fork():
        os._exit(0)
    time.sleep(600)
    os._exit(0)
os.wait()
os.write(1, b"up")
time.sleep(600)
