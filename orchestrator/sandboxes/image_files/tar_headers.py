"""Reads the headers of a hostile tar archive that comes as a stream.

Names, sizes and extended headers may be hostile: the module unpacks nothing, holds no extended header longer than
`_MAX_EXTENSION_BYTES`, and bounds bytes and time. Engines and nodes read the same bytes with Go's archive/tar. An
archive that it might read differently is refused (two names of one file, a prefix where none is allowed), so that the
files checked here are those that the machines get. `tar_format` parses the format; this module has the rules and the
bounds.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator import tar_format
from orchestrator.sandboxes.image_files.mount_points import FileKind
from orchestrator.tar_format import TarHeader

_MAX_EXTENSION_BYTES = 1024**2
MAX_LINK_BYTES = 4095
"""The most bytes of a link's target: no kernel makes or follows a longer one."""
_KINDS = {
    tar_format.FILE: FileKind.FILE,
    tar_format.OLD_FILE: FileKind.FILE,
    tar_format.FOLDER: FileKind.FOLDER,
    tar_format.HARD_LINK: FileKind.FILE,
    tar_format.LINK: FileKind.LINK,
    tar_format.CHARACTER_DEVICE: FileKind.OTHER,
    tar_format.BLOCK_DEVICE: FileKind.OTHER,
    tar_format.FIFO: FileKind.OTHER,
    tar_format.RESERVED: FileKind.OTHER,
}
_WITH_CONTENT = frozenset({tar_format.FILE, tar_format.OLD_FILE, tar_format.RESERVED})
"""The types whose content Go reads. After any other header, whatever its size field, Go reads the next header."""
_DEVICES = frozenset({tar_format.CHARACTER_DEVICE, tar_format.BLOCK_DEVICE})
_CAPABILITY, _PATH, _LINK_PATH, _SIZE = b"SCHILY.xattr.security.capability", b"path", b"linkpath", b"size"
_MODIFIED, _SECONDS, _LATEST = b"mtime", re.compile(rb"\d{1,10}"), 10**10 - 1
_SPARSE = tar_format.SPARSE_RECORD.encode()


class StreamBoundError(Exception):
    """Reading stopped at a bound; the message gives the reason."""


class BoundedStream:
    """Reads a stream of pieces in any sizes, within bounds. `at` is the current position in bytes."""

    def __init__(self, pieces: Iterator[bytes], most: int, seconds: float) -> None:
        self._pieces, self._remaining = pieces, most
        self._until = time.monotonic() + seconds
        self._held = b""
        self._at = 0
        self._content_end = 0
        self.at = 0

    def take(self, count: int) -> bytes:
        """Returns the next `count` bytes, fewer at the end of the stream."""
        while len(self._held) - self._at < count and self._more():
            pass
        data = self._held[self._at : self._at + count]
        self._at += len(data)
        self.at += len(data)
        return data

    def skip(self, count: int) -> None:
        """Skips the next `count` bytes."""
        self.at += count
        while count > len(self._held) - self._at:
            count -= len(self._held) - self._at
            self._held, self._at = b"", 0
            if not self._more():
                raise StreamBoundError("the stream ends inside a file")
        self._at += count

    def begin_content(self, size: int) -> None:
        """Stores where a member's content and its padding end."""
        self._content_end = self.at + size + tar_format.padding_bytes(size)

    def end_content(self) -> None:
        """Skips the unread rest of the member's content and padding."""
        self.skip(self._content_end - self.at)

    def _more(self) -> bool:
        if time.monotonic() > self._until:
            raise StreamBoundError("its files could not be listed in time")
        piece = next(self._pieces, b"")
        self._remaining -= len(piece)
        if self._remaining < 0:
            raise StreamBoundError("it holds more bytes than an image may have")
        self._held, self._at = self._held[self._at :] + piece, 0
        return bool(piece)


