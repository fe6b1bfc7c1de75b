"""Traces and reads a child of its own: the same calls as for a sibling that is somebody else's."""

import ctypes
import os
import time

from _report import attempt, report_all, syscall

PTRACE, VM_READV, PIDFD_OPEN, PIDFD_GETFD, KCMP = 101, 310, 434, 438, 312
TRACEME, ATTACH = 0, 16
SECRET = ctypes.create_string_buffer(b"the sibling's secret")
LENGTH = len(SECRET.value)


class Piece(ctypes.Structure):
    """An iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def read(pid: int) -> str:
    """Returns a part of its memory."""
    found = ctypes.create_string_buffer(LENGTH)
    here = Piece(ctypes.addressof(found), LENGTH)
    there = Piece(ctypes.addressof(SECRET), LENGTH)
    syscall(VM_READV, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return found.value.decode()


def grab(pid: int) -> None:
    """Takes a descriptor out of it."""
    os.close(syscall(PIDFD_GETFD, syscall(PIDFD_OPEN, pid, 0), 1, 0))


def born(action: object) -> int:
    """Returns a child that does something, then sleeps."""
    child = os.fork()
    if child == 0:
        action()
        time.sleep(10)
        os._exit(0)
    return child


def traced() -> None:
    """Lets a child be traced by its parent: it is stopped by any signal then, even where it would be ended."""
    child = os.fork()
    if child == 0:
        try:
            syscall(PTRACE, TRACEME, 0, 0, 0)
        except OSError as error:
            os._exit(error.errno or 255)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, os.strerror(abs(code)))


sibling = born(lambda: None)
report_all(
    attempt("process_vm_readv", read, sibling),
    attempt("pidfd_getfd", grab, sibling),
    attempt("kcmp", syscall, KCMP, os.getpid(), sibling, 0, 1, 1),
    attempt("PTRACE_TRACEME", traced),
    attempt("PTRACE_ATTACH", syscall, PTRACE, ATTACH, sibling, 0, 0),
)
os.kill(sibling, 9)
