"""Copies files that are shipped with the program to a place where they can be edited: `sparring copy`."""

import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from orchestrator import resources
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError

FOLDERS = ("docs", "examples", "images", "k8s", "schemas")
"""The shipped folders, by their names in the repository."""
_LEFT_BY_PYTHON = shutil.ignore_patterns("__pycache__")


def list_shipped() -> list[str]:
    """Returns the names of the shipped folders, and of the files and folders on their first level."""
    found = []
    for name in FOLDERS:
        inside = sorted(path.name for path in resources.resource_path(name).iterdir() if path.name != "__pycache__")
        found += [name, *(f"{name}/{each}" for each in inside)]
    return found


def copy_shipped(names: Sequence[str], into: Path) -> list[Path]:
    """Copies shipped files and folders below `into`, under their paths in the repository; returns the copies' paths.

    With these paths, references between them, such as baselines in a contest file, stay valid.

    Raises:
        UsageError: nothing of that name is shipped, a target exists already, or it cannot be written.
    """
    parts = sorted({_shipped_path(name) for name in names})
    wanted = [part for part in parts if not set(part.parents) & set(parts)]
    targets = [into / part for part in wanted]
    for target in targets:
        if target.exists() or target.is_symlink():
            raise UsageError(f"{target} is there already, and nothing was copied; move it away, or give another --out")
    for part, target in zip(wanted, targets, strict=True):
        source = resources.resource_path(*part.parts)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=_LEFT_BY_PYTHON)
            else:
                shutil.copy(source, target)
        except OSError as error:
            # copytree goes on after a file that fails, and raises one error with a list of (source, target, reason).
            why = error.args[0][0][2] if isinstance(error, shutil.Error) else error
            shutil.rmtree(target, ignore_errors=True)
            target.unlink(missing_ok=True)
            raise UsageError(f"{target} cannot be written: {why}; give another --out") from error
    return targets


def _shipped_path(name: str) -> PurePosixPath:
    """Returns the path of a shipped file or folder, relative to the repository's root. Raises UsageError."""
    path = PurePosixPath(name)
    if ".." in path.parts or path.parts[:1] not in {(each,) for each in FOLDERS}:
        raise UsageError(f"{printable(name, 200)} is not shipped; `sparring copy` lists what is")
    if not resources.resource_path(*path.parts).exists():
        raise UsageError(f"there is no {printable(name, 200)} in this version; `sparring copy` lists what is shipped")
    return path
