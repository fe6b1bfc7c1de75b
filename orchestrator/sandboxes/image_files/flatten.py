"""Merges an image's layers into one file system, as a tar stream.

The layers are read twice, header by header: first to find out which files remain, then for their bytes. Nothing is
unpacked. Each member gets a new header with its name, kind, permissions and time. Owners are left out, since a player's
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
"""A member: the number of its layer, and its own number within that."""


@dataclass(slots=True, eq=False)
class _File:
    """A file or a link: the member that it is, None for an empty file of ours."""

    origin: _Origin | None = None


@dataclass(slots=True, eq=False)
class _Folder:
    """A folder, with what the highest layer says of it that says something."""

    children: dict[str, "_File | _Folder"] = field(default_factory=dict)
    member: TarMember | None = None


class FlattenedImage:
    """The files of an image.

    Args:
        image_layers: its layers, the lowest first. Each is compared with its digest.

    Raises:
        Rejected: a layer is no tar, can be read in two ways, or is not what its digest says; or the names of all
            layers together need more memory than `layers.MAX_PATH_BYTES`.
    """

    def __init__(self, image_layers: Sequence[ImageLayer]) -> None:
        self._layers = image_layers
        self._root = _Folder()
        self._kept_bytes = 0
        for number in range(len(image_layers)):
            self._lay_over(number)

    def add_folder(self, path: str) -> None:
        """Makes a folder, with those above it, where there is nothing."""
        self._add_missing(path, _Folder())

    def add_file(self, path: str) -> None:
        """Makes an empty file, with the folders above it, where there is nothing."""
        self._add_missing(path, _File())

    def tar_pieces(self) -> Iterator[bytes]:
        """Yields the tar stream in pieces: the folders, then everything else.

        Raises:
            Rejected: a layer is not any more what it was.
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
        """Adds a layer to those below. What it removes is theirs, wherever in it that is said."""
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
        """Yields a layer's members, each with the stream in which its bytes come next."""
        layer, found = self._layers[number], hashlib.sha256()

        def hashed() -> Iterator[bytes]:
            for piece in layer.read_pieces():
                found.update(piece)
                yield piece

        pieces = hashed()
        stream = BoundedStream(pieces, layer.size, layer_files.READ_SECONDS)
        try:
            for member in tar_headers.read_members(stream):
                yield member, stream
            for _ in pieces:  # after the archive's end; it counts for the digest
                pass
        except (StreamBoundError, ValueError) as error:
            raise _unfit(number, str(error)) from error
        if f"sha256:{found.hexdigest()}" != layer.diff_id:
            raise _unfit(number, f"its digest is not {layer.diff_id}")

    def _add_missing(self, path: str, node: "_File | _Folder") -> None:
        """Puts something at a path, unless there is something else, or something in the way to it."""
        *above, name = path.strip("/").split("/")
        folder: _File | _Folder = self._root
        for part in above:
            folder = folder.children.setdefault(part, _Folder()) if isinstance(folder, _Folder) else folder
        if name and isinstance(folder, _Folder):
            folder.children.setdefault(name, node)

    def _folder(self, path: str) -> _Folder:
        """Returns a folder; makes it, and those above it, in place of anything else."""
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
        """Removes what is at a path; of one that ends in `/`, what is in the folder."""
        folder, name = posixpath.split(path)
        if name:
            self._folder(folder).children.pop(name, None)
        else:
            self._folder(folder).children.clear()


def _walk(root: _Folder) -> Iterator[tuple[str, _File | _Folder]]:
    """Yields everything below a folder, a folder before what is in it."""
    waiting = [("", root)]
    while waiting:
        above, folder = waiting.pop()
        for name, child in sorted(folder.children.items()):
            place = f"{above}/{name}"
            yield place, child
            if isinstance(child, _Folder):
                waiting.append((place, child))


def _whole(path: str, member: TarMember, stream: BoundedStream) -> Iterator[bytes]:
    """Yields a file with its bytes."""
    yield _header(path, tarfile.REGTYPE, member, size=member.size)
    left = member.size
    while left and (piece := stream.take(min(left, _PIECE_BYTES))):
        left -= len(piece)
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
