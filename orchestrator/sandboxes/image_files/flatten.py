"""Merges an image's layers into one file system, as a tar stream.

It reads the layers twice, header by header: first to determine which files remain, then for their contents. It unpacks
nothing. Each member gets a new header with its name, kind, permissions and time. Owners are left out, since a player's
user and group own no file; so are devices and named pipes, because a sandbox has its own.
"""

import hashlib
import posixpath
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from orchestrator.errors import Problem, Rejected
from orchestrator.sandboxes.base import ImageLayer
from orchestrator.sandboxes.image_files import layers as layer_files
from orchestrator.sandboxes.image_files import tar_headers
from orchestrator.sandboxes.image_files.image_config import REMEDY
from orchestrator.sandboxes.image_files.mount_points import FileKind
from orchestrator.sandboxes.image_files.tar_headers import BoundedStream, StreamBoundError, TarMember

_PIECE_BYTES = 256 * 1024
_PERMISSIONS = 0o7777
_Origin = tuple[int, int]
"""Identifies a member: the number of its layer, and its own number in that layer."""


@dataclass(slots=True, eq=False)
class _File:
    """A file or a link: the member with its content, None for an empty file that `add_file` made."""

    origin: _Origin | None = None


@dataclass(slots=True, eq=False)
class _Folder:
    """A folder, with its member in the highest layer that has one."""

    children: dict[str, "_File | _Folder"] = field(default_factory=dict)
    member: TarMember | None = None


