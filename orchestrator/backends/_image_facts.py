"""What an image is and holds, found without starting it.

The files are read from the stream that the engine exports of a container that was created and never started. The
stream is parsed here, header by header, because names, sizes and extended headers are hostile: nothing is unpacked,
nothing longer than `_LONGEST_EXTENSION` is held, and bytes, members and time are bounded. What is beyond a bound is
said to be unknown.
"""

import re
import secrets
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Protocol

from orchestrator.backends.base import ImageFacts, ImageTree
from orchestrator.domain import environment
from orchestrator.domain.text import printable
from orchestrator.errors import Problem

SECONDS = 120.0
"""How long an image's files are looked at."""
MOST_MEMBERS = 2_000_000
SHOWN = 20
"""How many names of each kind are kept."""
_BLOCK = 512
_LONGEST_EXTENSION = 1024**2
_SLACK = 256 * 1024**2
"""A stream is longer than the layers: headers and padding, and holes that the engine writes out."""
_SET_ID, _OTHERS_WRITE, _STICKY = 0o6000, 0o002, 0o1000
_FILE, _OLD_FILE, _FOLDER, _CHARACTER, _BLOCK_DEVICE = b"0", b"\0", b"5", b"3", b"4"
_CAPABILITY, _PATH, _SIZE = b"SCHILY.xattr.security.capability", b"path", b"size"
_LENGTH = re.compile(rb"(\d{1,8}) ")
_NUMBER = re.compile(rb"\d{1,19}")


class _Cut(Exception):
    """The stream is not looked at any further; the message says why."""


class _Stream:
    """Bytes in pieces, read in the sizes that are wanted, within bounds."""

    def __init__(self, pieces: Iterator[bytes], most: int, seconds: float) -> None:
        self._pieces, self._left = pieces, most
        self._until = time.monotonic() + seconds
        self._held = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        """Returns so many bytes, fewer at the end of the stream."""
        while len(self._held) - self._at < count and self._more():
            pass
        data = self._held[self._at : self._at + count]
        self._at += len(data)
        return data

    def skip(self, count: int) -> None:
        """Passes over so many bytes."""
        while count > len(self._held) - self._at:
            count -= len(self._held) - self._at
            self._held, self._at = b"", 0
            if not self._more():
                raise _Cut("the stream ends inside a file")
        self._at += count

    def _more(self) -> bool:
        if time.monotonic() > self._until:
            raise _Cut("the time for looking is over")
        piece = next(self._pieces, b"")
        self._left -= len(piece)
        if self._left < 0:
            raise _Cut("it holds more bytes than an image may have")
        self._held, self._at = self._held[self._at :] + piece, 0
        return bool(piece)


def tree(pieces: Iterator[bytes], most: int, seconds: float = SECONDS) -> ImageTree:
    """Returns what lies in a file system that comes as a tar stream in pieces; at most `most` bytes are read of it."""
    found: dict[str, list[str]] = {"set_id": [], "capable": [], "devices": [], "writable": []}
    counts = dict.fromkeys(found, 0)
    files = total = 0
    cut = ""
    stream = _Stream(pieces, most, seconds)
    try:
        for name, kind, mode, size, capable in _members(stream):
            if files == MOST_MEMBERS:
                cut = f"it holds more than {MOST_MEMBERS} files"
                break
            files += 1
            total += size
            for what in _remarkable(name, kind, mode, capable=capable):
                counts[what] += 1
                if len(found[what]) < SHOWN:
                    found[what].append(printable(b"/" + name, 120))
    except _Cut as reason:
        cut = str(reason)
    except ValueError as error:
        cut = f"the stream is no archive: {printable(str(error))}"
    return ImageTree(files, total, counts, {what: tuple(names) for what, names in found.items()}, cut)


def _remarkable(name: bytes, kind: bytes, mode: int, *, capable: bool) -> Iterator[str]:
    """Yields in which lists a member belongs."""
    if kind in {_FILE, _OLD_FILE}:
        if mode & _SET_ID:
            yield "set_id"
        if capable:
            yield "capable"
    if kind in {_CHARACTER, _BLOCK_DEVICE} and not name.startswith(b"dev/"):
        yield "devices"
    if kind in {_FILE, _OLD_FILE, _FOLDER} and mode & _OTHERS_WRITE:
        yield "writable"


