"""What an image has where a runtime mounts, and where an engine looks a user up: plain folders and files, or nothing.

An image decides where a mount lands. Where /tmp is a symbolic link, our file system in memory is mounted somewhere
else, and a sandbox is not what the policy demands. Where /etc/passwd is a folder, a loop of links or longer than the
engine reads, no container can be started; where it is a named pipe, the engine waits for a writer without end. An
engine replaces some of these in the containers that it makes, a cluster's nodes replace others. So an image has to have
each of them as it should be, or not at all, whatever plays it.

The layers are looked at as they are stored, where this process may read them, without following a link, or as a
registry gives them (`_layers`). Elsewhere the engine is asked about a container that never starts, where it has
replaced some of them already.
"""

import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from orchestrator.errors import Problem

MOUNT_FOLDERS = (
    *("/dev", "/dev/mqueue", "/dev/pts", "/dev/shm", "/etc", "/io", "/proc", "/run"),  # noqa: S108  the image's own
    *("/sys", "/sys/fs", "/sys/fs/cgroup", "/tmp"),  # noqa: S108
)
"""Where something is mounted in a sandbox, on an engine or on a cluster."""
MOUNT_FILES = ("/etc/group", "/etc/hostname", "/etc/hosts", "/etc/passwd", "/etc/resolv.conf")
"""What an engine mounts over or reads before it starts a container."""
MAX_FILE_BYTES = 1024**2
"""Bytes of one of these files. An engine reads them line by line, and fails at a line of 64 KiB."""
MOUNT_PATHS = (*MOUNT_FOLDERS, *MOUNT_FILES)


class FileKind(StrEnum):
    """What there is at a path."""

    FOLDER = "a folder"
    FILE = "a file"
    LINK = "a symbolic link"
    OTHER = "neither a file nor a folder"
    GONE = "removed"
    """A layer removed what the layers below have."""
    COVERED = "a folder that covers those below"
    """A folder of which the layers below are not to be seen."""


@dataclass(frozen=True, slots=True)
class PathEntry:
    """What there is: a file's bytes and mode, where a link leads, and where a layer keeps it on this disk.

    `head` are a program's first bytes where they were read already.
    """

    kind: FileKind
    size: int = 0
    mode: int = 0
    target: str = ""
    place: Path | None = None
    head: bytes = b""


PathLookup = Callable[[str], PathEntry | None]
"""Returns what a file system, or one layer of it, has at a path below folders; None where it says nothing of it."""


def mount_point_problems(look: PathLookup, places: Iterable[str] = MOUNT_PATHS) -> list[Problem]:
    """Returns what is not as it should be, each path once."""
    found: dict[str, Problem] = {}
    for place in places:
        for path in down_to(place):
            there = look(path)
            if there is None or there.kind is FileKind.GONE:
                break
            wanted = FileKind.FILE if path in MOUNT_FILES else FileKind.FOLDER
            if there.kind is not wanted:
                found.setdefault(path, _problem(path, there.kind, wanted))
                break
            if wanted is FileKind.FILE and there.size > MAX_FILE_BYTES:
                what = f"{there.size} bytes, at most {MAX_FILE_BYTES}: engines look users up in it"
                found.setdefault(path, Problem(path, what, "leave it as the base image has it"))
    return list(found.values())


def _problem(path: str, kind: FileKind, wanted: FileKind) -> Problem:
    what = f"{kind} in the image, and has to be {wanted}: a sandbox mounts there"
    return Problem(path, what, "leave it as the base image has it, or remove it from the image")


def merge_layers(layers: Sequence[PathLookup]) -> PathLookup:
    """Returns the file system that these layers make, the highest first."""

    def look(path: str) -> PathEntry | None:
        for layer in layers:
            covered = False
            for above in down_to(path):
                found = layer(above)
                if above == path and found is not None:
                    return replace(found, kind=FileKind.FOLDER) if found.kind is FileKind.COVERED else found
                if found is None:
                    break
                if found.kind not in {FileKind.FOLDER, FileKind.COVERED}:
                    return None
                covered = covered or found.kind is FileKind.COVERED
            if covered:
                return None
        return None

    return look


def layers_on_disk(graph: Mapping[str, object]) -> PathLookup | None:
    """Returns the file system of an image as its engine stores it (`GraphDriver` of `docker image inspect`).

    None where it is stored in another way than as overlays, or this process may not read it.
    """
    data = graph.get("Data")
    if graph.get("Name") != "overlay2" or not isinstance(data, Mapping):
        return None
    lower = str(data.get("LowerDir") or "")
    folders = [Path(each) for each in (str(data.get("UpperDir") or ""), *lower.split(":")) if each]
    try:
        for folder in folders:
            folder.lstat()
            os.scandir(folder).close()
    except OSError:
        return None
    return merge_layers([_layer_lookup(folder) for folder in folders]) if folders else None


def _layer_lookup(folder: Path) -> PathLookup:
    """Returns one layer in its folder. Links in it are hostile: every part of a path is looked at, none is followed."""

    def look(path: str) -> PathEntry | None:
        for above in down_to(path):
            here = folder / above.lstrip("/")
            try:
                found = here.lstat()
            except OSError:
                return None
            kind = _layer_file_kind(found)
            if kind is FileKind.FOLDER and _is_opaque(here):
                kind = FileKind.COVERED
            if above == path:
                target = str(here.readlink()) if kind is FileKind.LINK else ""
                return PathEntry(kind, found.st_size, stat.S_IMODE(found.st_mode), target, here)
            if kind not in {FileKind.FOLDER, FileKind.COVERED}:
                return None
        return None

    return look


def _layer_file_kind(found: os.stat_result) -> FileKind:
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:
        return FileKind.GONE
    return file_kind(found.st_mode)


def file_kind(mode: int) -> FileKind:
    """Returns what a file's mode says it is."""
    return {stat.S_IFDIR: FileKind.FOLDER, stat.S_IFREG: FileKind.FILE, stat.S_IFLNK: FileKind.LINK}.get(
        stat.S_IFMT(mode), FileKind.OTHER
    )


def _is_opaque(folder: Path) -> bool:
    with suppress(OSError):
        return os.getxattr(folder, "trusted.overlay.opaque", follow_symlinks=False) == b"y"
    return False


def down_to(path: str) -> Iterator[str]:
    """Yields the folders above an absolute path, the highest first, and the path."""
    parts = posixpath.normpath(path).strip("/").split("/")
    for count in range(1, len(parts) + 1):
        yield "/" + "/".join(parts[:count])
