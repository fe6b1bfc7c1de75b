"""Reads a stranger's tar stream header by header: refuses what is unusual, unpacks nothing, holds little in memory.

It is strict on purpose. Files get past a check if two readers interpret one header differently, so there is only one
way to give a name and a size: POSIX (ustar, pax) or GNU, no sparse files, no pax record twice, no two different sizes,
and zeros to the end. `tarfile` reads more kinds than anybody should send, and holds extended headers of any length in
memory. `tar_format` has the format itself; this module has the strict reader's rules and bounds.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from orchestrator import tar_format
from orchestrator.archives.members import PACK_PLAINLY, PIECE_BYTES, MalformedArchive, Member, MemberKind
from orchestrator.tar_format import TarDefect, TarDefectError, TarHeader

_MAX_EXTENSION_BYTES = 64 * 1024
_MAX_RECORDS = 100
_MAX_LENGTH_DIGITS = 7
"""The most digits of a record's length: more than an extended header can need."""
_MAX_TAIL_BYTES = 1024 * 1024
_PATH, _LINK_PATH, _SIZE = "path", "linkpath", "size"
_STANDARD = frozenset(
    {_PATH, _LINK_PATH, _SIZE, "mtime", "atime", "ctime", "uid", "gid", "uname", "gname", "comment", "hdrcharset"}
)
_VENDOR = re.compile(r"[A-Z][A-Za-z0-9_-]*\..+", re.DOTALL)
_UTF_8 = frozenset({b"ISO-IR 10646 2000 UTF-8", b"BINARY"})
_DAMAGED, _CUT = "it is damaged: send it again", "it was cut short: send it again"


_KINDS = {
    tar_format.FILE: MemberKind.FILE,
    tar_format.OLD_FILE: MemberKind.FILE,
    tar_format.HARD_LINK: MemberKind.HARD_LINK,
    tar_format.LINK: MemberKind.LINK,
    tar_format.CHARACTER_DEVICE: MemberKind.CHARACTER_DEVICE,
    tar_format.BLOCK_DEVICE: MemberKind.BLOCK_DEVICE,
    tar_format.FOLDER: MemberKind.FOLDER,
    tar_format.FIFO: MemberKind.FIFO,
}
_DEFECTS = {
    TarDefect.CHECKSUM: ("a header's checksum is wrong", _DAMAGED),
    TarDefect.NUMBER: ("a header with a field that is not a number", _DAMAGED),
    TarDefect.NUMBER_BOUNDS: ("a header with a number that is negative or too large", PACK_PLAINLY),
    TarDefect.RECORD: ("an extended header that is not made of records", PACK_PLAINLY),
    TarDefect.SIZE: ("a size that is not a number", PACK_PLAINLY),
    TarDefect.STAR_PREFIX: (TarDefect.STAR_PREFIX.value, PACK_PLAINLY),
    TarDefect.GNU_PREFIX: (TarDefect.GNU_PREFIX.value, PACK_PLAINLY),
    TarDefect.BETWEEN: (TarDefect.BETWEEN.value, PACK_PLAINLY),
}
"""Defect -> the message and the remedy for the sender."""


ReadBytes = Callable[[int], bytes]
"""A function that returns at most the given number of bytes, b"" at the end."""


class TarStream:
    """Yields the members of a tar stream in order; `content` yields the bytes of the latest member."""

    def __init__(self, read: ReadBytes) -> None:
        self._source = _WholeSource(read)

    def __iter__(self) -> Iterator[Member]:
        """Yields every member. Raises MalformedArchive at the first header that breaks a rule."""
        rules = _StrictRules()
        try:
            yield from tar_format.read_members(self._source, rules)
            rules.check_end()
        except TarDefectError as error:
            raise MalformedArchive(*_DEFECTS[error.defect]) from None
        self._source.require_zeros()

    def content(self) -> Iterator[bytes]:
        """Yields the remaining bytes of the latest member, in pieces of at most `PIECE_BYTES`.

        Raises:
            MalformedArchive: the stream ends before they are complete.
        """
        return self._source.content()


class _WholeSource:
    """The bytes of a stream that must be complete: raises MalformedArchive wherever it ends early."""

    def __init__(self, read: ReadBytes) -> None:
        self._read = read
        self._left = self._padding = 0

    def take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._read(count - len(data))
            if not piece:
                raise MalformedArchive("it ends before its end mark", _CUT)
            data += piece
        return data

    def skip(self, count: int) -> None:
        self.take(count)

    def begin_content(self, size: int) -> None:
        self._left, self._padding = size, tar_format.padding_bytes(size)

    def end_content(self) -> None:
        for _ in self.content():
            pass

    def content(self) -> Iterator[bytes]:
        while self._left:
            piece = self._read(min(self._left, PIECE_BYTES))
            if not piece:
                raise MalformedArchive("it ends inside a file", _CUT)
            self._left -= len(piece)
            yield piece
        padding, self._padding = self._padding, 0
        self.skip(padding)

    def require_zeros(self) -> None:
        """Requires a second block of zeros, and after it only zeros, which pad the last record, until the end."""
        if any(self.take(tar_format.BLOCK_BYTES)):
            raise MalformedArchive("a lone block of zeros")
        tail = 0
        while piece := self._read(PIECE_BYTES):
            tail += len(piece)
            if piece.count(0) != len(piece) or tail > _MAX_TAIL_BYTES:
                raise MalformedArchive("bytes after its end mark")


