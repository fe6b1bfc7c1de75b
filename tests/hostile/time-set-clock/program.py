"""Sets the clock's frequency to what it is: that is enough to show it, and changes nothing."""

import ctypes
import struct

from _report import attempt, report_all, syscall

ADJTIMEX, CLOCK_ADJTIME = 159, 305
ADJ_FREQUENCY, AT_FREQUENCY = 2, 16
MONOTONIC = 1


def same_frequency(number: int, *arguments: int) -> str:
    """Writes the frequency that was read."""
    clock = ctypes.create_string_buffer(208)
    syscall(number, *arguments, clock)
    frequency = struct.unpack_from("<q", clock, AT_FREQUENCY)[0]
    wish = ctypes.create_string_buffer(208)
    struct.pack_into("<I", wish, 0, ADJ_FREQUENCY)
    struct.pack_into("<q", wish, AT_FREQUENCY, frequency)
    syscall(number, *arguments, wish)
    return f"frequency {frequency} set"


report_all(attempt("adjtimex", same_frequency, ADJTIMEX), attempt("clock_adjtime", same_frequency, CLOCK_ADJTIME, 0))
