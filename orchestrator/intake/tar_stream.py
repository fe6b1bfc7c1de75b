"""A tar stream from strangers, read header by header: what is odd is refused, nothing is unpacked, little is held.

Strict on purpose. Two readers that take one header differently are how files get past a check, so there is one way to
say a name and a size: POSIX (ustar, pax) or GNU, no sparse files, no pax record twice, no size in two places that
differ, zeros to the end. `tarfile` reads more kinds than anybody should send, and holds extended headers of any length.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

BLOCK = 512
PIECE_BYTES = 1024 * 1024
"""The most bytes of a file that are held at a time."""
_MAX_EXTENSION_BYTES = 64 * 1024
_MAX_RECORDS = 100
_MAX_TAIL_BYTES = 1024 * 1024
_POSIX, _GNU = b"ustar\x0000", b"ustar  \0"
_STANDARD = frozenset(
    {"path", "linkpath", "size", "mtime", "atime", "ctime", "uid", "gid", "uname", "gname", "comment", "hdrcharset"}
)
_VENDOR = re.compile(r"[A-Z][A-Za-z0-9_-]*\..+", re.DOTALL)
_UTF_8 = frozenset({b"ISO-IR 10646 2000 UTF-8", b"BINARY"})


class MalformedArchive(Exception):
    """The bytes are no archive that is read here; the message says why, and `remedy` what to do."""

    def __init__(self, what: str, remedy: str = "pack it again with a plain tar or zip") -> None:
        super().__init__(what)
        self.remedy = remedy


class MemberKind(StrEnum):
    """What a member is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "symbolic link"
    HARD_LINK = "hard link"
    CHARACTER_DEVICE = "character device"
    BLOCK_DEVICE = "block device"
    FIFO = "FIFO"


_KINDS = {
    b"0": MemberKind.FILE,
    b"\0": MemberKind.FILE,
    b"1": MemberKind.HARD_LINK,
    b"2": MemberKind.LINK,
    b"3": MemberKind.CHARACTER_DEVICE,
    b"4": MemberKind.BLOCK_DEVICE,
    b"5": MemberKind.FOLDER,
    b"6": MemberKind.FIFO,
}


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of an archive: hostile in every field. `pax` are its extended records that are not used here."""

    name: bytes
    kind: MemberKind
    mode: int
    size: int
    link: bytes = b""
    pax: Mapping[str, bytes] = field(default_factory=dict)


ReadBytes = Callable[[int], bytes]
"""Returns at most so many bytes, b"" at the end."""


class TarStream:
    """Yields the members of a tar stream in order; `content` yields the bytes of the one that was yielded last."""

    def __init__(self, read: ReadBytes) -> None:
        self._read = read
        self._left = self._padding = 0

    def __iter__(self) -> Iterator[Member]:
        """Yields every member. Raises Malformed at the first header that is not as it should be."""
        extended: dict[str, bytes] = {}
        long: dict[str, bytes] = {}
        while any(header := self._exactly(BLOCK)):
            kind, size = _header_kind_and_size(header)
            if kind in {b"x", b"g", b"L", b"K"}:
                data = self._extension(size)
                key = {b"L": "path", b"K": "linkpath"}.get(kind, "")
                if (kind == b"x" and extended) or key in long:
                    raise MalformedArchive("two extended headers for one member")
                if kind == b"g":
                    _refuse_global(_pax_records(data))
                elif kind == b"x":
                    extended = _pax_records(data)
                else:
                    long[key] = data.removesuffix(b"\0")
                continue
            if long and extended:
                raise MalformedArchive("a member with a long name in GNU's and in POSIX's way")
            member = _member(header, kind, size, long or extended)
            extended, long = {}, {}
            self._left, self._padding = member.size, -member.size % BLOCK
            yield member
            for _ in self.content():
                pass
        if extended or long:
            raise MalformedArchive("an extended header without a member")
        self._end()

    def content(self) -> Iterator[bytes]:
        """Yields what is left of the member's bytes, in pieces of at most `PIECE`. Raises Malformed at a short end."""
        while self._left:
            piece = self._read(min(self._left, PIECE_BYTES))
            if not piece:
                raise MalformedArchive("it ends inside a file", "it was cut short: send it again")
            self._left -= len(piece)
            yield piece
        padding, self._padding = self._padding, 0
        self._exactly(padding)

    def _extension(self, size: int) -> bytes:
        if size > _MAX_EXTENSION_BYTES:
            raise MalformedArchive(
                f"an extended header of {size} bytes, at most {_MAX_EXTENSION_BYTES}", "use shorter names"
            )
        data = self._exactly(size)
        self._exactly(-size % BLOCK)
        return data

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._read(count - len(data))
            if not piece:
                raise MalformedArchive("it ends before its end mark", "it was cut short: send it again")
            data += piece
        return data

    def _end(self) -> None:
        """After one block of zeros comes another, and then only zeros, which pad the last record."""
        if any(self._exactly(BLOCK)):
            raise MalformedArchive("a lone block of zeros")
        tail = 0
        while piece := self._read(PIECE_BYTES):
            tail += len(piece)
            if piece.count(0) != len(piece) or tail > _MAX_TAIL_BYTES:
                raise MalformedArchive("bytes after its end mark")