class FlattenedImage:
    """The files of an image.

    Args:
        image_layers: its layers, the lowest first. The digest of each is verified.

    Raises:
        Rejected: a layer is not a tar archive, is ambiguous, or has another digest; or the names of all layers
            together need more memory than `layers.MAX_PATH_BYTES`.
    """

    def __init__(self, image_layers: Sequence[ImageLayer]) -> None:
        self._layers = image_layers
        self._root = _Folder()
        self._kept_bytes = 0
        for number in range(len(image_layers)):
            self._lay_over(number)

    def add_folder(self, path: str) -> None:
        """Adds a folder, with those above it, if nothing is at the path."""
        self._add_missing(path, _Folder())

    def add_file(self, path: str) -> None:
        """Adds an empty file, with the folders above it, if nothing is at the path."""
        self._add_missing(path, _File())

    def tar_pieces(self) -> Iterator[bytes]:
        """Yields the tar stream in pieces: the folders, then everything else.

        Raises:
            Rejected: a layer has changed.
        """
        paths: dict[_Origin, list[str]] = {}
        for path, node in _walk(self._root):
            if isinstance(node, _Folder):
                yield _header(path, tarfile.DIRTYPE, node.member, 0o755)
            elif node.origin is None:
                yield _header(path, tarfile.REGTYPE, None, 0o644)
            else:
                paths.setdefault(node.origin, []).append(path)
        for number in range(len(self._layers)):
            for ordinal, (member, stream) in enumerate(self._members(number)):
                for copy, path in enumerate(paths.get((number, ordinal), ())):
                    if member.kind is FileKind.LINK:
                        yield _header(path, tarfile.SYMTYPE, member, target=_text(member.target))
                    elif copy:
                        first = paths[number, ordinal][0].lstrip("/")
                        yield _header(path, tarfile.LNKTYPE, member, target=first)
                    else:
                        yield from _whole(path, member, stream)
        yield bytes(2 * tarfile.BLOCKSIZE)

    def _lay_over(self, number: int) -> None:
        """Adds a layer to those below. Its whiteouts, wherever they are in it, remove only files of those below."""
        removed: list[str] = []
        added: list[tuple[str, TarMember, _Origin]] = []
        linkable: dict[str, _Origin] = {}
        for ordinal, (member, _) in enumerate(self._members(number)):
            path = layer_files.member_path(member)
            self._count_names(number, path, member)
            folder, name = posixpath.split(path)
            origin = (number, ordinal)
            if name == layer_files.OPAQUE:
                removed.append(posixpath.join(folder, ""))
            elif layer_files.is_whiteout(name):
                removed.append(posixpath.join(folder, name.removeprefix(layer_files.WHITEOUT)))
            elif path != "/" and not name.startswith(layer_files.WHITEOUT_OF_META) and member.kind != FileKind.OTHER:
                if member.hard:
                    if (target := layer_files.link_path(member)) not in linkable:
                        raise _unfit(number, f"{path} is a hard link to no file before it in the same layer")
                    origin = linkable[target]
                if member.kind is not FileKind.FOLDER:
                    linkable[path] = origin
                added.append((path, member, origin))
        for path in removed:
            self._remove(path)
        for path, member, origin in added:
            self._add(path, member, origin)

    def _count_names(self, number: int, path: str, member: TarMember) -> None:
        """Counts the memory that a member's path and target take. Raises Rejected if it is too much for an image."""
        self._kept_bytes += layer_files.ENTRY_OVERHEAD_BYTES + len(path) + len(member.target)
        if self._kept_bytes > layer_files.MAX_PATH_BYTES:
            raise _unfit(
                number, f"more files than can be held: their names take more than {layer_files.MAX_PATH_BYTES} bytes"
            )

    def _members(self, number: int) -> Iterator[tuple[TarMember, BoundedStream]]:
        """Yields a layer's members, each with the stream, whose next bytes are the member's content."""
        layer, checksum = self._layers[number], hashlib.sha256()

        def hashed() -> Iterator[bytes]:
            for piece in layer.read_pieces():
                checksum.update(piece)
                yield piece

        pieces = hashed()
        stream = BoundedStream(pieces, layer.size, layer_files.READ_SECONDS)
        try:
            for member in tar_headers.read_members(stream):
                yield member, stream
            for _ in pieces:  # bytes after the end of the archive are part of the digest
                pass
        except (StreamBoundError, ValueError) as error:
            raise _unfit(number, str(error)) from error
        if f"sha256:{checksum.hexdigest()}" != layer.diff_id:
            raise _unfit(number, f"its digest is not {layer.diff_id}")

    def _add_missing(self, path: str, node: "_File | _Folder") -> None:
        """Puts a node at a path, unless something is there or a file is among the folders above it."""
        *above, name = path.strip("/").split("/")
        folder: _File | _Folder = self._root
        for part in above:
            folder = folder.children.setdefault(part, _Folder()) if isinstance(folder, _Folder) else folder
        if name and isinstance(folder, _Folder):
            folder.children.setdefault(name, node)

    def _folder(self, path: str) -> _Folder:
        """Returns a folder; creates it and those above it, replacing anything else at their paths."""
        folder = self._root
        for part in path.strip("/").split("/") if path != "/" else ():
            node = folder.children.get(part)
            if not isinstance(node, _Folder):
                node = folder.children[part] = _Folder()
            folder = node
        return folder

    def _add(self, path: str, member: TarMember, origin: _Origin) -> None:
        if member.kind is FileKind.FOLDER:
            self._folder(path).member = member
        else:
            folder, name = posixpath.split(path)
            self._folder(folder).children[name] = _File(origin)

    def _remove(self, path: str) -> None:
        """Removes what is at a path; if the path ends in `/`, removes the contents of the folder."""
        folder, name = posixpath.split(path)
        if name:
            self._folder(folder).children.pop(name, None)
        else:
            self._folder(folder).children.clear()


def _walk(root: _Folder) -> Iterator[tuple[str, _File | _Folder]]:
    """Yields everything below a folder with its path, a folder before its contents."""
    pending = [("", root)]
    while pending:
        parent, folder = pending.pop()
        for name, child in sorted(folder.children.items()):
            path = f"{parent}/{name}"
            yield path, child
            if isinstance(child, _Folder):
                pending.append((path, child))


def _whole(path: str, member: TarMember, stream: BoundedStream) -> Iterator[bytes]:
    """Yields a file's header and content."""
    yield _header(path, tarfile.REGTYPE, member, size=member.size)
    missing = member.size
    while missing and (piece := stream.take(min(missing, _PIECE_BYTES))):
        missing -= len(piece)
        yield piece
    yield bytes(-member.size % tarfile.BLOCKSIZE)


def _header(
    path: str, kind: bytes, member: TarMember | None, mode: int = 0, *, size: int = 0, target: str = ""
) -> bytes:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.type, entry.size, entry.linkname = kind, size, target
    entry.mode = mode if member is None else member.mode & _PERMISSIONS
    entry.mtime = 0 if member is None else member.modified
    return entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _unfit(number: int, what: str) -> Rejected:
    return Rejected("image", [Problem(f"layer {number + 1}", what, REMEDY)])
