"""Writes files completely or not at all."""

import errno
import os
import secrets
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import StoreFault

UNFINISHED_PREFIX = ".new-"
"""The prefix of a file's name until the file is complete. A killed writer leaves such a file, which no reader takes for
the complete one. In a round's folder, which one process writes at a time, the next process removes it."""


_LINK_UNSUPPORTED = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""The errors of file systems without hard links. There, `write_once` cannot tell two simultaneous writers apart."""


def write_whole(path: Path, data: bytes, mode: int = 0o666, *, make_folder: bool = True) -> None:
    """Writes a file completely or not at all, and flushes it to the disk. `make_folder`: creates a missing folder.

    Raises:
        StoreFault: the file cannot be written.
    """
    write_pieces(path, [data], mode, make_folder=make_folder)


def write_pieces(path: Path, pieces: Iterable[bytes], mode: int = 0o666, *, make_folder: bool = True) -> None:
    """Writes a file like `write_whole`, from pieces that need not be in memory all at once."""
    fresh = path.with_name(f"{UNFINISHED_PREFIX}{os.getpid()}-{path.name}")
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise write_fault(path, error) from error


def write_once(path: Path, data: bytes, mode: int = 0o666) -> bool:
    """Writes a complete file if none of that name exists, and returns whether it did. Raises StoreFault."""
    fresh = path.with_name(f"{UNFINISHED_PREFIX}{secrets.token_hex(8)}-{path.name}")
    write_whole(fresh, data, mode)
    try:
        path.hardlink_to(fresh)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _LINK_UNSUPPORTED:
            raise write_fault(path, error) from error
        if path.exists():
            return False
        write_whole(path, data, mode)
    finally:
        fresh.unlink()
    return True


def owner_of_new_files(folder: Path) -> int:
    """Returns the id of the user who owns new files of this process in a folder; on a share, the server decides.

    Raises:
        StoreFault: no file can be created there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_uid
    except OSError as error:
        raise write_fault(folder, error) from error


def write_fault(path: Path, error: OSError) -> StoreFault:
    """Returns the error for a file that cannot be written."""
    reason = error.strerror or error
    return StoreFault(
        f"{path} cannot be written: {reason}; make space in {path.parent}, or correct its permissions, and run again"
    )
