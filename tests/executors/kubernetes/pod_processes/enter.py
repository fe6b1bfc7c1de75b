"""Becomes a container's process: `enter.py PREFIX UID PROGRAM [ARGUMENT...]`, as root, in namespaces of its own.

What a container runtime does before it starts a program, as far as a pod's own parts can tell: the user, no
capabilities, no new privileges, a filter of system calls. PREFIX is where Python lies, which is opened to that user.
"""

import ctypes
import os
import stat
import struct
import sys
from pathlib import Path

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER, MS_BIND = 38, 22, 2, 4096
RETURN_ALLOW = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
C = ctypes.CDLL(None, use_errno=True)


class Program(ctypes.Structure):
    """A socket filter program (struct sock_fprog)."""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def called(name: str, *arguments: object) -> None:
    """Calls a function of the C library, faster than a program of its own. Raises OSError."""
    if getattr(C, name)(*(each.encode() if isinstance(each, str) else each for each in arguments)):
        raise OSError(ctypes.get_errno(), name)


def opened(prefix: Path) -> None:
    """Shows a folder to everybody in this mount namespace, where one above it is closed to others."""
    closed = [path for path in prefix.parents if not path.stat().st_mode & stat.S_IXOTH]
    if not closed:
        return
    top, aside = closed[-1], os.open(prefix, os.O_RDONLY | os.O_DIRECTORY)
    called("mount", "sparring-test", str(top), "tmpfs", 0, "mode=755")
    prefix.mkdir(parents=True)
    called("mount", f"/proc/self/fd/{aside}", str(prefix), None, MS_BIND, None)


def restrict() -> None:
    """Takes new privileges away, and filters system calls."""
    filtered = Program(1, RETURN_ALLOW)
    called("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    called("prctl", PR_SET_SECCOMP, FILTER, ctypes.byref(filtered), 0, 0)


def main(prefix: Path, user: int, command: list[str]) -> None:
    """Never returns."""
    if user:
        opened(prefix)
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    restrict()
    os.execv(command[0], command)  # noqa: S606  a list of arguments, as a runtime has it


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
