"""Reads a zip from strangers. The list at its end and the headers before each file have to agree, and cover the zip.

Some readers use the list, others the headers; a member that is only in one of them could evade a check. So the list is
read once, every member has to follow the one before it without a gap or an overlap, and encrypted, split and 64-bit
zips are refused. The header before a file may have its sizes in 64 bits, as NumPy writes it, if the list has the same
sizes in 32 bits. Bytes are inflated in pieces, counted, and compared with their checksum.
"""

import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from orchestrator.archives.decompress import RatioLimit, SizeLimit, decompressed
from orchestrator.archives.members import PIECE_BYTES, MalformedArchive, Member, MemberKind

MAX_DIRECTORY_BYTES = 16 * 1024**2
_END_RECORD = struct.Struct("<4s4H2LH")
_DIRECTORY_HEADER = struct.Struct("<4s6H3L5H2L")
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _DESCRIBED, _UTF_8 = 0x0001, 0x0008, 0x0800
_KNOWN_FLAGS = 0x0006 | _DESCRIBED | _UTF_8
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFFFFFF
"""The values that mean that the number is in a 64-bit field elsewhere."""
_UNIX = 3
_UNICODE_NAME, _ZIP_64 = 0x7075, 0x0001
_WIDE_SIZES = struct.Struct("<2H2Q")
"""The complete extra field with a member's size and packed size in 64 bits."""
_PACK_SMALL = "pack it with `zip -r`, in one file of less than 4 GiB"
_NAME_PLAINLY = "use plain letters in names, and pack it with `zip -r`"
_DESCRIPTORS = {_DESCRIBED: (12, 16), 0: (0,)}
"""How many bytes may follow a member, by flag: none, or its checksum and sizes with or without a signature."""
_UNIX_KINDS = {
    0: MemberKind.FILE,
    stat.S_IFREG: MemberKind.FILE,
    stat.S_IFDIR: MemberKind.FOLDER,
    stat.S_IFLNK: MemberKind.LINK,
    stat.S_IFCHR: MemberKind.CHARACTER_DEVICE,
    stat.S_IFBLK: MemberKind.BLOCK_DEVICE,
    stat.S_IFIFO: MemberKind.FIFO,
}


@dataclass(frozen=True, slots=True)
class _ZipEntry:
    member: Member
    flags: int
    method: int
    checksum: int
    packed: int
    offset: int
    raw: bytes