class _StrictRules:
    """Refuses what the tar format allows but is ambiguous or unusual, such as repeated, mixed or global headers."""

    def __init__(self) -> None:
        self._records: dict[str, bytes] = {}
        self._long_names: dict[str, bytes] = {}

    def check_form(self, header: TarHeader) -> None:
        if header.magic not in {tar_format.POSIX, tar_format.GNU}:
            raise MalformedArchive("a header that is neither POSIX's nor GNU's")

    def check_extension_size(self, size: int) -> None:
        if size > _MAX_EXTENSION_BYTES:
            raise MalformedArchive(
                f"an extended header of {size} bytes, at most {_MAX_EXTENSION_BYTES}", "use shorter names"
            )

    def add_extension(self, kind: bytes, data: bytes) -> None:
        key = {tar_format.LONG_NAME: _PATH, tar_format.LONG_LINK: _LINK_PATH}.get(kind, "")
        if (kind == tar_format.RECORDS and self._records) or key in self._long_names:
            raise MalformedArchive("two extended headers for one member")
        if kind == tar_format.GLOBAL_RECORDS:
            if _unique_records(data).keys() - {"comment"}:  # a comment, as of `git archive`, changes no member
                remedy = "pack it with GNU tar, bsdtar or git archive"
                raise MalformedArchive("an extended header for all members", remedy)
        elif kind == tar_format.RECORDS:
            self._records = _unique_records(data)
        else:
            self._long_names[key] = data.removesuffix(b"\0")

    def end_member(self, header: TarHeader) -> tuple[Member, int]:
        if self._long_names and self._records:
            raise MalformedArchive("a member with a long name in GNU's and in POSIX's way")
        member = _member(header, self._long_names or self._records)
        self._records, self._long_names = {}, {}
        return member, member.size

    def check_end(self) -> None:
        """Refuses an archive that ends after an extended header."""
        if self._records or self._long_names:
            raise MalformedArchive("an extended header without a member")


def _member(header: TarHeader, more: Mapping[str, bytes]) -> Member:
    kind = header.kind
    if kind not in _KINDS:
        description = "a sparse file" if kind == tar_format.SPARSE else f"a member of the kind {kind!r}"
        raise MalformedArchive(description, "pack plain files and folders (GNU tar: without --sparse)")
    known = {key: value for key, value in more.items() if key in {_PATH, _LINK_PATH, _SIZE}}
    size = _agreed_size(header.size, known[_SIZE]) if _SIZE in known else header.size
    name = known.get(_PATH, header.name)
    if not name or b"\0" in name or b"\0" in known.get(_LINK_PATH, b""):
        raise MalformedArchive("a member whose name is empty or holds a NUL")
    meant = MemberKind.FOLDER if _KINDS[kind] is MemberKind.FILE and name.endswith(b"/") else _KINDS[kind]
    if size and meant is not MemberKind.FILE:
        raise MalformedArchive(f"a {meant} of {size} bytes")
    link = known.get(_LINK_PATH, header.link)
    if not link and meant in {MemberKind.LINK, MemberKind.HARD_LINK}:
        raise MalformedArchive("a link that leads nowhere")
    pax = {key: value for key, value in more.items() if key not in known}
    return Member(name, meant, header.mode & 0o7777, size, link, pax)


def _agreed_size(short: int, value: bytes) -> int:
    size = tar_format.pax_size(value)
    if short not in {0, size}:
        raise MalformedArchive(f"a member of {short} bytes by its header and {size} by its extended header")
    return size


def _unique_records(data: bytes) -> dict[str, bytes]:
    """Returns the records of a pax header, each name once."""
    records: dict[str, bytes] = {}
    for record in tar_format.pax_records(data):
        if not record.equals or len(record.digits) > _MAX_LENGTH_DIGITS:
            raise TarDefectError(TarDefect.RECORD)
        name = record.key.decode("utf-8", "replace")
        if name in records or len(records) == _MAX_RECORDS:
            raise MalformedArchive("an extended header with a record twice, or with too many")
        if name.startswith(tar_format.SPARSE_RECORD) or not (name in _STANDARD or _VENDOR.fullmatch(name)):
            raise MalformedArchive(f"an extended header with the record {name[:40]!r}", "pack plain files and folders")
        records[name] = record.value
    if records.get("hdrcharset", b"BINARY") not in _UTF_8:
        raise MalformedArchive("names in another encoding than UTF-8")
    return records
