"""What folders of images need that orchestrators share: one writer at a time, and room for what it writes."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import InfrastructureFault

MIN_FREE_BYTES = 1024**3
"""Bytes that stay free on a disk where images are written."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a lock file, for one thread or process at a time. Creates the file if it does not exist."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def require_disk_space(folder: Path, size: int) -> None:
    """Raises InfrastructureFault if a folder's disk has no room for an image of `size` bytes."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < size + MIN_FREE_BYTES:
        raise InfrastructureFault(
            f"{folder} has {free} bytes free; an image of {size} is flattened there, and {MIN_FREE_BYTES} stay free: "
            "free space, or set XDG_CACHE_HOME and XDG_DATA_HOME to a larger disk"
        )
