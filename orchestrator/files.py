"""Files that are written whole or not at all."""

import errno
import os
import secrets
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import StoreFault

UNFINISHED_PREFIX = ".new-"
"""How the name of a file begins before it is whole. A writer that is killed leaves such a file. No reader takes it for
the whole one, and a round's folder, which one process writes at a time, is rid of it by the next process."""


_LINK_UNSUPPORTED = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
"""What file systems say that have no second names for a file. There, two that begin at once are not told apart."""


def write_whole(path: Path, data: bytes, mode: int = 0o666, *, make_folder: bool = True) -> None:
    """Writes a file whole or not at all, through to the disk; `make_folder`: makes its folder where there is none.

    Raises:
        StoreFault: it cannot be written.
    """
    write_pieces(path, [data], mode, make_folder=make_folder)


def write_pieces(path: Path, pieces: Iterable[bytes], mode: int = 0o666, *, make_folder: bool = True) -> None:
    """Does what `write_whole` does, with bytes that are never in memory all at once."""
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
    """Writes a file whole where there is none of that name, and returns whether it did. Raises StoreFault."""
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
    """Returns the number of the user who owns what this process makes in a folder: a share's server may say another.

    Raises:
        StoreFault: nothing can be made there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_uid
    except OSError as error:
        raise write_fault(folder, error) from error


def write_fault(path: Path, error: OSError) -> StoreFault:
    """Returns what to say of a file that cannot be written."""
    reason = error.strerror or error
    return StoreFault(f"{path} cannot be written: {reason}; make space in {path.parent}, or mend it, and run again")
