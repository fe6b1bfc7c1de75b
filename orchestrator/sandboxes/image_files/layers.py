"""Reads the layers of an image from a registry: compressed tar streams, header by header, without unpacking files.

It keeps the header of each path and the first bytes of programs. That suffices for the same checks as on an engine's
image (`mount_points.merge_layers`). It refuses a layer that runtimes could unpack in different ways.

A whiteout (`.wh.NAME`) removes NAME of the layers below; `.wh..wh..opq` removes all their files in its folder.
"""

import posixpath
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from orchestrator.domain.text import printable
from orchestrator.sandboxes.image_files import entry_point, tar_headers
from orchestrator.sandboxes.image_files.mount_points import MAX_FILE_BYTES, FileKind, PathEntry, down_to
from orchestrator.sandboxes.image_files.tar_headers import BoundedStream, StreamBoundError, TarMember

READ_SECONDS = 1800.0
"""The time limit for one layer. For a slow registry there is another limit, which depends on the layer's size."""
MAX_PATH_BYTES = 256 * 1024**2
"""Bytes of memory for the paths of one image, each with `ENTRY_OVERHEAD_BYTES` besides its text: a million files."""
MAX_HEAD_BYTES = 64 * 1024**2
"""Bytes of programs that are kept of one image. The contents of further programs are not checked."""
_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_UNCOMPRESSED_TYPE = "application/vnd.oci.image.layer.v1.tar"
"""The only type that runtimes never decompress. For every other type the first bytes decide."""
_GZIP_WINDOW_BITS = 31
"""The argument `wbits` with which zlib reads gzip."""
_CHUNK_BYTES = 256 * 1024
ENTRY_OVERHEAD_BYTES = 200
_MAX_PATH_LENGTH = 4096
"""The most bytes of a path. No kernel accepts a longer one."""
_EXECUTABLE = 0o001
OPAQUE, WHITEOUT, WHITEOUT_OF_META = ".wh..wh..opq", ".wh.", ".wh..wh."
_FOLDER_ENTRY = PathEntry(FileKind.FOLDER)
_PLAIN_FILES: dict[int, PathEntry] = {}
"""The shared entries of small files, by mode: a shared entry takes no memory for each file."""


class UnreadableError(Exception):
    """A layer that cannot be read, or that runtimes could read in different ways; the message gives the reason."""


class ZstdError(UnreadableError):
    """The layer is compressed with zstd, which is not supported."""


class TooLargeError(Exception):
    """The image exceeds a bound; the message is `bytes` (of its files) or `paths`."""


@dataclass(slots=True)
class RemainingBytes:
    """The bytes that the remaining layers of an image may have: of files, of kept paths and of kept programs."""

    files: int
    kept: int = MAX_PATH_BYTES
    heads: int = MAX_HEAD_BYTES

    def take(self, layer: "Layer") -> None:
        """Subtracts the bytes of a layer."""
        self.files -= layer.files
        self.kept -= layer.kept
        self.heads -= layer.heads


@dataclass(slots=True)
class Layer:
    """The paths of one layer, the bytes of its files, and the bytes of paths and programs that are kept."""

    paths: dict[str, PathEntry] = field(default_factory=dict)
    files: int = 0
    kept: int = 0
    heads: int = 0

    def look(self, path: str) -> PathEntry | None:
        """See `PathLookup`."""
        return self.paths.get(path)

    def is_folder(self, path: str) -> bool:
        """Returns whether the layer has a folder at a path."""
        entry = self.paths.get(path)
        return entry is not None and entry.kind in {FileKind.FOLDER, FileKind.OPAQUE}

    def put(self, path: str, entry: PathEntry) -> None:
        """Stores the entry of a path, in place of an earlier one."""
        self.kept += len(entry.target) + (0 if path in self.paths else ENTRY_OVERHEAD_BYTES + len(path))
        self.paths[path] = entry


def read_layer(pieces: Iterator[bytes], media_type: str, room: RemainingBytes) -> Layer:
    """Reads a layer, whose type or first bytes tell how it is compressed.

    Raises:
        UnreadableError: it is not a layer, cannot be read, or is ambiguous.
        TooLargeError: it exceeds `room`.
    """
    layer = Layer()
    # A stream also has headers and padding: three blocks for an ordinary file, more for long names.
    stream = BoundedStream(_decompress(pieces, media_type), 2 * room.files + 8 * MAX_PATH_BYTES, READ_SECONDS)
    try:
        for member in tar_headers.read_members(stream):
            kept = layer.kept
            _add_member(layer, member, stream, room)
            # A repeated member counts again, because reading it takes time.
            layer.kept = max(layer.kept, kept + ENTRY_OVERHEAD_BYTES)
            if layer.files > room.files:
                raise TooLargeError("bytes")
            if layer.kept > room.kept:
                raise TooLargeError("paths")
    except StreamBoundError as reason:
        raise UnreadableError(str(reason)) from None
    except (ValueError, zlib.error) as error:
        raise UnreadableError(f"it is no archive: {printable(str(error))}") from None
    return layer


def _decompress(pieces: Iterator[bytes], media_type: str) -> Iterator[bytes]:
    """Yields a layer's tar stream, decompressed as runtimes do."""
    first = b""
    while len(first) < len(_ZSTD) and (piece := next(pieces, b"")):
        first += piece
    stream = chain((first,), pieces)
    if media_type.endswith("zstd") or (first.startswith(_ZSTD) and media_type != _UNCOMPRESSED_TYPE):
        raise ZstdError("it is packed with zstd, which is not read here")
    if first.startswith(_GZIP) and media_type != _UNCOMPRESSED_TYPE:
        yield from _gunzip(stream)
    else:
        yield from (piece for piece in stream if piece)


