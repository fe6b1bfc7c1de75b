"""Sets up a ring."""

import ctypes
import os

from _report import attempt, report_all, syscall

SETUP, REGISTER = 425, 427


def ring() -> None:
    """Makes a ring of eight places."""
    os.close(syscall(SETUP, 8, ctypes.create_string_buffer(120)))


report_all(attempt("io_uring_setup", ring))
