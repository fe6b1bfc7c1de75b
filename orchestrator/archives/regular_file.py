"""Opens a submitted file."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from orchestrator.errors import UsageError


@contextmanager
def open_regular_file(path: Path) -> Iterator[BufferedReader]:
    """Opens a regular file. It does not block on a FIFO or a device.

    Raises:
        UsageError: there is no regular file, or it cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; give the path of an archive") from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise UsageError(f"{path} is a folder; pack it, and give the path of the archive")
        raise UsageError(f"{path} is no regular file; give the path of an archive")
    with os.fdopen(handle, "rb") as file:
        yield file
