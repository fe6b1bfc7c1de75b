"""Checks the paths to which a command is to write, before it does anything else."""

import errno
import os
import tempfile
from pathlib import Path

from orchestrator.errors import StoreFault, UsageError

_DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Errors of a full or failing disk, which are no fault of the given path."""


def cache_folder() -> Path:
    """Returns the folder for this user's cached files."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".cache") / "sparring"


def require_folder_path(path: Path, option: str) -> Path:
    """Returns the path if it is, or can become, a folder that can be written to; creates nothing.

    Args:
        path: the path that the operator gave.
        option: the option or argument for which it was given.

    Raises:
        UsageError: it is no such path.
        StoreFault: the disk is full or failing.
    """
    _require_writable(path, option, "the path of a folder")
    if path.exists() and not path.is_dir():
        raise UsageError(f"{option} {path}: a file lies there; give the path of a folder")
    return path


def require_file_path(path: Path, option: str) -> Path:
    """Returns the path if a file can be written there, in a folder that need not exist. Raises like the other."""
    _require_writable(path, option, "the path of a file")
    if path.is_dir():
        raise UsageError(f"{option} {path}: a folder lies there; give the path of a file")
    return path


def _require_writable(path: Path, option: str, description: str) -> None:
    """Raises an error unless the existing part of a path can be written to, and the rest consists of valid names."""
    try:
        existing, missing = path.absolute(), []
        while not os.path.lexists(existing):  # raises if a name is too long, or a file is where a folder has to be
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
