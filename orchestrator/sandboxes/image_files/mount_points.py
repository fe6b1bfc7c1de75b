"""What an image has where a runtime mounts, and where an engine looks a user up: plain folders and files, or nothing.

An image decides where a mount lands. Where /tmp is a symbolic link, our file system in memory is mounted somewhere
else, and a sandbox is not what the policy demands. Where /etc/passwd is a folder, a loop of links or longer than the
engine reads, no container can be started; where it is a named pipe, the engine waits for a writer without end. An
engine replaces some of these in the containers that it makes, a cluster's nodes replace others. So an image has to have
each of them as it should be, or not at all, whatever plays it.

The layers are looked at as they are stored, where this process may read them, without following a link, or as a
registry gives them (`layers`). Elsewhere the engine is asked about a container that never starts, where it has
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
INIT_FOLDERS = ("/sbin", "/usr/sbin", "/bin", "/usr/bin")
"""Where `/sbin`, in which Docker mounts its init program, may lead: distributions merge these folders."""
INIT_PROGRAM = "docker-init"
MOUNT_PATHS = (*MOUNT_FOLDERS, *MOUNT_FILES)


class FileKind(StrEnum):
    """What there is at a path."""

    FOLDER = "a folder"
    FILE = "a file"
    LINK = "a symbolic link"
    OTHER = "neither a file nor a folder"
    REMOVED = "removed"
    """A layer removed what the layers below have."""
    OPAQUE = "a folder that covers those below"
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
    path_on_disk: Path | None = None
    head: bytes = b""


PathLookup = Callable[[str], PathEntry | None]
"""Returns what a file system, or one layer of it, has at a path below folders; None where it says nothing of it."""


def mount_point_problems(lookup: PathLookup, paths: Iterable[str] = MOUNT_PATHS) -> list[Problem]:
    """Returns what is not as it should be, each path once."""
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
    """Returns the file system that these layers make, the highest first."""

    def look(path: str) -> PathEntry | None:
        parts = list(down_to(path))
        for layer in layers:
            covered = False
            for above in parts:
                entry = layer(above)
                if above == path and entry is not None:
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
    """Returns one layer in its folder. Links in it are hostile: every part of a path is looked at, none is followed.

    Each path is looked at once, because a path may have a thousand folders above it.
    """
    known: dict[str, PathEntry | None] = {}

    def look(path: str) -> PathEntry | None:
        if path in known:
            return known[path]
        for above in down_to(path):
            if above not in known:
                known[above] = _stored_entry(folder / above.lstrip("/"))
            entry = known[above]
            if above == path:
                return entry
            if entry is None or entry.kind not in {FileKind.FOLDER, FileKind.OPAQUE}:
                break
        return None

    return look


def _stored_entry(location: Path) -> PathEntry | None:
    """Returns what a layer has at a place on this disk, in folders that were looked at already; None for nothing."""
    try:
        status = location.lstat()
    except OSError:
        return None
    kind = _layer_file_kind(status)
    if kind is FileKind.FOLDER and _is_opaque(location):
        kind = FileKind.OPAQUE
    target = str(location.readlink()) if kind is FileKind.LINK else ""
    return PathEntry(kind, status.st_size, stat.S_IMODE(status.st_mode), target, location)


def _layer_file_kind(found: os.stat_result) -> FileKind:
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:
        return FileKind.REMOVED
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
