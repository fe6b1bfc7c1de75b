"""Walks through a folder that a stranger may have filled: every entry once, in a fixed order, following no link.

The caller decides what to refuse, leave out and tolerate: it gets each entry before the entries below it, says which
folders to enter, and is told of each folder that cannot be read. The walk keeps only the names in the folders on its
current path, so a caller that stops early bounds its memory.
"""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path, PurePosixPath
from typing import NoReturn


class EntryKind(Enum):
    """The kind of a folder's entry. A symbolic link is a LINK, whatever it leads to."""

    FILE = auto()
    FOLDER = auto()
    LINK = auto()
    OTHER = auto()
    """A FIFO, a socket, a device."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One entry of a folder. `path` is relative to the folder that is walked through."""

    path: PurePosixPath
    kind: EntryKind
    size: int
    executable: bool
    """Whether its owner may execute it."""


def enter_all(entry: FolderEntry) -> bool:
    """Enters every folder."""
    del entry
    return True


def raise_error(path: PurePosixPath, error: OSError) -> NoReturn:
    """Ends the walk at the first folder or entry that cannot be read, by raising its error."""
    del path
    raise error


def walk_folder(
    root: Path,
    enter: Callable[[FolderEntry], bool] = enter_all,
    on_error: Callable[[PurePosixPath, OSError], None] = raise_error,
) -> Iterator[FolderEntry]:
    """Yields all entries below a folder: a folder before its entries, names sorted by their bytes.

    A name that is not UTF-8 has surrogates, as `os.fsdecode` makes them. The walk does not recurse, however deeply
    folders are nested; beyond the kernel's longest path they cannot be read.

    Args:
        root: the folder. If it is a symbolic link itself, it is followed.
        enter: called with a folder after it was yielded; returns whether to enter it.
        on_error: called with a folder that cannot be read (`.` for `root`), or with an entry that has vanished
            meanwhile. If it returns, the walk continues after that entry.
    """
    waiting = _list_backwards(root, PurePosixPath(), on_error)
    while waiting:
        path, found = waiting.pop()
        try:
            status = found.stat(follow_symlinks=False)
        except OSError as error:
            on_error(path, error)
            continue
        entry = FolderEntry(path, _kind_of(status.st_mode), status.st_size, bool(status.st_mode & stat.S_IXUSR))
        yield entry
        if entry.kind is EntryKind.FOLDER and enter(entry):
            waiting += _list_backwards(root, path, on_error)


def _list_backwards(
    root: Path, path: PurePosixPath, on_error: Callable[[PurePosixPath, OSError], None]
) -> "list[tuple[PurePosixPath, os.DirEntry[str]]]":
    """Returns the entries of a folder in reverse order, so that the first is at the end of the list."""
    try:
        with os.scandir(root / path) as entries:
            sorted_entries = sorted(entries, key=lambda entry: os.fsencode(entry.name), reverse=True)
    except OSError as error:
        on_error(path, error)
        return []
    return [(path / entry.name, entry) for entry in sorted_entries]


def _kind_of(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    if stat.S_ISDIR(mode):
        return EntryKind.FOLDER
    return EntryKind.LINK if stat.S_ISLNK(mode) else EntryKind.OTHER
