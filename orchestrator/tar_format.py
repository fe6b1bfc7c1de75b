"""The tar format, in one place: headers, their numbers and names, extended headers, padding, and the walk along them.

Each part says what POSIX (ustar, pax) and GNU tar define, and reads hostile bytes: nothing is unpacked, and of a stream
one header or one extended header is held at a time. What a reader refuses, tolerates and how much it reads is not
decided here: `read_members` takes the bytes from a `TarSource`, which has the bounds, and asks `TarRules`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

BLOCK_BYTES = 512
FILE, OLD_FILE, HARD_LINK, LINK, CHARACTER_DEVICE, BLOCK_DEVICE, FOLDER, FIFO, RESERVED = (
    b"0", b"\0", b"1", b"2", b"3", b"4", b"5", b"6", b"7",
)  # fmt: skip
RECORDS, GLOBAL_RECORDS, LONG_NAME, LONG_LINK = b"x", b"g", b"L", b"K"
SPARSE = b"S"
EXTENSIONS = frozenset({RECORDS, GLOBAL_RECORDS, LONG_NAME, LONG_LINK})
"""Headers whose content says more about the member after them, or about all members."""
POSIX, GNU = b"ustar\x0000", b"ustar  \0"
"""What stands in a header of each form, in place of `magic`."""
SPARSE_RECORD = "GNU.sparse."
"""How the records of a file with holes begin, in pax headers."""
_MAGIC_OF_PREFIX = POSIX[:6]
_STAR_TRAILER = b"tar\0"
_LENGTH = re.compile(rb"(\d{1,8}) ")
_DECIMAL = re.compile(rb"\d{1,19}")
_OCTAL = re.compile(rb"[0-7]+")
_BINARY = 0x80
"""The first byte of a number that is written in binary; with more bits set, it is negative or too large."""


class TarDefect(StrEnum):
    """What no reader accepts: bytes that the format gives no meaning, and what programs are known to read otherwise."""

    CHECKSUM = "a header's checksum is wrong"
    NUMBER = "a header's number is none"
    NUMBER_BOUNDS = "a header's number is out of bounds"
    RECORD = "an extended header's record is not as long as it says"
    SIZE = "an extended header's size is no number"
    STAR_PREFIX = "a header of the old form of star, whose prefix is shorter"
    GNU_PREFIX = "a GNU header with times where others have a prefix"
    BETWEEN = "a header for all members before the member of another"
    """Go's archive/tar, which unpacks images on nodes, forgets at a global header what was said of the next member."""


class TarDefectError(ValueError):
    """The bytes are no tar; `defect` is why."""

    def __init__(self, defect: TarDefect) -> None:
        super().__init__(str(defect))
        self.defect = defect


@dataclass(frozen=True, slots=True)
class TarHeader:
    """One header: a block of which every field is read when it is asked for. Numbers raise TarDefectError."""

    block: bytes

    @property
    def kind(self) -> bytes:
        """What the header is of, one byte: `FILE`, `RECORDS`, or what nobody knows."""
        return self.block[156:157]

    @property
    def magic(self) -> bytes:
        """The field and its version that tell `POSIX` from `GNU`."""
        return self.block[257:265]

    @property
    def has_prefix(self) -> bool:
        """Whether it is of a form that has the beginning of the name in `prefix`."""
        return self.block[257:263] == _MAGIC_OF_PREFIX

    @property
    def prefix(self) -> bytes:
        """Where POSIX has the beginning of a name, GNU has times; its bytes as they are."""
        return self.block[345:500]

    @property
    def trailer(self) -> bytes:
        """The last bytes, by which the old form of star is known."""
        return self.block[508:512]

    @property
    def name(self) -> bytes:
        """The name, with the prefix before it where the header is of a form that has one."""
        name = field_text(self.block[:100])
        prefix = field_text(self.prefix) if self.has_prefix else b""
        return prefix + b"/" + name if prefix else name

    @property
    def link(self) -> bytes:
        """Where a link leads."""
        return field_text(self.block[157:257])

    @property
    def mode(self) -> int:
        """The permissions, and whatever else stands there."""
        return field_number(self.block[100:108])

    @property
    def size(self) -> int:
        """How many bytes of content follow."""
        return field_number(self.block[124:136])

    @property
    def modified(self) -> int:
        """When the content was changed last, in seconds since 1970."""
        return field_number(self.block[136:148])

    def require_plain_prefix(self) -> None:
        """Raises TarDefectError where programs read the prefix in different ways."""
        if self.has_prefix and self.trailer == _STAR_TRAILER:
            raise TarDefectError(TarDefect.STAR_PREFIX)
        if self.magic == GNU and self.prefix.strip(b"\0"):
            raise TarDefectError(TarDefect.GNU_PREFIX)

    def require_checksum(self) -> None:
        """Raises TarDefectError unless the checksum is that of the block, its own field taken as spaces."""
        total = sum(self.block[:148]) + 8 * ord(" ") + sum(self.block[156:])
        if total != field_number(self.block[148:156]):
            raise TarDefectError(TarDefect.CHECKSUM)


