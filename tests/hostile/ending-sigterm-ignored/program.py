"""Ignores every signal that can be ignored."""

import contextlib
import os
import signal
import time

for number in range(1, signal.NSIG):
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)
os.write(1, b"up")
while True:
    time.sleep(1)
