"""What is refused with ENOSYS lets libraries fall back: shutil's copies, advice on files, locks, file events."""

import ctypes
import errno
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
with tempfile.TemporaryDirectory() as folder:
    one = Path(folder, "one")
    one.write_bytes(bytes(3_000_000))
    shutil.copyfile(one, Path(folder, "two"))
    shutil.copytree(folder, Path(folder, "tree"))
    with one.open("r+b") as file:
        try:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        except OSError as error:
            assert error.errno == errno.ENOSYS
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            assert error.errno == errno.ENOSYS
        buffer = bytearray(10)
        assert os.preadv(file.fileno(), [buffer], 0) == 10
    if libc.inotify_init1(0) < 0:
        assert ctypes.get_errno() == errno.ENOSYS
print("fine")
