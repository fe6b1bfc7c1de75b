"""Opens a submitted file."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from orchestrator.errors import UsageError


@contextmanager
def open_regular_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a regular file. It does not block on a FIFO or a device.

    Raises:
        UsageError: there is no regular file, or it cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; give the path of an archive") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UsageError(f"{path} is no regular file; give the path of an archive")
    with os.fdopen(handle, "rb") as file:
        yield file
