"""Asks for times that the kernel refuses as malformed, once it has granted that they may be set at all."""

import ctypes
import errno
import struct

from _report import attempt, report_all, syscall

SETTIMEOFDAY, CLOCK_SETTIME = 164, 227
NO_TIME = ctypes.create_string_buffer(struct.pack("<qq", -1, 2_000_000_000))


def granted(number: int, *arguments: object) -> str:
    """Returns that the wish was refused for its form only."""
    try:
        syscall(number, *arguments)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return "granted, and malformed"
        raise
    return "set"


report_all(
    attempt("clock_settime", granted, CLOCK_SETTIME, 0, NO_TIME),
    attempt("settimeofday", granted, SETTIMEOFDAY, NO_TIME, None),
)
