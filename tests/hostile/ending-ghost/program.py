"""Lets itself be traced and signals itself, so that an engine whose process 1 it is takes the stop for an exit."""

import ctypes
import os
import signal
import time

if not os.fork():
    os.closerange(0, 3)
    time.sleep(600)
    os._exit(0)
os.write(1, b"up")
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
os.kill(os.getpid(), signal.SIGUSR1)
time.sleep(600)
