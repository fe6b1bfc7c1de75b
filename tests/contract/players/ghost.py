"""As process 1: lets itself be traced and signals itself, so that the shim takes the stop for an exit."""

import ctypes
import os
import signal
import sys
import time

if not os.fork():
    time.sleep(600)
    os._exit(0)
os.write(1, b"up")
sys.stdin.buffer.read(1)
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
os.kill(os.getpid(), signal.SIGUSR1)
time.sleep(600)