@dataclass(frozen=True, slots=True)
class TarMember:
    """One member. `target` is the target of a symbolic or hard link."""

    name: bytes
    kind: FileKind
    mode: int
    size: int
    target: bytes = b""
    hard: bool = False
    capable: bool = False
    device: bool = False
    modified: int = 0
    """The time of the last change of its content, in seconds since 1970; 0 if it is not known."""


def read_members(stream: BoundedStream) -> Iterator[TarMember]:
    """Yields every member. The caller may then read the file's bytes from the stream; unread bytes are skipped.

    Raises:
        StreamBoundError: the stream exceeded a bound.
        ValueError: it is not a tar archive, or an ambiguous one.
    """
    return tar_format.read_members(stream, _LayerRules())


class _LayerRules:
    """Refuses what Go's archive/tar might read differently, and sparse files, although the format allows them."""

    def __init__(self) -> None:
        self._records: dict[bytes, bytes] = {}
        self._long_names: dict[bytes, bytes] = {}

    def check_form(self, header: TarHeader) -> None:
        """Accepts every form, including headers older than POSIX."""

    def check_extension_size(self, size: int) -> None:
        if size > _MAX_EXTENSION_BYTES:
            raise StreamBoundError(f"an extended header of {size} bytes")

    def add_extension(self, kind: bytes, data: bytes) -> None:
        """Keeps an extended header for the next member, in place of an earlier one of its kind; ignores global ones."""
        if kind == tar_format.RECORDS:  # of two records with one key the later counts, as in POSIX
            self._records = {record.key: record.value for record in tar_format.pax_records(data)}
        elif kind != tar_format.GLOBAL_RECORDS:
            self._long_names[kind] = tar_format.field_text(data)

    def end_member(self, header: TarHeader) -> tuple[TarMember, int]:
        if header.kind not in _KINDS:
            raise ValueError(f"a member of the unknown type {header.kind!r}")
        if any(key.startswith(_SPARSE) for key in self._records):
            raise ValueError("a file with holes (GNU.sparse)")
        member = self._member(header)
        self._records, self._long_names = {}, {}
        return member, member.size if header.kind in _WITH_CONTENT else 0

    def _member(self, header: TarHeader) -> TarMember:
        records, long_names = self._records, self._long_names
        target = _effective_name(records.get(_LINK_PATH), long_names.get(tar_format.LONG_LINK), header.link)
        if len(target) > MAX_LINK_BYTES:
            raise ValueError(f"a link whose target has {len(target)} bytes, at most {MAX_LINK_BYTES}")
        name = _effective_name(records.get(_PATH), long_names.get(tar_format.LONG_NAME), header.name)
        folder = header.kind == tar_format.OLD_FILE and name.endswith(b"/")
        return TarMember(
            name=name.removeprefix(b"./").lstrip(b"/"),
            kind=FileKind.FOLDER if folder else _KINDS[header.kind],
            mode=header.mode,
            size=tar_format.pax_size(records[_SIZE]) if _SIZE in records else header.size,
            target=target,
            hard=header.kind == tar_format.HARD_LINK,
            capable=_CAPABILITY in records,
            device=header.kind in _DEVICES,
            modified=_modified(header, records.get(_MODIFIED)),
        )


def _modified(header: TarHeader, recorded: bytes | None) -> int:
    """Returns a member's time in whole seconds. Nothing depends on it, so an invalid time is 0, not an error."""
    if recorded is not None:
        seconds = recorded.partition(b".")[0]
        return int(seconds) if _SECONDS.fullmatch(seconds) else 0
    try:
        return min(header.modified, _LATEST)
    except tar_format.TarDefectError:
        return 0


def _effective_name(recorded: bytes | None, extended: bytes | None, short: bytes) -> bytes:
    """Returns a path from a PAX record, a GNU header or the header. Raises ValueError if the first two differ."""
    if recorded and extended and recorded != extended:
        raise ValueError("two headers of one file name different paths")
    if recorded and b"\0" in recorded:
        raise ValueError("a path with a NUL character")
    return recorded or extended or short
