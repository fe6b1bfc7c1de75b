"""What of an image's files keeps it from playing: looked at in its layers, or in a container that never starts."""

import os
import posixpath
import secrets
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.backends import _entry_point, _image_facts, _mount_points
from orchestrator.backends._entry_point import Entry
from orchestrator.backends._mount_points import Found, Kind, Look
from orchestrator.domain import environment
from orchestrator.domain.images import ImageConfig
from orchestrator.errors import Problem

_FOLDER, _LINK = 1 << 31, 1 << 27
_SPECIAL = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
"""Bits of Go's file mode, in which an engine tells what a file is: devices, named pipes, sockets, unknown."""
_BLOCK = 512
_STEPS = 400
"""Parts of a path, those of links on its way too, after which it is taken for a loop."""


class Looked(Protocol):
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
class Files:
    """The files of an image, in a container that never starts; the engine has replaced some of them there."""

    engine: Looked
    container: str

    def entry(self, path: str) -> Entry | None:
        """See `_entry_point.Files`."""
        told = self.engine.entry(self.container, path)
        if told is None:
            return None
        mode = int(told.get("mode", _SPECIAL))
        bits = ((_FOLDER, Kind.FOLDER), (_LINK, Kind.LINK), (_SPECIAL, Kind.OTHER))
        kind = next((kind for bit, kind in bits if mode & bit), Kind.FILE)
        return Entry(kind, mode & 0o7777, str(told.get("linkTarget") or ""), int(told.get("size", 0)))

    def first(self, path: str, count: int) -> bytes:
        """See `_entry_point.Files`."""
        held = bytearray()
        with closing(self.engine.first(self.container, path)) as pieces:
            for piece in pieces:
                held += piece
                if len(held) >= _BLOCK + count:
                    break
        return bytes(held[_BLOCK : _BLOCK + count])

    def look(self, path: str) -> Found | None:
        """See `_mount_points.Look`."""
        entry = self.entry(path)
        return None if entry is None else Found(entry.kind, entry.size)


@dataclass(frozen=True)
class Stored:
    """The files of an image in its layers, on this disk or in memory; links lead within it, as in a container."""

    look: Look

    def entry(self, path: str) -> Entry | None:
        """See `_entry_point.Files`."""
        found = self._found(path)
        return None if found is None else Entry(found.kind, found.mode, found.target, found.size)

    def first(self, path: str, count: int) -> bytes:
        """See `_entry_point.Files`."""
        found = self._found(path)
        if found is None or found.place is None or found.kind is not Kind.FILE:
            return b"" if found is None else found.head[:count]
        handle = os.open(found.place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(count)

    def _found(self, path: str) -> Found | None:
        """Returns what there is at a path; links in the folders above are followed, one at its end is not."""
        left, real = path.split("/"), ""
        for _ in range(_STEPS):
            part = left.pop(0)
            if part in {"", ".", ".."}:
                real = real.rpartition("/")[0] if part == ".." else real
            else:
                found = self.look(f"{real}/{part}")
                if found is None or found.kind is Kind.GONE or not left:
                    return None if found is None or found.kind is Kind.GONE else found
                if found.kind is Kind.LINK:
                    left = [*found.target.split("/"), *left]
                    real = "" if found.target.startswith("/") else real
                else:
                    real = f"{real}/{part}"
            if not left:
                return self.look(real) if real else Found(Kind.FOLDER)
        return None


def problems(
    engine: Looked, image: Mapping[str, Any], config: ImageConfig, architecture: str, labels: Mapping[str, str]
) -> list[Problem]:
    """Returns what keeps an image from playing: where a runtime mounts, its working directory, and its program.

    Where its layers may not be read, a container is looked at that bears `labels`, and that is gone afterwards.

    Raises:
        SandboxLost: the engine failed.
    """
    stored = _mount_points.stored(image.get("GraphDriver") or {})
    if stored is not None:
        return judged(stored, config, architecture)
    container = engine.create(_image_facts.still(image, labels), f"sparring-look-{secrets.token_hex(8)}")
    try:
        files = Files(engine, container)
        return _problems(files, files.look, config, architecture)
    finally:
        engine.remove(container)


def judged(look: Look, config: ImageConfig, architecture: str) -> list[Problem]:
    """Returns what keeps an image from playing whose files can be looked at where they lie; see `problems`."""
    return _problems(Stored(look), look, config, architecture)


def _problems(files: _entry_point.Files, look: Look, config: ImageConfig, architecture: str) -> list[Problem]:
    if found := _mount_points.problems(look):
        return found  # paths in such an image lead anywhere
    if working := _working(look, config.folder):
        return working
    search = config.environment.get("PATH", environment.PATH)
    return _entry_point.problems(files, config.command, config.folder, search, architecture)


def _working(look: Look, folder: str) -> list[Problem]:
    """Returns what is wrong with a working directory."""
    found = [] if posixpath.normpath(folder) == "/" else _mount_points.problems(look, [folder])
    return [
        Problem("WORKDIR", f"{each.place} is {each.what.partition(' in the image')[0]}", "use a plain folder")
        for each in found
    ]
