"""Opens descriptors that wait for page faults."""

import os

from _report import attempt, report_all, syscall

USERFAULTFD, USER_MODE_ONLY = 323, 1


def wait(flags: int) -> None:
    """Opens one."""
    os.close(syscall(USERFAULTFD, flags | os.O_CLOEXEC))


report_all(attempt("user mode", wait, USER_MODE_ONLY), attempt("all", wait, 0))
