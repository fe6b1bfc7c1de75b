"""The walk through a folder that a stranger may have filled: every entry once, in one order, and no link followed.

What a reader refuses, leaves out and tolerates is not decided here: it sees each entry before anything below it, says
which folders are entered, and gets each folder that cannot be read. The walk holds the names of the folders that it is
in and no more, so that a reader that stops early has bounded it.
"""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path, PurePosixPath
from typing import NoReturn


class EntryKind(Enum):
    """What lies under a name. A link is a link, whatever it leads to."""

    FILE = auto()
    FOLDER = auto()
    LINK = auto()
    OTHER = auto()
    """A FIFO, a socket, a device."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """What a folder holds under one name. `path` begins below the folder that is walked through."""

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
    """Ends the walk at the first thing that cannot be read."""
    del path
    raise error


def walk_folder(
    root: Path,
    enter: Callable[[FolderEntry], bool] = enter_all,
    on_error: Callable[[PurePosixPath, OSError], None] = raise_error,
) -> Iterator[FolderEntry]:
    """Yields what lies in a folder and below it: a folder before what it holds, names sorted by their bytes.

    A name that is not UTF-8 has surrogates, as `os.fsdecode` makes them. However deep folders lie, the walk does not
    recurse; beyond the longest path of the kernel they cannot be read.

    Args:
        root: the folder. If it is a link itself, it is followed.
        enter: whether to look into a folder, which is asked once that folder was yielded.
        on_error: what to do with a folder that cannot be read, `.` for `root`, or an entry that is gone by the time
            that it is looked at. If it returns, the walk goes on behind that.
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
    """What a folder holds, the last first, so that the first is at the end of the list."""
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
