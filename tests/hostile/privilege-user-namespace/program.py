"""Makes user namespaces by unshare, clone and clone3."""

import ctypes
import os
from pathlib import Path

from _report import attempt, report_all, syscall

UNSHARE, CLONE, CLONE3 = 272, 56, 435
NEWUSER, NEWNS, SIGCHLD = 0x10000000, 0x00020000, 17


def capable() -> bool:
    """Whether this process has capabilities now."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("CapEff:")[2].split()[0], 16) != 0


def in_a_child(action: object) -> str:
    """Runs it in a child; raises what it said."""
    child = os.fork()
    if child == 0:
        try:
            action()
        except OSError as error:
            os._exit(error.errno or 255)
        os._exit(0 if capable() else 254)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, os.strerror(code) if code > 0 else f"signal {-code}")
    return "every capability"


def clone(number: int, *arguments: object) -> str:
    """Has a child born into a namespace of its own."""
    child = syscall(number, *arguments)
    if child == 0:
        os._exit(0 if capable() else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(1, "without capabilities")
    return "every capability"


three = (ctypes.c_uint64 * 8)(NEWUSER, 0, 0, 0, SIGCHLD, 0, 0, 0)
report_all(
    attempt("unshare", in_a_child, lambda: syscall(UNSHARE, NEWUSER)),
    attempt("unshare with mounts", in_a_child, lambda: syscall(UNSHARE, NEWUSER | NEWNS)),
    attempt("clone", clone, CLONE, NEWUSER | SIGCHLD, 0, 0, 0, 0),
    attempt("clone3", clone, CLONE3, three, ctypes.sizeof(three)),
)
