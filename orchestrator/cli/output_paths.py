"""Places that a command is told to write to, looked at before anything else is done."""

import errno
import os
import tempfile
from pathlib import Path

from orchestrator.errors import StoreFault, UsageError

_DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""What goes wrong with a disk, and not with what was asked for."""


def cache_folder() -> Path:
    """Returns where a user's own files lie that can be made again."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".cache") / "sparring"


def require_folder_path(path: Path, option: str) -> Path:
    """Returns a path at which a folder is, or can be made, and written to; nothing is made.

    Args:
        path: what the operator gave.
        option: the option or argument that it was given for.

    Raises:
        UsageError: it cannot be.
        StoreFault: the disk is full or failing.
    """
    _require_writable(path, option, "the path of a folder")
    if path.exists() and not path.is_dir():
        raise UsageError(f"{option} {path}: a file lies there; give the path of a folder")
    return path


def require_file_path(path: Path, option: str) -> Path:
    """Returns a path at which a file can be written; its folder may be made. Raises as `require_folder_path` does."""
    _require_writable(path, option, "the path of a file")
    if path.is_dir():
        raise UsageError(f"{option} {path}: a folder lies there; give the path of a file")
    return path


def _require_writable(path: Path, option: str, description: str) -> None:
    """Looks whether the part of a path that is there can be written to, and the rest can be its names."""
    try:
        existing, missing = path.absolute(), []
        while not os.path.lexists(existing):  # raises where a name is too long, or where a file stands for a folder
            missing.append(existing.name)
            existing = existing.parent
        if existing.is_symlink() and not existing.exists():
            raise UsageError(f"{option} {path}: {existing} is a link to nothing; give {description} elsewhere")
        folder = existing if missing or existing.is_dir() else existing.parent
        longest = os.pathconf(folder, "PC_NAME_MAX")
        if any(len(os.fsencode(name)) > longest for name in missing):
            raise UsageError(
                f"{option} {path}: a name of more than {longest} bytes; give {description} with shorter names"
            )
        if missing or existing.is_dir():
            with tempfile.TemporaryFile(dir=folder):
                return
        if not os.access(existing, os.W_OK):
            raise UsageError(f"{option} {path}: this user may not write to it; give {description} elsewhere")
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _DISK_ERRNOS:
            raise StoreFault(f"{option} {path}: {reason}; make space there, and run again") from error
        raise UsageError(f"{option} {path}: {reason}; give {description} that can be made and written to") from error
    except ValueError as error:  # a NUL in a name
        raise UsageError(f"{option}: {error}; give {description}") from error