def _gunzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Decompresses gzip with one or more members, and yields at most `_CHUNK_BYTES` at a time."""
    inflate = zlib.decompressobj(_GZIP_WINDOW_BITS)
    for piece in pieces:
        while piece:
            if inflate.eof:
                inflate = zlib.decompressobj(_GZIP_WINDOW_BITS)
            output = inflate.decompress(piece, _CHUNK_BYTES)
            piece = inflate.unused_data if inflate.eof else inflate.unconsumed_tail  # noqa: PLW2901  the rest
            if output:
                yield output
            while (
                len(output) == _CHUNK_BYTES and not inflate.eof and not piece
            ):  # zlib keeps output that exceeded the limit
                if output := inflate.decompress(b"", _CHUNK_BYTES):
                    yield output
                piece = inflate.unused_data if inflate.eof else inflate.unconsumed_tail  # noqa: PLW2901
    if not inflate.eof:
        raise ValueError("it ends before it is unpacked")


def _add_member(layer: Layer, member: TarMember, stream: BoundedStream, room: RemainingBytes) -> None:
    """Adds a member to a layer."""
    path = member_path(member)
    if member.kind in {FileKind.FILE, FileKind.OTHER} and not member.hard:
        layer.files += member.size
    folder, name = posixpath.split(path)
    if name == OPAQUE:
        _add_parents(layer, folder)
        if folder != "/":
            layer.put(folder, PathEntry(FileKind.OPAQUE))
    elif is_whiteout(name):
        gone = name.removeprefix(WHITEOUT)
        if gone in {"", ".", ".."}:
            raise ValueError("a whiteout of no name")
        _add_parents(layer, folder)
        if posixpath.join(folder, gone) not in layer.paths:
            layer.put(posixpath.join(folder, gone), PathEntry(FileKind.REMOVED))
    elif path != "/" and not name.startswith(WHITEOUT_OF_META):
        _add_parents(layer, folder)
        _add_path(layer, path, _path_entry(layer, path, member, stream, room))


def is_whiteout(name: str) -> bool:
    """Returns whether a member of this name removes a name of the layers below."""
    return name.startswith(WHITEOUT) and not name.startswith(WHITEOUT_OF_META)


def member_path(member: TarMember) -> str:
    """Returns a member's absolute path in the image; `..` cannot lead out of the root."""
    return _path(member.name)


def link_path(member: TarMember) -> str:
    """Returns the path of a hard link's target."""
    return _path(member.target)


def _path(name: bytes) -> str:
    if len(name) > _MAX_PATH_LENGTH:
        raise ValueError(f"a path of {len(name)} bytes, at most {_MAX_PATH_LENGTH}")
    return "/" + posixpath.normpath("/" + name.decode("utf-8", "surrogateescape")).lstrip("/")


def _add_parents(layer: Layer, folder: str) -> None:
    """Adds a folder and those above it, which need no members of their own."""
    if folder == "/" or layer.is_folder(folder):  # the layer already has the folders above a folder
        return
    for above in down_to(folder):
        entry = layer.paths.get(above)
        if entry is None or entry.kind is FileKind.REMOVED:
            layer.put(above, _FOLDER_ENTRY)
        elif entry.kind not in {FileKind.FOLDER, FileKind.OPAQUE}:
            raise ValueError(f"{printable(above, 120)} is {entry.kind}, and has more below it in the same layer")


def _add_path(layer: Layer, path: str, entry: PathEntry) -> None:
    """Adds the entry of a path. Of two with the same kind the later counts; two kinds are refused as ambiguous."""
    existing = layer.paths.get(path)
    if existing is not None and existing.kind is FileKind.OPAQUE and entry.kind is FileKind.FOLDER:
        return
    if existing is not None and existing.kind not in {entry.kind, FileKind.REMOVED}:
        raise ValueError(f"{printable(path, 120)} is there twice: {existing.kind}, and {entry.kind}")
    layer.put(path, entry)


def _path_entry(layer: Layer, path: str, member: TarMember, stream: BoundedStream, room: RemainingBytes) -> PathEntry:
    """Returns the entry of a member; for a hard link, that of its target, which has to come first."""
    if member.kind is FileKind.FOLDER:
        return _FOLDER_ENTRY
    mode = member.mode & 0o7777
    if member.hard:
        other = layer.paths.get(link_path(member))
        if other is None or other.kind in {FileKind.FOLDER, FileKind.OPAQUE, FileKind.REMOVED}:
            raise ValueError(f"{printable(path, 120)} is a hard link to no file before it in the same layer")
        return other
    if member.kind is not FileKind.FILE:
        return PathEntry(member.kind, mode=mode, target=member.target.decode("utf-8", "surrogateescape"))
    if not mode & _EXECUTABLE:
        return (
            _PLAIN_FILES.setdefault(mode, PathEntry(FileKind.FILE, mode=mode))
            if member.size <= MAX_FILE_BYTES
            else _large_file(member)
        )
    head = stream.take(min(member.size, entry_point.HEAD_BYTES)) if layer.heads < room.heads else b""
    layer.heads += len(head)
    return PathEntry(FileKind.FILE, member.size, mode, head=head)


def _large_file(member: TarMember) -> PathEntry:
    return PathEntry(FileKind.FILE, member.size, member.mode & 0o7777)
