"""The tar format: headers, their numbers and names, extended headers, padding, and the loop that reads members.

It follows the definitions of POSIX (ustar, pax) and GNU tar, and reads hostile bytes: it unpacks nothing, and holds one
header or one extended header of a stream at a time. Each reader decides what to refuse and tolerate, and how much to
read: `read_members` takes the bytes from its `TarSource`, which has the bounds, and asks its `TarRules`.
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
"""The kinds of extended headers, whose content describes the next member, or all members."""
POSIX, GNU = b"ustar\x0000", b"ustar  \0"
"""The value of a header's `magic` in each form."""
SPARSE_RECORD = "GNU.sparse."
"""The prefix of the records of a sparse file in pax headers."""
_MAGIC_OF_PREFIX = POSIX[:6]
_STAR_TRAILER = b"tar\0"
_LENGTH = re.compile(rb"(\d{1,8}) ")
_DECIMAL = re.compile(rb"\d{1,19}")
_OCTAL = re.compile(rb"[0-7]+")
_BINARY = 0x80
"""The first byte of a binary number; if more of its bits are set, the number is negative or too large."""


class TarDefect(StrEnum):
    """Defects that no reader accepts: bytes without a meaning in the format, or read differently by known programs."""

    CHECKSUM = "a header's checksum is wrong"
    NUMBER = "a header's number is none"
    NUMBER_BOUNDS = "a header's number is out of bounds"
    RECORD = "an extended header's record is not as long as it says"
    SIZE = "an extended header's size is no number"
    STAR_PREFIX = "a header of the old form of star, whose prefix is shorter"
    GNU_PREFIX = "a GNU header with times where others have a prefix"
    BETWEEN = "a header for all members before the member of another"
    """Go's archive/tar, which unpacks images on nodes, drops the next member's extended header at a global header."""


class TarDefectError(ValueError):
    """The bytes are no valid tar; `defect` says why."""

    def __init__(self, defect: TarDefect) -> None:
        super().__init__(str(defect))
        self.defect = defect


@dataclass(frozen=True, slots=True)
class TarHeader:
    """One header. Its properties read their fields from the block when used; numbers may raise TarDefectError."""

    block: bytes

    @property
    def kind(self) -> bytes:
        """The kind of the header, one byte: `FILE`, `RECORDS`, or any other value, also an unknown one."""
        return self.block[156:157]

    @property
    def magic(self) -> bytes:
        """The magic and version fields, which distinguish `POSIX` from `GNU`."""
        return self.block[257:265]

    @property
    def has_prefix(self) -> bool:
        """Whether the header's form has the beginning of the name in `prefix`."""
        return self.block[257:263] == _MAGIC_OF_PREFIX

    @property
    def prefix(self) -> bytes:
        """The raw bytes of the prefix field: the beginning of the name in POSIX's form, times in GNU's."""
        return self.block[345:500]

    @property
    def trailer(self) -> bytes:
        """The last four bytes, which mark the old form of star."""
        return self.block[508:512]

    @property
    def name(self) -> bytes:
        """The name, with the prefix before it if the header's form has one."""
        name = field_text(self.block[:100])
        prefix = field_text(self.prefix) if self.has_prefix else b""
        return prefix + b"/" + name if prefix else name

    @property
    def link(self) -> bytes:
        """The target of a link."""
        return field_text(self.block[157:257])

    @property
    def mode(self) -> int:
        """The mode field: the permissions, and possibly other bits."""
        return field_number(self.block[100:108])

    @property
    def size(self) -> int:
        """The number of content bytes that follow."""
        return field_number(self.block[124:136])

    @property
    def modified(self) -> int:
        """The time of the last change of the content, in seconds since 1970."""
        return field_number(self.block[136:148])

    def require_plain_prefix(self) -> None:
        """Raises TarDefectError if programs read the prefix field in different ways."""
        if self.has_prefix and self.trailer == _STAR_TRAILER:
            raise TarDefectError(TarDefect.STAR_PREFIX)
        if self.magic == GNU and self.prefix.strip(b"\0"):
            raise TarDefectError(TarDefect.GNU_PREFIX)

    def require_checksum(self) -> None:
        """Raises TarDefectError unless the checksum matches the block, in which its own field counts as spaces."""
        total = sum(self.block[:148]) + 8 * ord(" ") + sum(self.block[156:])
        if total != field_number(self.block[148:156]):
            raise TarDefectError(TarDefect.CHECKSUM)


class PaxRecord(NamedTuple):
    """One record of an extended header: `LENGTH KEY=VALUE` and a line feed. `equals` is empty if there is no `=`."""

    digits: bytes
    key: bytes
    equals: bytes
    value: bytes


def pax_records(extension: bytes) -> Iterator[PaxRecord]:
    """Yields the records of an extended header, which must fill it completely.

    The length before each record gives its end, since a value may contain anything, also bytes that look like a record.
    Raises TarDefectError at the first record whose length is wrong.
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
    """Returns the size in a record's value, decimal digits. Raises TarDefectError."""
    if not _DECIMAL.fullmatch(text):
        raise TarDefectError(TarDefect.SIZE)
    return int(text)


def field_text(field: bytes) -> bytes:
    """Returns the bytes before the first NUL of a header's text field, or of a GNU long name."""
    return field.partition(b"\0")[0]


def field_number(field: bytes) -> int:
    """Returns the number in a header's field, never negative: octal digits, or binary if its first bit is set.

    Raises TarDefectError for other characters, and for a binary number that is negative or uses bits of the first byte.
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
    """Returns the number of bytes that fill the last block of a content of this size."""
    return -size % BLOCK_BYTES


class TarSource(Protocol):
    """The bytes of a stream within a reader's bounds; its methods raise the reader's own errors."""

    def take(self, count: int) -> bytes:
        """Returns `count` bytes, or fewer at the end of a stream if the reader tolerates that."""
        ...

    def skip(self, count: int) -> None:
        """Skips `count` bytes, which must exist."""
        ...

    def begin_content(self, size: int) -> None:
        """Begins a member's content: the next `size` bytes, with their padding."""
        ...

    def end_content(self) -> None:
        """Skips the bytes of the content that were not taken, and its padding."""
        ...


MemberT = TypeVar("MemberT", covariant=True)  # noqa: PLC0105  the name of what it stands for


class TarRules(Protocol[MemberT]):
    """The rules by which one reader refuses members, with its own errors. It keeps the data of extended headers."""

    def check_form(self, header: TarHeader) -> None:
        """Raises an error for a header of an unsupported form. Its checksum is not verified yet."""
        ...

    def check_extension_size(self, size: int) -> None:
        """Raises an error for an extended header that is too long."""
        ...

    def add_extension(self, kind: bytes, data: bytes) -> None:
        """Keeps the data of an extended header, whose kind is one of `EXTENSIONS`."""
        ...

    def end_member(self, header: TarHeader) -> tuple[MemberT, int]:
        """Returns a member and its content's size in bytes, and drops the extended headers before it."""
        ...


def read_members(source: TarSource, rules: TarRules[MemberT]) -> Iterator[MemberT]:
    """Yields every member up to a block of zeros, or up to the end if the source tolerates an early one.

    After a member is yielded, its content comes next in the source; the rest of it is skipped before the next member.

    Raises:
        TarDefectError: a header or an extended header breaks the format.
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
