"""What of an image's files keeps it from playing: looked at in its layers, or in a container that never starts."""

import os
import posixpath
import secrets
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.domain import environment
from orchestrator.domain.images import ImageConfig
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


class FileStatEngine(Protocol):
    """What looking needs of the engine. Each call raises SandboxLost when the engine fails."""

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id."""
        ...

    def entry(self, container: str, path: str) -> Mapping[str, Any] | None:
        """Returns what a container has at a path, None for nothing, an empty mapping where that cannot be told."""
        ...

    def first(self, container: str, path: str) -> Generator[bytes, None, None]:
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

    def entry(self, path: str) -> FileEntry | None:
        """See `_entry_point.Files`."""
        told = self.engine.entry(self.container, path)
        if told is None:
            return None
        mode = int(told.get("mode", _SPECIAL))
        bits = ((_FOLDER, FileKind.FOLDER), (_LINK, FileKind.LINK), (_SPECIAL, FileKind.OTHER))
        kind = next((kind for bit, kind in bits if mode & bit), FileKind.FILE)
        return FileEntry(kind, mode & 0o7777, str(told.get("linkTarget") or ""), int(told.get("size", 0)))

    def first(self, path: str, count: int) -> bytes:
        """See `_entry_point.Files`."""
        held = bytearray()
        with closing(self.engine.first(self.container, path)) as pieces:
            for piece in pieces:
                held += piece
                if len(held) >= _BLOCK + count:
                    break
        return bytes(held[_BLOCK : _BLOCK + count])

    def look(self, path: str) -> PathEntry | None:
        """See `_mount_points.Look`."""
        entry = self.entry(path)
        return None if entry is None else PathEntry(entry.kind, entry.size)


@dataclass(frozen=True)
class LayerFiles:
    """The files of an image in its layers, on this disk or in memory; links lead within it, as in a container."""

    look: PathLookup

    def entry(self, path: str) -> FileEntry | None:
        """See `_entry_point.Files`."""
        found = self._found(path)
        return None if found is None else FileEntry(found.kind, found.mode, found.target, found.size)

    def first(self, path: str, count: int) -> bytes:
        """See `_entry_point.Files`."""
        found = self._found(path)
        if found is None or found.place is None or found.kind is not FileKind.FILE:
            return b"" if found is None else found.head[:count]
        handle = os.open(found.place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(count)

    def _found(self, path: str) -> PathEntry | None:
        """Returns what there is at a path; links in the folders above are followed, one at its end is not."""
        left, real = path.split("/"), ""
        for _ in range(_MAX_PATH_PARTS):
            part = left.pop(0)
            if part in {"", ".", ".."}:
                real = real.rpartition("/")[0] if part == ".." else real
            else:
                found = self.look(f"{real}/{part}")
                if found is None or found.kind is FileKind.GONE or not left:
                    return None if found is None or found.kind is FileKind.GONE else found
                if found.kind is FileKind.LINK:
                    left = [*found.target.split("/"), *left]
                    real = "" if found.target.startswith("/") else real
                else:
                    real = f"{real}/{part}"
            if not left:
                return self.look(real) if real else PathEntry(FileKind.FOLDER)
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
        return _all_problems(files, files.look, config, architecture)
    finally:
        engine.remove(container)


def judged(look: PathLookup, config: ImageConfig, architecture: str) -> list[Problem]:
    """Returns what keeps an image from playing whose files can be looked at where they lie; see `problems`."""
    return _all_problems(LayerFiles(look), look, config, architecture)


def _all_problems(
    files: entry_point.ImageFiles, look: PathLookup, config: ImageConfig, architecture: str
) -> list[Problem]:
    if found := mount_points.mount_point_problems(look):
        return found  # paths in such an image lead anywhere
    if working := _working_folder_problems(look, config.folder):
        return working
    search = config.environment.get("PATH", environment.DEFAULT_PATH)
    return entry_point.entry_point_problems(files, config.command, config.folder, search, architecture)


def _working_folder_problems(look: PathLookup, folder: str) -> list[Problem]:
    """Returns what is wrong with a working directory."""
    found = [] if posixpath.normpath(folder) == "/" else mount_points.mount_point_problems(look, [folder])
    return [
        Problem("WORKDIR", f"{each.place} is {each.what.partition(' in the image')[0]}", "use a plain folder")
        for each in found
    ]