class ZipStream:
    """Yields the members of a zip in the order of their offsets; `content` yields the bytes of the latest one."""

    def __init__(self, file: BinaryIO, size: int, members: int, bounds: tuple[RatioLimit, SizeLimit]) -> None:
        self._file, self._size, self._max_members = file, size, members
        self._ratio_limit, self._size_limit = bounds
        self._entry: _ZipEntry | None = None
        self._data_offset = 0

    def __iter__(self) -> Iterator[Member]:
        """Yields every member. Raises MalformedArchive if the zip is not valid."""
        listed, directory_offset = self._read_directory()
        at = 0
        for position, entry in enumerate(listed):
            self._data_offset = self._check_local_header(entry, at)
            follows = listed[position + 1].offset if position + 1 < len(listed) else directory_offset
            after = follows - self._data_offset - entry.packed
            if after not in _DESCRIPTORS[entry.flags & _DESCRIBED]:
                raise MalformedArchive("members that overlap, or bytes that no member owns")
            at, self._entry = follows, entry
            yield entry.member
            for _ in self.content():
                pass
        if at != directory_offset:
            raise MalformedArchive("members that overlap, or bytes that no member owns")

    def content(self) -> Iterator[bytes]:
        """Yields the member's bytes, at most `PIECE_BYTES` at a time. Raises MalformedArchive if they are wrong."""
        entry, self._entry = self._entry, None
        if entry is None:
            return
        size, checksum = 0, 0
        for piece in self._decompressed_pieces(entry):
            size += len(piece)
            if size > entry.member.size:
                break
            self._ratio_limit.add_output(piece)
            self._size_limit.add_output(piece)
            checksum = zlib.crc32(piece, checksum)
            yield piece
        if size != entry.member.size or checksum != entry.checksum:
            raise MalformedArchive("a file that is not what the list says of it", "it is damaged: send it again")

    def _decompressed_pieces(self, entry: _ZipEntry) -> Iterator[bytes]:
        pieces = self._packed_pieces(entry)
        return decompressed(pieces, -zlib.MAX_WBITS) if entry.method == _DEFLATED else pieces

    def _packed_pieces(self, entry: _ZipEntry) -> Iterator[bytes]:
        self._file.seek(self._data_offset)
        left = entry.packed
        while left:
            piece = self._file.read(min(left, PIECE_BYTES))
            if not piece:
                raise MalformedArchive("it ends inside a file", "it was cut short: send it again")
            left -= len(piece)
            self._ratio_limit.add_input(piece)
            yield piece

    def _read_directory(self) -> tuple[list[_ZipEntry], int]:
        """Returns the members in the order of their offsets, and the offset of the list."""
        count, length, offset = self._read_end_record()
        if count > self._max_members:
            raise MalformedArchive(f"{count} members, at most {self._max_members}", "leave out what is not needed")
        if length > MAX_DIRECTORY_BYTES:
            raise MalformedArchive(f"a list of {length} bytes, at most {MAX_DIRECTORY_BYTES}", "use shorter names")
        self._file.seek(offset)
        data = self._file.read(length)
        entries, at = [], 0
        for _ in range(count):
            entry, at = _directory_entry(data, at)
            entries.append(entry)
        if at != len(data):
            raise MalformedArchive("a list that is longer than its members")
        return sorted(entries, key=lambda entry: entry.offset), offset

    def _read_end_record(self) -> tuple[int, int, int]:
        """Returns the number of members, the length of the list, and its offset."""
        tail_at = max(0, self._size - _END_RECORD.size - 0xFFFF)
        self._file.seek(tail_at)
        tail = self._file.read(self._size - tail_at)
        at = tail.rfind(b"PK\x05\x06")
        if at < 0:
            self._file.seek(0)
            if self._file.read(2) != b"PK":
                raise MalformedArchive("no zip", _PACK_SMALL)
        if at < 0 or len(tail) - at < _END_RECORD.size:
            raise MalformedArchive("no list of members at its end", "it was cut short: send it again")
        _, disk, first, disk_count, count, length, offset, comment = _END_RECORD.unpack_from(tail, at)
        if _FULL_16 in {disk_count, count} or _FULL_32 in {length, offset}:
            raise MalformedArchive("a 64-bit zip", _PACK_SMALL)
        if disk or first or disk_count != count:
            raise MalformedArchive("a part of a split zip", "pack it in one file")
        if tail_at + at + _END_RECORD.size + comment != self._size or offset + length != tail_at + at:
            raise MalformedArchive("a list of members that is not at its end")
        return count, length, offset

    def _check_local_header(self, entry: _ZipEntry, at: int) -> int:
        """Returns the offset of a member's bytes. Raises MalformedArchive if its own header contradicts the list."""
        if entry.offset != at:
            raise MalformedArchive("members that overlap, or bytes that no member owns")
        self._file.seek(at)
        head = self._file.read(_LOCAL_HEADER.size)
        if len(head) < _LOCAL_HEADER.size or head[:4] != b"PK\x03\x04":
            raise MalformedArchive("a member without a header")
        flags, method, _, _, checksum, packed, size, named, extra = _LOCAL_HEADER.unpack(head)[2:]
        name_fields = (flags, method, self._file.read(named))
        extra_fields = self._file.read(extra)
        if name_fields != (entry.flags, entry.method, entry.raw):
            raise MalformedArchive("a header that contradicts the list of members")
        packed, size, extra_fields = _header_sizes(packed, size, extra_fields)
        size_fields = (checksum, packed, size)
        if size_fields != (entry.checksum, entry.packed, entry.member.size) and not (
            flags & _DESCRIBED and not any(size_fields)
        ):
            raise MalformedArchive("a header that contradicts the list of members")
        _check_extra(extra_fields)
        return at + _LOCAL_HEADER.size + int(named) + int(extra)