def _members(stream: _Stream) -> Iterator[tuple[bytes, bytes, int, int, bool]]:
    """Yields name, kind, mode, size and whether it has capabilities, of every member of a tar stream."""
    records: dict[bytes, bytes] = {}
    long_name = b""
    while len(header := stream.take(_BLOCK)) == _BLOCK and any(header):
        if sum(header[:148]) + 8 * ord(" ") + sum(header[156:]) != _number(header[148:156]):
            raise ValueError("a header's checksum is wrong")
        kind, size = header[156:157], _number(header[124:136])
        if kind in {b"x", b"g", b"L", b"K"}:
            if size > _LONGEST_EXTENSION:
                raise _Cut(f"an extended header of {size} bytes")
            data = stream.take(size)
            stream.skip(-size % _BLOCK)
            if kind == b"x":
                records = _records(data)
            elif kind == b"L":
                long_name = data.rstrip(b"\0")
            continue
        if _SIZE in records:
            size = _whole_size(records[_SIZE])
        name = records.get(_PATH) or long_name or _short_name(header)
        yield name.removeprefix(b"./").lstrip(b"/"), kind, _number(header[100:108]), size, _CAPABILITY in records
        records, long_name = {}, b""
        if kind in {_FILE, _OLD_FILE, b"7"}:
            stream.skip(size + (-size % _BLOCK))


def _records(extension: bytes) -> dict[bytes, bytes]:
    """Returns the records of an extended header by their keys; of two the later counts, as in POSIX.

    Each is walked by the length that stands before it: a value may hold anything, also what looks like a record.

    Raises:
        ValueError: they do not fill the header.
    """
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(extension):
        length = _LENGTH.match(extension, at)
        end = at + int(length[1]) if length else 0
        if length is None or not length.end() < end <= len(extension) or extension[end - 1 : end] != b"\n":
            raise ValueError("an extended header's record is not as long as it says")
        key, _, value = extension[length.end() : end - 1].partition(b"=")
        found[key] = value
        at = end
    return found


def _whole_size(text: bytes) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError("an extended header's size is no number")
    return int(text)


def _short_name(header: bytes) -> bytes:
    name = header[:100].rstrip(b"\0")
    prefix = header[345:500].rstrip(b"\0") if header[257:262] == b"ustar" else b""
    return prefix + b"/" + name if prefix else name


def _number(field: bytes) -> int:
    """Returns a tar header's number: octal digits, or binary where its first bit is set."""
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    return int(digits, 8) if digits else 0


def facts(
    image: Mapping[str, Any], history: Sequence[Mapping[str, Any]], problems: Sequence[Problem], held: ImageTree | None
) -> ImageFacts:
    """Returns what `docker image inspect` and `history` say, in our words. All texts are hostile, and as they are."""
    config = image.get("Config") or {}
    test = (config.get("Healthcheck") or {}).get("Test") or []
    return ImageFacts(
        identity=str(image["Id"]),
        size=_whole(image.get("Size")),
        layers=tuple(_whole(layer.get("Size")) for layer in reversed(history)),
        user=str(config.get("User") or ""),
        entrypoint=_texts(config.get("Entrypoint")),
        command=_texts(config.get("Cmd")),
        folder=str(config.get("WorkingDir") or "/"),
        volumes=_texts(config.get("Volumes")),
        ports=_texts(config.get("ExposedPorts")),
        healthcheck=_texts(test),
        on_build=_texts(config.get("OnBuild")),
        labels={str(name): str(value) for name, value in (config.get("Labels") or {}).items()},
        environment=_texts(config.get("Env")),
        passed=frozenset(environment.filtered(_texts(config.get("Env")))),
        problems=tuple(problems),
        tree=held,
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list | dict) else ()


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


class Looked(Protocol):
    """What looking needs of the engine. Each call raises SandboxLost when the engine fails."""

    def history(self, image: str) -> list[Mapping[str, Any]]:
        """Returns an image's layers, the last one first."""
        ...

    def create(self, options: Mapping[str, Any], name: str) -> str:
        """Creates a container and returns its id."""
        ...

    def export(self, container: str) -> Generator[bytes, None, None]:
        """Yields a container's files as a tar stream in pieces."""
        ...

    def remove(self, container: str) -> None:
        """Removes it and its volumes; nothing happens when it is gone."""
        ...


def look(
    engine: Looked, image: Mapping[str, Any], problems: Sequence[Problem], labels: Mapping[str, str], *, files: bool
) -> ImageFacts:
    """Returns what an image is; with `files`, what lies in it, from a container that bears `labels` and never starts.

    An image with volumes is not looked into: making the container would write them to the host's disk.
    """
    config = image.get("Config") or {}
    held = None
    if files and config.get("Volumes"):
        held = tree(iter(()), 0)
        held = replace(held, cut="its volumes would be written to this machine's disk")
    elif files:
        container = engine.create(still(image, labels), f"sparring-look-{secrets.token_hex(8)}")
        try:
            with closing(engine.export(container)) as pieces:
                held = tree(pieces, 2 * _whole(image.get("Size")) + _SLACK)
        finally:
            engine.remove(container)
    return facts(image, engine.history(str(image["Id"])), problems, held)


def still(image: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Returns the description of a container that is only looked at: nothing of the image's configuration acts."""
    return {
        "Image": str(image["Id"]),
        "Entrypoint": ["/never-started"],
        "Cmd": [],
        "WorkingDir": "/",
        "User": "65534:65534",
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": dict(labels),
        "NetworkDisabled": True,
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "LogConfig": {"Type": "none"},
        },
    }
