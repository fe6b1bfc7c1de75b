"""Becomes a container's process: `enter.py PREFIX UID PROGRAM [ARGUMENT...]`, as root, in namespaces of its own.

What a container runtime does before it starts a program, as far as a pod's own parts can tell: the user, no
capabilities, no new privileges, a filter of system calls. PREFIX is where Python lies, which is opened to that user.
"""

import ctypes
import os
import stat
import struct
import subprocess
import sys
from pathlib import Path

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
RETURN_ALLOW = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)


class Program(ctypes.Structure):
    """A socket filter program (struct sock_fprog)."""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def opened(prefix: Path) -> None:
    """Shows a folder to everybody in this mount namespace, where one above it is closed to others."""
    closed = [path for path in prefix.parents if not path.stat().st_mode & stat.S_IXOTH]
    if not closed:
        return
    top, aside = closed[-1], Path("/proc/self/fd") / str(os.open(prefix, os.O_RDONLY | os.O_DIRECTORY))
    os.set_inheritable(int(aside.name), True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "sparring-test", str(top)], check=True)
    prefix.mkdir(parents=True)
    subprocess.run(["mount", "--no-canonicalize", "--bind", str(aside), str(prefix)], check=True, close_fds=False)


def main(prefix: Path, user: int, command: list[str]) -> None:
    """Never returns."""
    if user:
        opened(prefix)
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    c = ctypes.CDLL(None, use_errno=True)
    filtered = Program(1, RETURN_ALLOW)
    if c.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or c.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(filtered), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls")
    os.execv(command[0], command)  # noqa: S606  a list of arguments, as a runtime has it


main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
