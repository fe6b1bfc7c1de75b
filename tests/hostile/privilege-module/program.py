"""Offers the kernel what is malformed. A refusal of its form means that a good one would have been taken.

Some kernels are built without modules (ENOSYS); the other calls show the same there.
"""

import ctypes
import errno
import os

from _report import attempt, report_all, syscall

INIT_MODULE, FINIT_MODULE, DELETE_MODULE, KEXEC_LOAD, REBOOT, IOPL = 175, 313, 176, 246, 169, 172
MALFORMED = {errno.ENOEXEC, errno.EINVAL, errno.EBADF, errno.ENOENT}
NO_MAGIC = 0


def offered(number: int, *arguments: object) -> str:
    """Returns how the kernel refused it, if it looked at it."""
    try:
        syscall(number, *arguments)
    except OSError as error:
        if error.errno in MALFORMED:
            return f"looked at, {errno.errorcode[error.errno]}"
        raise
    return "taken"


RUBBISH = ctypes.create_string_buffer(bytes(128), 128)
report_all(
    attempt("init_module", offered, INIT_MODULE, RUBBISH, 128, b""),
    attempt("finit_module", offered, FINIT_MODULE, os.open("/bin/true", os.O_RDONLY), b"", 0),
    attempt("delete_module", offered, DELETE_MODULE, b"sparring_none", os.O_NONBLOCK),
    attempt("kexec_load", offered, KEXEC_LOAD, 0, 99, None, 0),
    attempt("reboot without its magic number", offered, REBOOT, NO_MAGIC, NO_MAGIC, 0, None),
    attempt("iopl", offered, IOPL, 3),
)
