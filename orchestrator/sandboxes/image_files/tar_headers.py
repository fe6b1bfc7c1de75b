"""A tar archive that comes as a stream from who knows where, read header by header.

Names, sizes and extended headers are hostile: nothing is unpacked, nothing longer than `_LONGEST_EXTENSION` is held,
and bytes and time are bounded. Engines and nodes read the same bytes with Go's archive/tar. What it might read
otherwise is refused (a name said twice in different ways, a prefix where there may be none), so that nobody shows us
other files than the machines that play get.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestrator.sandboxes.image_files.mount_points import FileKind

_BLOCK = 512
_LONGEST_EXTENSION = 1024**2
_FILE, _OLD_FILE, _FOLDER, _HARD_LINK, _RESERVED = b"0", b"\0", b"5", b"1", b"7"
_DEVICES = (b"3", b"4")
_KINDS = {
    _FILE: FileKind.FILE,
    _OLD_FILE: FileKind.FILE,
    _FOLDER: FileKind.FOLDER,
    _HARD_LINK: FileKind.FILE,
    b"2": FileKind.LINK,
    b"3": FileKind.OTHER,
    b"4": FileKind.OTHER,
    b"6": FileKind.OTHER,
    _RESERVED: FileKind.OTHER,
}
_USTAR, _GNU, _STAR_END = b"ustar\0", b"ustar  \0", b"tar\0"
_CAPABILITY, _PATH, _LINK_PATH, _SIZE = b"SCHILY.xattr.security.capability", b"path", b"linkpath", b"size"
_SPARSE = b"GNU.sparse."
_LENGTH = re.compile(rb"(\d{1,8}) ")
_NUMBER = re.compile(rb"\d{1,19}")


class Cut(Exception):
    """The stream is not looked at any further; the message says why."""


class Stream:
    """Bytes in pieces, read in the sizes that are wanted, within bounds. `at` is how many were passed."""

    def __init__(self, pieces: Iterator[bytes], most: int, seconds: float) -> None:
        self._pieces, self._left = pieces, most
        self._until = time.monotonic() + seconds
        self._held = b""
        self._at = 0
        self.at = 0

    def take(self, count: int) -> bytes:
        """Returns so many bytes, fewer at the end of the stream."""
        while len(self._held) - self._at < count and self._more():
            pass
        data = self._held[self._at : self._at + count]
        self._at += len(data)
        self.at += len(data)
        return data

    def skip(self, count: int) -> None:
        """Passes over so many bytes."""
        self.at += count
        while count > len(self._held) - self._at:
            count -= len(self._held) - self._at
            self._held, self._at = b"", 0
            if not self._more():
                raise Cut("the stream ends inside a file")
        self._at += count

    def _more(self) -> bool:
        if time.monotonic() > self._until:
            raise Cut("the time for looking is over")
        piece = next(self._pieces, b"")
        self._left -= len(piece)
        if self._left < 0:
            raise Cut("it holds more bytes than an image may have")
        self._held, self._at = self._held[self._at :] + piece, 0
        return bool(piece)


@dataclass(frozen=True, slots=True)
class Member:
    """One member. `target` is where a symbolic link leads, or the path of the file that a hard link is."""

    name: bytes
    kind: FileKind
    mode: int
    size: int
    target: bytes = b""
    hard: bool = False
    capable: bool = False
    device: bool = False


def members(stream: Stream) -> Iterator[Member]:
    """Yields every member. A file's bytes come next in the stream, for whoever asks; what is left of them is passed.

    Raises:
        Cut: a bound is reached.
        ValueError: it is no archive, or one that could be read in two ways.
    """
    records: dict[bytes, bytes] = {}
    long_names: dict[bytes, bytes] = {}
    while len(header := stream.take(_BLOCK)) == _BLOCK and any(header):
        if sum(header[:148]) + 8 * ord(" ") + sum(header[156:]) != _number(header[148:156]):
            raise ValueError("a header's checksum is wrong")
        kind, size = header[156:157], _number(header[124:136])
        if kind in {b"x", b"g", b"L", b"K"}:
            if size > _LONGEST_EXTENSION:
                raise Cut(f"an extended header of {size} bytes")
            data = stream.take(size)
            stream.skip(-size % _BLOCK)
            if kind == b"x":
                records = _records(data)
            elif kind != b"g":
                long_names[kind] = _text(data)
            continue
        found = _member(header, kind, records, long_names)
        began, length = stream.at, found.size if kind in {_FILE, _OLD_FILE, _RESERVED} else 0
        yield found
        stream.skip(length + (-length % _BLOCK) - (stream.at - began))
        records, long_names = {}, {}


def _member(header: bytes, kind: bytes, records: Mapping[bytes, bytes], long_names: Mapping[bytes, bytes]) -> Member:
    if kind not in _KINDS:
        raise ValueError(f"a member of the unknown type {kind!r}")
    if any(key.startswith(_SPARSE) for key in records):
        raise ValueError("a file with holes (GNU.sparse)")
    name = _said(records.get(_PATH), long_names.get(b"L"), _short_name(header))
    what = FileKind.FOLDER if kind == _OLD_FILE and name.endswith(b"/") else _KINDS[kind]
    return Member(
        name=name.removeprefix(b"./").lstrip(b"/"),
        kind=what,
        mode=_number(header[100:108]),
        size=_whole_size(records[_SIZE]) if _SIZE in records else _number(header[124:136]),
        target=_said(records.get(_LINK_PATH), long_names.get(b"K"), _text(header[157:257])),
        hard=kind == _HARD_LINK,
        capable=_CAPABILITY in records,
        device=kind in _DEVICES,
    )


def _said(recorded: bytes | None, extended: bytes | None, short: bytes) -> bytes:
    """Returns what two kinds of extension and the header say of a path. Of two extensions, programs differ in which."""
    if recorded and extended and recorded != extended:
        raise ValueError("a path is said twice, in two ways")
    if recorded and b"\0" in recorded:
        raise ValueError("a path with a NUL character")
    return recorded or extended or short


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
    """Returns the name in a header: with the prefix that POSIX has before it, where the header is of that form."""
    name = _text(header[:100])
    if header[257:263] == _USTAR:
        if header[508:512] == _STAR_END:
            raise ValueError("a header of the old form of star, whose prefix is shorter")
        prefix = _text(header[345:500])
        return prefix + b"/" + name if prefix else name
    if header[257:265] == _GNU and header[345:500].strip(b"\0"):
        raise ValueError("a GNU header with times where others have a prefix")
    return name


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _number(field: bytes) -> int:
    """Returns a tar header's number: octal digits, or binary where its first bit is set."""
    if field[0] & 0x80:
        if field[0] != 0x80:  # noqa: PLR2004  a negative number, or one that no file has
            raise ValueError("a header's number is out of bounds")
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits:
        return 0
    if not digits.isdigit():
        raise ValueError("a header's number is none")
    return int(digits, 8)
