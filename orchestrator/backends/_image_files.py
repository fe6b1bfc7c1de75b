"""What of an image's files keeps it from playing: looked at through a container that is created and never started."""

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


def problems(
    engine: Looked, image: Mapping[str, Any], config: ImageConfig, architecture: str, labels: Mapping[str, str]
) -> list[Problem]:
    """Returns what keeps an image from playing: where a runtime mounts, its working directory, and its program.

    The container that is looked at bears `labels` and is gone afterwards. Raises SandboxLost when the engine fails.
    """
    stored = _mount_points.stored(image.get("GraphDriver") or {})
    if stored is not None and (found := _mount_points.problems(stored)):
        return found  # before an engine reads any of it
    container = engine.create(_image_facts.still(image, labels), f"sparring-look-{secrets.token_hex(8)}")
    try:
        files = Files(engine, container)
        look = stored or files.look
        found = [] if stored is not None else _mount_points.problems(look)
        if found:
            return found  # paths in such an image lead anywhere
        if working := _working(look, config.folder):
            return working
        search = config.environment.get("PATH", environment.PATH)
        return _entry_point.problems(files, config.command, config.folder, search, architecture)
    finally:
        engine.remove(container)


def _working(look: Look, folder: str) -> list[Problem]:
    """Returns what is wrong with a working directory."""
    found = [] if posixpath.normpath(folder) == "/" else _mount_points.problems(look, [folder])
    return [
        Problem("WORKDIR", f"{each.place} is {each.what.partition(' in the image')[0]}", "use a plain folder")
        for each in found
    ]