class PaxRecord(NamedTuple):
    """One record of an extended header: `LENGTH KEY=VALUE` and a line's end. `equals` is empty where there is none."""

    digits: bytes
    key: bytes
    equals: bytes
    value: bytes


def pax_records(extension: bytes) -> Iterator[PaxRecord]:
    """Yields the records of an extended header, which have to fill it.

    Each is walked by the length that stands before it: a value may hold anything, also what looks like a record.
    Raises TarDefectError at the first that is not as long as it says.
    """
    at = 0
    while at < len(extension):
        length = _LENGTH.match(extension, at)
        end = at + int(length[1]) if length else 0
        if length is None or not length.end() < end <= len(extension) or extension[end - 1 : end] != b"\n":
            raise TarDefectError(TarDefect.RECORD)
        yield PaxRecord(length[1], *extension[length.end() : end - 1].partition(b"="))
        at = end


def pax_size(text: bytes) -> int:
    """Returns the size that a record says: decimal digits. Raises TarDefectError."""
    if not _DECIMAL.fullmatch(text):
        raise TarDefectError(TarDefect.SIZE)
    return int(text)


def field_text(field: bytes) -> bytes:
    """Returns a header's text, or a long name of GNU's: what stands before the first NUL."""
    return field.partition(b"\0")[0]


def field_number(field: bytes) -> int:
    """Returns a header's number, never negative: octal digits, or binary where its first bit is set.

    Raises TarDefectError for another character, a sign, and bits beyond those of the bytes after the first.
    """
    if field[0] & _BINARY:
        if field[0] != _BINARY:
            raise TarDefectError(TarDefect.NUMBER_BOUNDS)
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits:
        return 0
    if not _OCTAL.fullmatch(digits):
        raise TarDefectError(TarDefect.NUMBER)
    return int(digits, 8)


def padding_bytes(size: int) -> int:
    """Returns how many bytes fill the last block of a content."""
    return -size % BLOCK_BYTES


class TarSource(Protocol):
    """The bytes of a stream, within the bounds of whoever reads, whose errors its methods raise."""

    def take(self, count: int) -> bytes:
        """Returns so many bytes. Fewer at the end of the stream, where that is tolerated."""
        ...

    def skip(self, count: int) -> None:
        """Passes over so many bytes, which have to be there."""
        ...

    def begin_content(self, size: int) -> None:
        """Notes that so many bytes of a member's content come next, and their padding."""
        ...

    def end_content(self) -> None:
        """Passes over what nobody took of the content, and over its padding."""
        ...


MemberT = TypeVar("MemberT", covariant=True)  # noqa: PLC0105  the name of what it stands for


class TarRules(Protocol[MemberT]):
    """What one reader refuses and tolerates, with its own errors. It keeps what extended headers said."""

    def check_form(self, header: TarHeader) -> None:
        """Refuses a header of a form that is not read. Its checksum was not looked at."""
        ...

    def check_extension_size(self, size: int) -> None:
        """Refuses an extended header that is too long to be held."""
        ...

    def add_extension(self, kind: bytes, data: bytes) -> None:
        """Keeps what an extended header says, whose kind is one of `EXTENSIONS`."""
        ...

    def end_member(self, header: TarHeader) -> tuple[MemberT, int]:
        """Returns a member and the bytes of its content, and forgets the extended headers before it."""
        ...


def read_members(source: TarSource, rules: TarRules[MemberT]) -> Iterator[MemberT]:
    """Yields every member up to a block of zeros, or to the end of a source that tolerates a short one.

    While a member is looked at its content comes next in the source; what is left of it is passed afterwards.

    Raises:
        TarDefectError: a header or an extended header is not of the format.
    """
    is_described = False
    while len(block := source.take(BLOCK_BYTES)) == BLOCK_BYTES and any(block):
        header = TarHeader(block)
        rules.check_form(header)
        header.require_checksum()
        size = header.size
        if header.kind in EXTENSIONS:
            if is_described and header.kind == GLOBAL_RECORDS:
                raise TarDefectError(TarDefect.BETWEEN)
            is_described = header.kind != GLOBAL_RECORDS
            rules.check_extension_size(size)
            data = source.take(size)
            source.skip(padding_bytes(size))
            rules.add_extension(header.kind, data)
            continue
        is_described = False
        header.require_plain_prefix()
        member, content = rules.end_member(header)
        source.begin_content(content)
        yield member
        source.end_content()
