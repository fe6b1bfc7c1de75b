"""Checks the mount points of an image, and the files in which an engine looks users up.

An image's files decide where a mount lands. If /tmp is a symbolic link, the tmpfs is mounted somewhere else, and the
sandbox violates the policy. If /etc/passwd is a folder, a loop of links or longer than the engine reads, no container
can be started; if it is a named pipe, the engine waits for a writer for ever. An engine replaces some of these files in
the containers that it makes, a cluster's nodes replace others. So in every image each of these paths has to be a plain
folder or file, or be missing, whichever backend plays it.

If this process may read the stored layers, it reads them without following links; a registry's layers are read by
`layers`. Otherwise the engine reports the files of a container that never starts, some of which it has replaced.
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
"""The folders of mounts in a sandbox, on an engine or on a cluster."""
MOUNT_FILES = ("/etc/group", "/etc/hostname", "/etc/hosts", "/etc/passwd", "/etc/resolv.conf")
"""The files that an engine mounts over or reads before it starts a container."""
MAX_FILE_BYTES = 1024**2
"""The most bytes of one of these files. An engine reads them line by line, and fails at a line of 64 KiB."""
INIT_FOLDERS = ("/sbin", "/usr/sbin", "/bin", "/usr/bin")
"""What `/sbin`, in which Docker mounts its init program, may be or link to: distributions merge these folders."""
INIT_PROGRAM = "docker-init"
MOUNT_PATHS = (*MOUNT_FOLDERS, *MOUNT_FILES)


class FileKind(StrEnum):
    """What is at a path."""

    FOLDER = "a folder"
    FILE = "a file"
    LINK = "a symbolic link"
    OTHER = "neither a file nor a folder"
    REMOVED = "removed"
    """A whiteout: the layer removes the path from the layers below."""
    OPAQUE = "a folder that covers those below"
    """A folder that hides the contents of the same folder in the layers below."""


@dataclass(frozen=True, slots=True)
class PathEntry:
    """An entry of a file system: a file's size in bytes and mode, a link's target, and its path in a stored layer.

    `head` are the first bytes of a program, if they were read already.
    """

    kind: FileKind
    size: int = 0
    mode: int = 0
    target: str = ""
    path_on_disk: Path | None = None
    head: bytes = b""


PathLookup = Callable[[str], PathEntry | None]
"""Returns the entry of a path in a file system or in one layer of it; None if it has none."""


def mount_point_problems(lookup: PathLookup, paths: Iterable[str] = MOUNT_PATHS) -> list[Problem]:
    """Returns a problem for each path that has the wrong kind or size."""
    problems: dict[str, Problem] = {}
    for place in paths:
        for path in down_to(place):
            entry = lookup(path)
            if entry is None or entry.kind is FileKind.REMOVED:
                break
            expected = FileKind.FILE if path in MOUNT_FILES else FileKind.FOLDER
            if entry.kind is not expected:
                problems.setdefault(path, _problem(path, entry.kind, expected))
                break
            if expected is FileKind.FILE and entry.size > MAX_FILE_BYTES:
                problem = f"{entry.size} bytes, at most {MAX_FILE_BYTES}: engines look users up in it"
                problems.setdefault(path, Problem(path, problem, "leave it as the base image has it"))
    return list(problems.values())


def _problem(path: str, kind: FileKind, expected: FileKind) -> Problem:
    problem = f"{kind} in the image, and has to be {expected}: a sandbox mounts there"
    return Problem(path, problem, "leave it as the base image has it, or remove it from the image")


def merge_layers(layers: Sequence[PathLookup]) -> PathLookup:
    """Returns the file system that these layers form; the highest layer comes first."""

    def look(path: str) -> PathEntry | None:
        parts = list(down_to(path))
        for layer in layers:
            covered = False
            for part in parts:
                entry = layer(part)
                if part == path and entry is not None:
                    return replace(entry, kind=FileKind.FOLDER) if entry.kind is FileKind.OPAQUE else entry
                if entry is None:
                    break
                if entry.kind not in {FileKind.FOLDER, FileKind.OPAQUE}:
                    return None
                covered = covered or entry.kind is FileKind.OPAQUE
            if covered:
                return None
        return None

    return look


def layers_on_disk(graph: Mapping[str, object]) -> PathLookup | None:
    """Returns the file system of an image in its engine's storage (`GraphDriver` of `docker image inspect`).

    Returns None if the storage driver is not overlay2, or this process may not read the layers.
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
    """Returns the lookup of one stored layer. Its links are hostile: it checks every part of a path, and follows none.

    It caches each path, because a path may have a thousand folders above it.
    """
    known: dict[str, PathEntry | None] = {}

    def look(path: str) -> PathEntry | None:
        if path in known:
            return known[path]
        for part in down_to(path):
            if part not in known:
                known[part] = _stored_entry(folder / part.lstrip("/"))
            entry = known[part]
            if part == path:
                return entry
            if entry is None or entry.kind not in {FileKind.FOLDER, FileKind.OPAQUE}:
                break
        return None

    return look


def _stored_entry(location: Path) -> PathEntry | None:
    """Returns the entry of a path in a stored layer, whose parents were checked already; None if nothing is there."""
    try:
        status = location.lstat()
    except OSError:
        return None
    kind = _layer_file_kind(status)
    if kind is FileKind.FOLDER and _is_opaque(location):
        kind = FileKind.OPAQUE
    target = str(location.readlink()) if kind is FileKind.LINK else ""
    return PathEntry(kind, status.st_size, stat.S_IMODE(status.st_mode), target, location)


def _layer_file_kind(status: os.stat_result) -> FileKind:
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return FileKind.REMOVED
    return file_kind(status.st_mode)


def file_kind(mode: int) -> FileKind:
    """Returns the kind of a file from its `st_mode`."""
    return {stat.S_IFDIR: FileKind.FOLDER, stat.S_IFREG: FileKind.FILE, stat.S_IFLNK: FileKind.LINK}.get(
        stat.S_IFMT(mode), FileKind.OTHER
    )


def _is_opaque(folder: Path) -> bool:
    with suppress(OSError):
        return os.getxattr(folder, "trusted.overlay.opaque", follow_symlinks=False) == b"y"
    return False


def down_to(path: str) -> Iterator[str]:
    """Yields the folders above an absolute path, the highest first, then the path itself."""
    parts = posixpath.normpath(path).strip("/").split("/")
    for count in range(1, len(parts) + 1):
        yield "/" + "/".join(parts[:count])
