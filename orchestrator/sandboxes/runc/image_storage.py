"""A lock and a check of disk space for folders of images that several orchestrators share."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import InfrastructureFault

MIN_FREE_BYTES = 1024**3
"""Bytes that stay free on the disk of a folder of images."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock file, for one thread or process at a time. Creates the file if it does not exist."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def require_disk_space(folder: Path, size: int) -> None:
    """Raises InfrastructureFault if a folder's disk has no space for an image of `size` bytes."""
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if free < size + MIN_FREE_BYTES:
        raise InfrastructureFault(
            f"{folder} has {free} bytes free; an image of {size} is flattened there, and {MIN_FREE_BYTES} stay free: "
            "free space, or set XDG_CACHE_HOME and XDG_DATA_HOME to a larger disk"
        )