def _header_kind_and_size(header: bytes) -> tuple[bytes, int]:
    """Returns a header's kind and size. Raises Malformed."""
    if header[257:265] not in {_POSIX, _GNU}:
        raise MalformedArchive("a header that is neither POSIX's nor GNU's")
    if sum(header[:148]) + 8 * ord(" ") + sum(header[156:]) != _header_number(header[148:156]):
        raise MalformedArchive("a header's checksum is wrong", "it is damaged: send it again")
    return header[156:157], _header_number(header[124:136])


def _member(header: bytes, kind: bytes, size: int, more: Mapping[str, bytes]) -> Member:
    if kind not in _KINDS:
        what = "a sparse file" if kind == b"S" else f"a member of the kind {kind!r}"
        raise MalformedArchive(what, "pack plain files and folders (GNU tar: without --sparse)")
    known = {key: value for key, value in more.items() if key in {"path", "linkpath", "size"}}
    if "size" in known:
        size = _agreed_size(size, known["size"])
    name = known.get("path", _short_name(header))
    if not name or b"\0" in name or b"\0" in known.get("linkpath", b""):
        raise MalformedArchive("a member whose name is empty or holds a NUL")
    meant = MemberKind.FOLDER if _KINDS[kind] is MemberKind.FILE and name.endswith(b"/") else _KINDS[kind]
    if size and meant is not MemberKind.FILE:
        raise MalformedArchive(f"a {meant} of {size} bytes")
    pax = {key: value for key, value in more.items() if key not in known}
    link = known.get("linkpath", header[157:257].partition(b"\0")[0])
    return Member(name, meant, _header_number(header[100:108]) & 0o7777, size, link, pax)


def _agreed_size(short: int, said: bytes) -> int:
    if not said.isdigit() or len(said) > len(str(2**63)):
        raise MalformedArchive("a size that is no number")
    size = int(said)
    if short not in {0, size}:
        raise MalformedArchive(f"a member of {short} bytes by its header and {size} by its extended header")
    return size


def _short_name(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:265] == _POSIX else b""
    return prefix + b"/" + name if prefix else name


def _pax_records(data: bytes) -> dict[str, bytes]:
    """Returns the records of a pax header, each `length name=value` and a line's end, each name once."""
    found: dict[str, bytes] = {}
    while data:
        digits, space, _ = data[:8].partition(b" ")
        length = int(digits) if space and digits.isdigit() else 0
        record, data = data[:length], data[length:]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if not length or len(record) != length or record[-1:] != b"\n" or not equals:
            raise MalformedArchive("an extended header that is not made of records")
        name = key.decode("utf-8", "replace")
        if name in found or len(found) == _MAX_RECORDS:
            raise MalformedArchive("an extended header with a record twice, or with too many")
        if name.startswith("GNU.sparse.") or not (name in _STANDARD or _VENDOR.fullmatch(name)):
            raise MalformedArchive(f"an extended header with the record {name[:40]!r}", "pack plain files and folders")
        found[name] = value
    if found.get("hdrcharset", b"BINARY") not in _UTF_8:
        raise MalformedArchive("names in another encoding than UTF-8")
    return found


def _refuse_global(records: Mapping[str, bytes]) -> None:
    """A global header changes every member after it; `git archive` writes one that only comments."""
    if records.keys() - {"comment"}:
        raise MalformedArchive("an extended header for all members", "pack it with GNU tar, bsdtar or git archive")


def _header_number(digits: bytes) -> int:
    """Returns a header's number: octal digits, or binary where its first bit is set."""
    if digits[0] & 0x80:
        if digits[0] != 0x80:  # noqa: PLR2004  the sign and the bits above 2^88
            raise MalformedArchive("a number in a header that is negative or too large")
        return int.from_bytes(digits[1:], "big")
    text = digits.strip(b" \0")
    if text.strip(b"01234567"):
        raise MalformedArchive("a number in a header that is none", "it is damaged: send it again")
    return int(text, 8) if text else 0
