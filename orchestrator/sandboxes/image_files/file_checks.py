"""Checks whether an image's files prevent it from playing, in its layers or in a container that never starts."""

import os
import posixpath
import secrets
import time
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.domain import environment
from orchestrator.domain.images import ImageConfig
from orchestrator.domain.text import printable
from orchestrator.errors import Problem
from orchestrator.sandboxes.image_files import entry_point, image_facts, mount_points
from orchestrator.sandboxes.image_files.entry_point import FileEntry
from orchestrator.sandboxes.image_files.mount_points import FileKind, PathEntry, PathLookup

_FOLDER, _LINK = 1 << 31, 1 << 27
_SPECIAL = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
"""Bits of Go's file mode, which an engine reports: devices, named pipes, sockets, unknown."""
_BLOCK = 512
_MAX_PATH_PARTS = 400
"""The most parts of a path, including those of links in it; a longer one counts as a loop."""

LOOK_SECONDS = 60.0
"""The time limit for checking an image's files. An ordinary image takes a few milliseconds."""


class _TimeOverError(Exception):
    """The time limit for checking was exceeded."""


class FileStatEngine(Protocol):
    """The engine's calls that the checks use. Each raises SandboxLost if the engine fails."""

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id."""
        ...

    def path_stat(self, container: str, path: str) -> Mapping[str, Any] | None:
        """Returns what a container has at a path: None if nothing, an empty mapping if the engine cannot resolve it."""
        ...

    def read_file_archive(self, container: str, path: str) -> Generator[bytes, None, None]:
        """Yields a tar stream, in pieces, of one file of a container."""
        ...

    def remove(self, container: str) -> None:
        """Removes a container; does nothing if there is no such container."""
        ...


@dataclass(frozen=True)
class ContainerFiles:
    """The files of an image in a container that never starts, in which the engine has replaced some of them."""

    engine: FileStatEngine
    container: str

    def file_entry(self, path: str) -> FileEntry | None:
        """See `ImageFiles`."""
        path_stat = self.engine.path_stat(self.container, path)
        if path_stat is None:
            return None
        mode = int(path_stat.get("mode", _SPECIAL))
        bits = ((_FOLDER, FileKind.FOLDER), (_LINK, FileKind.LINK), (_SPECIAL, FileKind.OTHER))
        kind = next((kind for bit, kind in bits if mode & bit), FileKind.FILE)
        return FileEntry(kind, mode & 0o7777, str(path_stat.get("linkTarget") or ""), int(path_stat.get("size", 0)))

    def read_head(self, path: str, count: int) -> bytes:
        """See `ImageFiles`."""
        data = bytearray()
        with closing(self.engine.read_file_archive(self.container, path)) as pieces:
            for piece in pieces:
                data += piece
                if len(data) >= _BLOCK + count:
                    break
        return bytes(data[_BLOCK : _BLOCK + count])

    def lookup(self, path: str) -> PathEntry | None:
        """See `PathLookup`."""
        entry = self.file_entry(path)
        return None if entry is None else PathEntry(entry.kind, entry.size)


@dataclass(frozen=True)
class LayerFiles:
    """The files of an image in its layers, on this disk or in memory; links resolve within it, as in a container."""

    lookup: PathLookup

    def file_entry(self, path: str) -> FileEntry | None:
        """See `ImageFiles`."""
        entry = self._resolve(path)
        return None if entry is None else FileEntry(entry.kind, entry.mode, entry.target, entry.size)

    def read_head(self, path: str, count: int) -> bytes:
        """See `ImageFiles`."""
        entry = self._resolve(path)
        if entry is None or entry.path_on_disk is None or entry.kind is not FileKind.FILE:
            return b"" if entry is None else entry.head[:count]
        handle = os.open(entry.path_on_disk, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(count)

    def _resolve(self, path: str) -> PathEntry | None:
        """Returns what is at a path; follows links in the folders above, but not one at its end."""
        parts, real = path.split("/")[::-1], ""  # reversed: each link on the way may add many parts in front
        for _ in range(_MAX_PATH_PARTS):
            part = parts.pop()
            if part in {"", ".", ".."}:
                real = real.rpartition("/")[0] if part == ".." else real
            else:
                entry = self.lookup(f"{real}/{part}")
                if entry is None or entry.kind is FileKind.REMOVED or not parts:
                    return None if entry is None or entry.kind is FileKind.REMOVED else entry
                if entry.kind is FileKind.LINK:
                    parts += entry.target.split("/")[::-1]
                    real = "" if entry.target.startswith("/") else real
                else:
                    real = f"{real}/{part}"
            if not parts:
                return self.lookup(real) if real else PathEntry(FileKind.FOLDER)
        return None


def image_file_problems(
    engine: FileStatEngine, image: Mapping[str, Any], config: ImageConfig, architecture: str, labels: Mapping[str, str]
) -> list[Problem]:
    """Returns an image's problems: with mount points, its working directory, and its program.

    If this process may not read the layers, it reads a container with `labels`, which it then removes.

    Raises:
        SandboxLost: the engine failed.
    """
    stored = mount_points.layers_on_disk(image.get("GraphDriver") or {})
    if stored is not None:
        return judged(stored, config, architecture)
    container = engine.create(
        image_facts.inert_container_options(image, labels), f"sparring-look-{secrets.token_hex(8)}"
    )
    try:
        files = ContainerFiles(engine, container)
        return _all_problems(files, files.lookup, config, architecture)
    finally:
        engine.remove(container)


def judged(look: PathLookup, config: ImageConfig, architecture: str) -> list[Problem]:
    """Returns the problems of an image whose layers `look` reads.

    The path of a program may have any number of links and folders, so there is a time limit.
    """
    until = time.monotonic() + LOOK_SECONDS

    def look_in_time(path: str) -> PathEntry | None:
        if time.monotonic() > until:
            raise _TimeOverError
        return look(path)

    try:
        return _all_problems(LayerFiles(look_in_time), look_in_time, config, architecture)
    except _TimeOverError:
        what = f"looking for its program and its working directory takes more than {LOOK_SECONDS:g} s"
        return [Problem("image", what, "name them by short paths, without many links or folders on the way")]


def _all_problems(
    files: entry_point.ImageFiles, look: PathLookup, config: ImageConfig, architecture: str
) -> list[Problem]:
    if problems := mount_points.mount_point_problems(look):
        return problems  # other paths may lead anywhere in such an image
    if problems := _working_folder_problems(look, config.folder) + init_program_problems(files):
        return problems
    search = config.environment.get("PATH", environment.DEFAULT_PATH)
    return entry_point.entry_point_problems(files, config.command, config.folder, search, architecture)


def init_program_problems(files: entry_point.ImageFiles) -> list[Problem]:
    """Returns why Docker cannot mount its init program where `verify_policy` expects it; no problem if it can.

    `/sbin` may be missing, or be a link to another of the usual folders of programs, as in most distributions.
    """
    resolved = entry_point.follow_links(files, "/sbin")
    if resolved is None:
        return []
    remedy = "leave it as the base image has it: the engine mounts its init program there"
    if isinstance(resolved, str):
        return [Problem("/sbin", resolved, remedy)]
    place, entry = resolved
    if entry.kind is not FileKind.FOLDER or place not in mount_points.INIT_FOLDERS:
        what = f"leads to {printable(place, 120)}" if place != "/sbin" else f"is {entry.kind}, and has to be a folder"
        return [Problem("/sbin", what, remedy)]
    program = files.file_entry(f"{place}/{mount_points.INIT_PROGRAM}")
    if program is not None and program.kind is not FileKind.FILE:
        return [Problem(f"{place}/{mount_points.INIT_PROGRAM}", f"{program.kind}, and has to be a file", remedy)]
    return []


def _working_folder_problems(look: PathLookup, folder: str) -> list[Problem]:
    """Returns the problems of a working directory."""
    problems = [] if posixpath.normpath(folder) == "/" else mount_points.mount_point_problems(look, [folder])
    return [
        Problem("WORKDIR", f"{each.place} is {each.what.partition(' in the image')[0]}", "use a plain folder")
        for each in problems
    ]
