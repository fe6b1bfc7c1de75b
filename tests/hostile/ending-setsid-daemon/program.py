"""Becomes a daemon in a session and a process group of its own, without standard streams."""

import os
import time

if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    os.setpgid(0, 0)
    null = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    time.sleep(600)
    os._exit(0)
os.wait()
os.write(1, b"up")
time.sleep(600)
