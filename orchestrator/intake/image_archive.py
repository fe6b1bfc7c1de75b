"""Checks a stranger's image in an OCI layout: hashes every byte and checks every entry, and unpacks nothing.

It checks each blob against its digest and size, each layer also against the digest of its decompressed bytes, and in
each layer the names, links, devices, whiteouts and extended attributes that could mislead an engine's unpacking. Names,
tags and annotations are not read. The image store writes a new configuration from this one.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.archives.decompress import PieceReader, RatioLimit, SizeLimit, decompressed, with_observers
from orchestrator.archives.members import PIECE_BYTES, MalformedArchive, Member, MemberKind
from orchestrator.domain.field_errors import field_errors
from orchestrator.domain.ids import Digest
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, first_problems
from orchestrator.folder_walk import EntryKind, walk_folder
from orchestrator.intake.archive import ArchiveBounds
from orchestrator.intake.tar_stream import TarStream
from orchestrator.oci.manifests import UnusableImageError, parse_configuration
from orchestrator.sandboxes.base import ImageLayer
from orchestrator.sandboxes.image_files.tar_headers import MAX_LINK_BYTES

MAX_DOCUMENT_BYTES = 4 * 1024**2
MAX_ENTRIES = 1_000_000
"""The most entries of all layers together: PyTorch with CUDA has about 50 000."""
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
_DOCKER = "application/vnd.docker.image.rootfs.diff.tar"
_PLAIN_LAYERS, _GZIP_LAYERS = frozenset({LAYER, _DOCKER}), frozenset({f"{LAYER}+gzip", f"{_DOCKER}.gzip"})
_MAX_NAME_BYTES, _MAX_PART_BYTES, _MAX_DEPTH = 4000, 255, 128
_SPECIAL_KINDS = frozenset({MemberKind.BLOCK_DEVICE, MemberKind.CHARACTER_DEVICE, MemberKind.FIFO})
_XATTR = "SCHILY.xattr."
_XATTRS = re.compile(r"SCHILY\.xattr\.(security\.capability|user\.(?!overlay\.).*)", re.DOTALL)
_PACK_REMEDY = "pack it again with `sparring submission pack`"
_DOCKERFILE_REMEDY = "build it with an ordinary Dockerfile, and pack it again"
M = TypeVar("M", bound=BaseModel)


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Layout(_Document):
    version: Annotated[Literal["1.0.0"], Field(alias="imageLayoutVersion")]


class _Descriptor(_Document):
    kind: Annotated[str, Field(alias="mediaType", max_length=200)]
    digest: Digest
    size: Annotated[int, Field(ge=0)]


class _Index(_Document):
    schema_version: Annotated[Literal[2], Field(alias="schemaVersion")]
    manifests: Annotated[list[_Descriptor], Field(min_length=1, max_length=1)]


class _Manifest(_Document):
    schema_version: Annotated[Literal[2], Field(alias="schemaVersion")]
    config: _Descriptor
    layers: Annotated[list[_Descriptor], Field(min_length=1, max_length=128)]


@dataclass(frozen=True, slots=True)
class ImageParts:
    """A checked image: its configuration, unchanged and still untrusted, and its layers, the lowest first."""

    config: Mapping[str, Any]
    layers: tuple[ImageLayer, ...]


def read_image_layout(layout: Path, bounds: ArchiveBounds | None = None) -> ImageParts:
    """Returns the only image of an OCI layout; no other process may change its files meanwhile.

    Raises:
        Rejected: with all problems, each with its place.
    """
    reader = _LayoutReader(layout, bounds or ArchiveBounds())
    try:
        parts = reader.read_image()
    except MalformedArchive as error:
        reader.add_problem(str(error), error.remedy)
    if reader.problems:
        raise Rejected("image", first_problems(reader.problems, "image"))
    return parts


class _LayoutReader:
    """Reads a layout from its index to the manifest, the configuration and the layers."""

    def __init__(self, layout: Path, bounds: ArchiveBounds) -> None:
        self._layout, self._bounds = layout, bounds
        self._place = "image"
        self._size_limit = SizeLimit(bounds.image)
        self._entry_count = 0
        self.problems: list[Problem] = []

    def add_problem(self, what: str, remedy: str) -> None:
        """Adds a problem at the reader's current place."""
        self.problems.append(Problem(self._place, printable(what), remedy))

    def read_image(self) -> ImageParts:
        """Returns the image; adds problems in its layers. Raises MalformedArchive if the rest cannot be read."""
        self._read_model("oci-layout", _Layout)
        index = self._read_model("index.json", _Index)
        manifest = self._read_blob_model(index.manifests[0], _Manifest)
        config, diff_ids = self._read_config(manifest)
        named = {each.digest for each in (index.manifests[0], manifest.config, *manifest.layers)}
        self._require_no_extra_files(named)
        layers = []
        for number, (descriptor, diff_id) in enumerate(zip(manifest.layers, diff_ids, strict=True), start=1):
            self._place = f"image layer {number}"
            layers.append(self._read_layer(descriptor, diff_id))
        return ImageParts(config, tuple(layers))

    def _read_config(self, manifest: _Manifest) -> tuple[dict[str, Any], list[str]]:
        """Returns the configuration, if all parsers read it alike, and the digests of the layers that it lists.

        Engines accept keys in any case and merge two that differ only in case, so they could play another image.
        """
        data = self._read_blob(manifest.config)
        try:
            parsed = parse_configuration(data, len(manifest.layers))
        except UnusableImageError as error:
            problem = error.problem
            raise MalformedArchive(f"{problem.place}: {problem.what}", _PACK_REMEDY) from None
        return json.loads(data), parsed.rootfs.diff_ids

    def _read_model(self, name: str, kind: type[M], text: bytes | None = None) -> M:
        """Returns a JSON file of the layout, or its text if given, as a model. Raises MalformedArchive."""
        path = self._layout / name
        self._place = f"image {name[-20:]}"
        if not path.is_file() or path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise MalformedArchive(f"missing, or more than {MAX_DOCUMENT_BYTES} bytes", _PACK_REMEDY)
        try:
            return kind.model_validate_json(text or path.read_bytes())
        except ValidationError as error:
            problem = field_errors(error)[0].problem("file")
            raise MalformedArchive(f"{problem.place}: {problem.what}", _PACK_REMEDY) from None

    def _read_blob_model(self, descriptor: _Descriptor, kind: type[M]) -> M:
        """Returns a blob as a model. Raises MalformedArchive."""
        data = self._read_blob(descriptor)
        return self._read_model(str(self._blob_path(descriptor.digest).relative_to(self._layout)), kind, data)

    def _read_blob(self, descriptor: _Descriptor) -> bytes:
        """Returns the bytes of a document. Raises MalformedArchive if they do not match its digest and size."""
        path = self._blob_path(descriptor.digest)
        self._place = f"image {str(path)[-20:]}"
        if not path.is_file() or path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise MalformedArchive(f"missing, or more than {MAX_DOCUMENT_BYTES} bytes", _PACK_REMEDY)
        data = path.read_bytes()
        self._require_digest(descriptor.digest, hashlib.sha256(data).hexdigest(), descriptor.size, len(data))
        return data

    def _blob_path(self, digest: str) -> Path:
        return self._layout / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _require_no_extra_files(self, named: set[str]) -> None:
        present = {str(entry.path) for entry in walk_folder(self._layout) if entry.kind is not EntryKind.FOLDER}
        expected = {str(self._blob_path(digest).relative_to(self._layout)) for digest in named}
        if extra := sorted(present - expected - {"oci-layout", "index.json"}):
            raise MalformedArchive(f"{len(extra)} files that are no part of it, such as {extra[0]}", _PACK_REMEDY)

    @staticmethod
    def _require_digest(digest: str, found_hash: str, size: int, found_size: int) -> None:
        if digest != f"sha256:{found_hash}" or size != found_size:
            raise MalformedArchive(
                f"{found_size} bytes with sha256:{found_hash}; declared are {size} with {digest}", _PACK_REMEDY
            )

    def _read_layer(self, descriptor: _Descriptor, diff_id: str) -> ImageLayer:
        """Hashes a layer's bytes, checks its entries, and returns the layer. Raises MalformedArchive."""
        path = self._blob_path(descriptor.digest)
        if descriptor.kind not in _PLAIN_LAYERS | _GZIP_LAYERS:
            raise MalformedArchive(
                f"of the kind {printable(descriptor.kind, 80)}", "pack it as plain or gzipped layers"
            )
        if not path.is_file():
            raise MalformedArchive("missing", _PACK_REMEDY)
        compressed = descriptor.kind in _GZIP_LAYERS
        packed, unpacked, ratio = (
            hashlib.sha256(),
            hashlib.sha256(),
            RatioLimit(self._bounds.ratio, self._bounds.unchecked_bytes),
        )
        size = _ByteCount()
        pieces = with_observers(_pieces(path), packed.update, ratio.add_input)
        if compressed:
            pieces = with_observers(decompressed(pieces), ratio.add_output)
        stream = TarStream(PieceReader(with_observers(pieces, self._size_limit.add_output, unpacked.update, size.add)))
        for member in stream:
            self._entry_count += 1
            if self._entry_count > MAX_ENTRIES:
                raise MalformedArchive(f"more than {MAX_ENTRIES} entries in all layers", "leave out what is not needed")
            if odd := member_problem(member):
                self.add_problem(f"{printable(member.name, 120)}: {odd}", _DOCKERFILE_REMEDY)
        self._require_digest(descriptor.digest, packed.hexdigest(), descriptor.size, path.stat().st_size)
        self._require_digest(diff_id, unpacked.hexdigest(), size.count, size.count)
        read: Callable[[], Iterator[bytes]] = partial(_decompressed_file if compressed else _pieces, path)
        return ImageLayer(diff_id, size.count, read)


