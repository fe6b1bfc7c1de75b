"""Tries to have a better end told than it has, then dies by a signal of its own: `forge.py HOW`. Reports on stdout."""

import contextlib
import os
import pathlib
import signal
import sys
import time

how = sys.argv[1]


def refused(path, flags):
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK))
    except OSError as error:
        return error.errno
    return 0


def name(process):
    return process.joinpath("stat").read_text().split()[1]


shells = [int(process.name) for process in pathlib.Path("/proc").glob("[0-9]*") if name(process) == "(sh)"]
if how == "look":
    found = [refused(f"/proc/{pid}/{name}", os.O_RDONLY) for pid in shells for name in ("mem", "environ", "maps", "fd")]
    found += [refused(f"/io/fifos/{name}", os.O_WRONLY) for name in ("ctl", "in")]
    found += [refused(f"/io/fifos/{name}", os.O_RDONLY) for name in ("out", "err", "end", "sh")]
    found += [refused("/io/fifos/new", os.O_WRONLY | os.O_CREAT)]
    print(len(shells), *found, flush=True)
else:
    print(len(shells), flush=True)
end = os.open("/io/fifos/end", os.O_WRONLY)
if how in {"note", "flood"}:
    os.write(end, b"\n0 last 0 0 1 1 1 1\n" + b"\n" + b"0" * 32 + b" last 0 0 1 1 1 1\n")
if how == "flood":
    os.set_blocking(end, False)
    try:
        while True:
            os.write(end, b"last 0 " * 9000)
    except BlockingIOError:
        pass
if how == "keeper":
    os.kill(max(shells), signal.SIGKILL)
    time.sleep(600)
if how == "signals":
    for number in range(1, 65):
        with contextlib.suppress(OSError):
            os.kill(1, number)
    time.sleep(0.2)
os.kill(os.getpid(), signal.SIGSEGV)
