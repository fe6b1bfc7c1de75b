"""Closes its stdout and stderr, and exits a moment later."""

import os
import time

os.close(1)
os.close(2)
time.sleep(0.4)
os._exit(5)
