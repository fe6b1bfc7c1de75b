"""What of an image's files keeps it from playing: looked at in its layers, or in a container that never starts."""

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
"""Bits of Go's file mode, in which an engine tells what a file is: devices, named pipes, sockets, unknown."""
_BLOCK = 512
_MAX_PATH_PARTS = 400
"""Parts of a path, those of links on its way too, after which it is taken for a loop."""

LOOK_SECONDS = 60.0
"""How long the files of an image are looked at. That of an ordinary image takes a few milliseconds."""


class _TimeOverError(Exception):
    """The time for looking is over."""


class FileStatEngine(Protocol):
    """What looking needs of the engine. Each call raises SandboxLost when the engine fails."""

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id."""
        ...

    def path_stat(self, container: str, path: str) -> Mapping[str, Any] | None:
        """Returns what a container has at a path: None for nothing, an empty mapping if the engine cannot say."""
        ...

    def read_file_archive(self, container: str, path: str) -> Generator[bytes, None, None]:
        """Yields a file of a container as a tar stream in pieces."""
        ...

    def remove(self, container: str) -> None:
        """Removes it; nothing happens when it is gone."""
        ...


@dataclass(frozen=True)
class ContainerFiles:
    """The files of an image, in a container that never starts; the engine has replaced some of them there."""

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
    """The files of an image in its layers, on this disk or in memory; links lead within it, as in a container."""

    lookup: PathLookup

    def file_entry(self, path: str) -> FileEntry | None:
        """See `ImageFiles`."""
        found = self._resolve(path)
        return None if found is None else FileEntry(found.kind, found.mode, found.target, found.size)

    def read_head(self, path: str, count: int) -> bytes:
        """See `ImageFiles`."""
        found = self._resolve(path)
        if found is None or found.path_on_disk is None or found.kind is not FileKind.FILE:
            return b"" if found is None else found.head[:count]
        handle = os.open(found.path_on_disk, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(count)

    def _resolve(self, path: str) -> PathEntry | None:
        """Returns what there is at a path; links in the folders above are followed, one at its end is not."""
        left, real = path.split("/")[::-1], ""  # the next part last: links may be long, and lead to one another
        for _ in range(_MAX_PATH_PARTS):
            part = left.pop()
            if part in {"", ".", ".."}:
                real = real.rpartition("/")[0] if part == ".." else real
            else:
                entry = self.lookup(f"{real}/{part}")
                if entry is None or entry.kind is FileKind.REMOVED or not left:
                    return None if entry is None or entry.kind is FileKind.REMOVED else entry
                if entry.kind is FileKind.LINK:
                    left += entry.target.split("/")[::-1]
                    real = "" if entry.target.startswith("/") else real
                else:
                    real = f"{real}/{part}"
            if not left:
                return self.lookup(real) if real else PathEntry(FileKind.FOLDER)
        return None


def image_file_problems(
    engine: FileStatEngine, image: Mapping[str, Any], config: ImageConfig, architecture: str, labels: Mapping[str, str]
) -> list[Problem]:
    """Returns what keeps an image from playing: where a runtime mounts, its working directory, and its program.

    Where its layers may not be read, a container is looked at that bears `labels`, and that is gone afterwards.

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
    """Returns what keeps an image from playing whose files can be looked at where they lie.

    A program may be named through links and folders without number, so the time for looking is bounded.
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
    if found := mount_points.mount_point_problems(look):
        return found  # paths in such an image lead anywhere
    if found := _working_folder_problems(look, config.folder) + init_program_problems(files):
        return found
    search = config.environment.get("PATH", environment.DEFAULT_PATH)
    return entry_point.entry_point_problems(files, config.command, config.folder, search, architecture)


def init_program_problems(files: entry_point.ImageFiles) -> list[Problem]:
    """Returns why Docker cannot mount its init program where its read-back expects it; nothing where it can.

    `/sbin` may be missing, or lead to another of the usual folders of programs, as it does in most distributions.
    """
    found = entry_point.follow_links(files, "/sbin")
    if found is None:
        return []
    remedy = "leave it as the base image has it: the engine mounts its init program there"
    if isinstance(found, str):
        return [Problem("/sbin", found, remedy)]
    place, entry = found
    if entry.kind is not FileKind.FOLDER or place not in mount_points.INIT_FOLDERS:
        what = f"leads to {printable(place, 120)}" if place != "/sbin" else f"is {entry.kind}, and has to be a folder"
        return [Problem("/sbin", what, remedy)]
    program = files.file_entry(f"{place}/{mount_points.INIT_PROGRAM}")
    if program is not None and program.kind is not FileKind.FILE:
        return [Problem(f"{place}/{mount_points.INIT_PROGRAM}", f"{program.kind}, and has to be a file", remedy)]
    return []


def _working_folder_problems(look: PathLookup, folder: str) -> list[Problem]:
    """Returns what is wrong with a working directory."""
    found = [] if posixpath.normpath(folder) == "/" else mount_points.mount_point_problems(look, [folder])
    return [
        Problem("WORKDIR", f"{each.place} is {each.what.partition(' in the image')[0]}", "use a plain folder")
        for each in found
    ]