class _ByteCount:
    def __init__(self) -> None:
        self.count = 0

    def add(self, piece: bytes) -> None:
        self.count += len(piece)


def member_problem(member: Member) -> str:
    """Returns why an entry of a layer is refused, "" if it is not."""
    parts = [part for part in member.name.removesuffix(b"/").split(b"/") if part != b"."]
    if member.name.startswith(b"/") or b".." in parts:
        return "a name that leads out of the image"
    if (
        len(member.name) > _MAX_NAME_BYTES
        or len(parts) > _MAX_DEPTH
        or any(len(part) > _MAX_PART_BYTES for part in parts)
    ):
        return "a name that is too long or too deep"
    if member.kind in _SPECIAL_KINDS and (member.kind is not MemberKind.CHARACTER_DEVICE or parts[:1] != [b"dev"]):
        return f"a {member.kind}"  # character devices in /dev are allowed: images have them, and sandboxes hide them
    if odd := _link_problem(member):
        return odd
    if odd := next((key for key in member.pax if key.startswith(_XATTR) and not _XATTRS.fullmatch(key)), ""):
        return f"the extended attribute {printable(odd.removeprefix(_XATTR), 60)}"
    return _whiteout_problem(parts[-1] if parts else b"", member)


def _link_problem(member: Member) -> str:
    """Returns why the target of a link is refused, "" if it is not."""
    if len(member.link) > MAX_LINK_BYTES:
        return f"a link whose target has {len(member.link)} bytes, at most {MAX_LINK_BYTES}"
    if member.kind is MemberKind.HARD_LINK and (member.link.startswith(b"/") or b".." in member.link.split(b"/")):
        return "a hard link that leads out of the image"
    return ""


def _whiteout_problem(name: bytes, member: Member) -> str:
    """Returns why a whiteout is refused, "" if it is not.

    A layer removes a lower layer's file by an empty file `.wh.NAME`, or all files of a folder by `.wh..wh..opq`.
    """
    if not name.startswith(b".wh."):
        return ""
    hidden = name.removeprefix(b".wh.")
    if hidden in {b"", b".", b".."} or (hidden.startswith(b".wh.") and name != b".wh..wh..opq"):
        return "a whiteout of an odd name"
    if member.kind is not MemberKind.FILE or member.size:
        return "a whiteout that is no empty file"
    return ""


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _decompressed_file(path: Path) -> Iterator[bytes]:
    return decompressed(_pieces(path))
