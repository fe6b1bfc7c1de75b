"""Reads the headers of a tar archive that comes as a stream from a stranger.

Names, sizes and extended headers may be hostile: nothing is unpacked, nothing longer than `_MAX_EXTENSION_BYTES` is
held, and bytes and time are bounded. Engines and nodes read the same bytes with Go's archive/tar. An archive that it
might read differently is refused (two different names of one file, a prefix where none is allowed), so that the files
that are checked here are those that the machines get. `tar_format` is the format itself; this module has the rules and
the bounds.
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
"""The longest target of a link: no kernel makes or follows a longer one."""
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
"""Of the others Go takes the next block for a header, whatever size they say."""
_DEVICES = frozenset({tar_format.CHARACTER_DEVICE, tar_format.BLOCK_DEVICE})
_CAPABILITY, _PATH, _LINK_PATH, _SIZE = b"SCHILY.xattr.security.capability", b"path", b"linkpath", b"size"
_MODIFIED, _SECONDS, _LATEST = b"mtime", re.compile(rb"\d{1,10}"), 10**10 - 1
_SPARSE = tar_format.SPARSE_RECORD.encode()


class StreamBoundError(Exception):
    """The stream is not looked at any further; the message says why."""


class BoundedStream:
    """Bytes in pieces, read in the sizes that are wanted, within bounds. `at` is how many were passed."""

    def __init__(self, pieces: Iterator[bytes], most: int, seconds: float) -> None:
        self._pieces, self._left = pieces, most
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
        """Notes where a member's content and its padding end."""
        self._content_end = self.at + size + tar_format.padding_bytes(size)

    def end_content(self) -> None:
        """Passes over what was not taken of them."""
        self.skip(self._content_end - self.at)

    def _more(self) -> bool:
        if time.monotonic() > self._until:
            raise StreamBoundError("the time for looking is over")
        piece = next(self._pieces, b"")
        self._left -= len(piece)
        if self._left < 0:
            raise StreamBoundError("it holds more bytes than an image may have")
        self._held, self._at = self._held[self._at :] + piece, 0
        return bool(piece)


@dataclass(frozen=True, slots=True)
class TarMember:
    """One member. `target` is where a symbolic link leads, or the path of the file that a hard link is."""

    name: bytes
    kind: FileKind
    mode: int
    size: int
    target: bytes = b""
    hard: bool = False
    capable: bool = False
    device: bool = False
    modified: int = 0
    """When its content was changed last, in seconds since 1970; 0 where that is not known."""


def read_members(stream: BoundedStream) -> Iterator[TarMember]:
    """Yields every member. The caller may then read the file's bytes from the stream; unread bytes are skipped.

    Raises:
        StreamBoundError: a bound is reached.
        ValueError: it is no archive, or one that could be read in two ways.
    """
    return tar_format.read_members(stream, _LayerRules())


class _LayerRules:
    """What is refused of what the format allows: what Go's archive/tar might read otherwise, and files with holes."""

    def __init__(self) -> None:
        self._records: dict[bytes, bytes] = {}
        self._long_names: dict[bytes, bytes] = {}

    def check_form(self, header: TarHeader) -> None:
        """Every form is read: also headers older than POSIX."""

    def check_extension_size(self, size: int) -> None:
        if size > _MAX_EXTENSION_BYTES:
            raise StreamBoundError(f"an extended header of {size} bytes")

    def add_extension(self, kind: bytes, data: bytes) -> None:
        """Keeps an extended header in place of an earlier one of its kind; those for all members change none."""
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
    """Returns a member's time in whole seconds. It decides nothing, so one that is no time is 0 and no error."""
    if recorded is not None:
        seconds = recorded.partition(b".")[0]
        return int(seconds) if _SECONDS.fullmatch(seconds) else 0
    try:
        return min(header.modified, _LATEST)
    except tar_format.TarDefectError:
        return 0


def _effective_name(recorded: bytes | None, extended: bytes | None, short: bytes) -> bytes:
    """Returns what two kinds of extension and the header say of a path. Of two extensions, programs differ in which."""
    if recorded and extended and recorded != extended:
        raise ValueError("a path is said twice, in two ways")
    if recorded and b"\0" in recorded:
        raise ValueError("a path with a NUL character")
    return recorded or extended or short