def _directory_entry(data: bytes, at: int) -> tuple[_ZipEntry, int]:
    """Returns the member at a position of the list, and the position of the next one."""
    if len(data) - at < _DIRECTORY_HEADER.size or data[at : at + 4] != b"PK\x01\x02":
        raise MalformedArchive("a list of members that is cut short", "it was cut short: send it again")
    fields = _DIRECTORY_HEADER.unpack_from(data, at)
    _, made_by, _, flags, method, _, _, checksum, packed, size, named, extra, comment, disk, _, outer, offset = fields
    name_offset = at + _DIRECTORY_HEADER.size
    raw = data[name_offset : name_offset + named]
    if flags & _ENCRYPTED or flags & ~_KNOWN_FLAGS:
        raise MalformedArchive("encrypted, or packed in a way that is not read here", "pack it without a password")
    if method not in {_STORED, _DEFLATED}:
        raise MalformedArchive(f"compression method {method}", "pack it with deflate, as zip does by default")
    if method == _STORED and packed != size:
        raise MalformedArchive("a stored file with two sizes")
    if disk or _FULL_32 in {packed, size, offset}:
        raise MalformedArchive("a split or a 64-bit zip", _PACK_SMALL)
    if not flags & _UTF_8 and not raw.isascii():
        raise MalformedArchive("a name whose encoding is not said", _NAME_PLAINLY)
    if b"\0" in raw or not raw:
        raise MalformedArchive("a member whose name is empty or holds a NUL")
    _check_extra(data[name_offset + named : name_offset + named + extra])
    mode = outer >> 16 if made_by >> 8 == _UNIX else 0
    member = Member(raw, _member_kind(raw, mode), stat.S_IMODE(mode), size)
    if member.kind is not MemberKind.FILE and size and member.kind is not MemberKind.LINK:
        raise MalformedArchive(f"a {member.kind} of {size} bytes")
    return _ZipEntry(member, flags, method, checksum, packed, offset, raw), name_offset + named + extra + comment


def _member_kind(raw: bytes, mode: int) -> MemberKind:
    kind = _UNIX_KINDS.get(stat.S_IFMT(mode))
    if kind is None:
        raise MalformedArchive("a member of an unknown kind", "pack plain files and folders")
    if raw.endswith(b"/") and kind is MemberKind.FILE:
        return MemberKind.FOLDER
    if kind is MemberKind.FOLDER and not raw.endswith(b"/"):
        raise MalformedArchive("a folder whose name does not say so")
    return kind


def _header_sizes(packed: int, size: int, extra: bytes) -> tuple[int, int, bytes]:
    """Returns the packed size and the size from a member's header, and its other extra fields.

    An extra field may have the sizes in 64 bits, instead of those in 32 bits. Python 3.11.2, with which NumPy writes
    its archives on Debian 12, writes both: they have to be equal.
    """
    is_elsewhere = (packed, size) == (_FULL_32, _FULL_32)
    if len(extra) >= _WIDE_SIZES.size:
        kind, length, wide_size, wide_packed = _WIDE_SIZES.unpack_from(extra)
        if (kind, length) == (_ZIP_64, _WIDE_SIZES.size - 4):
            if not is_elsewhere and (wide_packed, wide_size) != (packed, size):
                raise MalformedArchive("a header that contradicts the list of members")
            return wide_packed, wide_size, extra[_WIDE_SIZES.size :]
    if is_elsewhere:
        raise MalformedArchive("a header without sizes", _PACK_SMALL)
    return packed, size, extra


def _check_extra(extra: bytes) -> None:
    """Raises MalformedArchive if an extra field gives a member a second name or size, or is cut short."""
    while extra:
        if len(extra) < 4:  # noqa: PLR2004  a field's own head
            raise MalformedArchive("an extra field that is cut short")
        kind, length = struct.unpack_from("<2H", extra)
        if length > len(extra) - 4:
            raise MalformedArchive("an extra field that is cut short")
        if kind in {_UNICODE_NAME, _ZIP_64}:
            raise MalformedArchive("an extra field with a second name or size", _NAME_PLAINLY)
        extra = extra[4 + length :]
