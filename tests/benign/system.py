"""What programs ask the system: names, time, random bytes, limits, processors; nothing of it may fail."""

import ctypes
import getpass
import locale
import os
import platform
import random
import resource
import secrets
import select
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

platform.platform()
os.uname()
with suppress(KeyError, OSError):  # a user id without a name
    getpass.getuser()
locale.setlocale(locale.LC_ALL, "")
time.tzset()
assert time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID) >= 0
assert len(secrets.token_bytes(32)) == 32
random.seed()
uuid.uuid4()
uuid.uuid1()
assert os.cpu_count() >= 1
assert os.sched_getaffinity(0)
os.sched_yield()
os.nice(1)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
resource.getrusage(resource.RUSAGE_SELF)
assert Path("/proc/self/status").read_text()
assert os.sysconf("SC_PHYS_PAGES") > 0
with Path("/dev/urandom").open("rb") as file:
    assert file.read(8)
assert socket.gethostname() == "sandbox"
assert socket.getaddrinfo("localhost", 80)
socket.if_nameindex()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(0.05)
poll = select.epoll()
poll.close()
ctypes.CDLL(None).prctl(15, b"renamed", 0, 0, 0)
threading.stack_size(256 * 1024)
tempfile.gettempdir()
sys.setswitchinterval(0.001)
print("fine")
