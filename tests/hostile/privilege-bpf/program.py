"""Makes a BPF map and loads the shortest program."""

import ctypes
import os
import struct

from _report import attempt, report_all, syscall

BPF, MAP_CREATE, PROG_LOAD = 321, 0, 5
ARRAY, SOCKET_FILTER = 2, 1
EXIT_0 = struct.pack("<BBhi", 0xB7, 0, 0, 0) + struct.pack("<BBhi", 0x95, 0, 0, 0)


def make_map() -> None:
    """Makes an array of one value."""
    wish = ctypes.create_string_buffer(struct.pack("<IIIII", ARRAY, 4, 8, 1, 0), 120)
    os.close(syscall(BPF, MAP_CREATE, wish, 120))


def load() -> None:
    """Loads `return 0`."""
    code, licence = ctypes.create_string_buffer(EXIT_0), ctypes.create_string_buffer(b"GPL")
    head = struct.pack("<IIQQIIQI", SOCKET_FILTER, 2, ctypes.addressof(code), ctypes.addressof(licence), 0, 0, 0, 0)
    os.close(syscall(BPF, PROG_LOAD, ctypes.create_string_buffer(head, 120), 120))


report_all(attempt("map", make_map), attempt("program", load))
