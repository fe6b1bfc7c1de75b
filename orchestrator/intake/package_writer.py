"""Packs a submission into one file: a list of its files, its folder, and its image if it has one.

docs/packing.md describes the format. The same folder and the same image give the same bytes. The image is written as an
OCI layout with the configuration that it will have on the engine that loads it, so its id is known before. The layout
is then checked like a stranger's, so that an organizer does not refuse it for a reason that could have been seen here.
"""

import hashlib
import json
import posixpath
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.archives.decompress import PieceReader
from orchestrator.archives.members import MalformedArchive, MemberKind
from orchestrator.domain.ids import canonical_json, digest
from orchestrator.errors import InfrastructureFault, UsageError
from orchestrator.folder_walk import EntryKind, walk_folder
from orchestrator.intake import image_archive, manifest, package
from orchestrator.intake.image_archive import CONFIG, LAYER, MANIFEST, MAX_DOCUMENT_BYTES
from orchestrator.intake.package import IMAGE, SOURCE, Package, PackedFile
from orchestrator.intake.source_tree import SourceFile, SourceTree, scan_folder, tar_end, tar_header, tar_members
from orchestrator.intake.tar_stream import TarStream
from orchestrator.sandboxes.base import ImageStore
from orchestrator.tar_format import BLOCK_BYTES

_SAVED_NAME = re.compile(r"[A-Za-z0-9._/-]{1,200}")


@dataclass(frozen=True, slots=True)
class WrittenPackage:
    """A package that was written. `image` is the id of the image in it, "" without one."""

    path: Path
    digest: str
    size: int
    image: str
    files: int
    left_out: tuple[str, ...]


def write_package(folder: Path, target: Path, workshop: ImageStore | None = None, image: str = "") -> WrittenPackage:
    """Writes a folder, and an image from an engine's store, as one package; leaves nothing behind if it fails.

    Raises:
        Rejected: organizers would refuse the manifest, the folder or the image.
        UsageError: there is no such image, or `target` exists and is no package.
        InfrastructureFault: the package cannot be written.
    """
    submission_manifest = manifest.read_manifest(folder)
    tree = scan_folder(folder)
    _require_free_path(target)
    try:
        with tempfile.TemporaryDirectory(prefix=".packing-", dir=target.parent) as place:
            layout = Path(place) / IMAGE
            identity = write_layout(workshop, image, layout) if workshop is not None and image else ""
            checksum = hashlib.sha256()
            written = Path(place) / "package"
            with written.open("xb") as file:
                for piece in _package_pieces(submission_manifest.name, tree, layout if identity else None, identity):
                    checksum.update(piece)
                    file.write(piece)
            written.chmod(0o644)
            size = written.stat().st_size
            written.rename(target)
    except OSError as error:
        raise InfrastructureFault(f"cannot write {target}: {error}; free space, or choose another --out") from error
    return WrittenPackage(target, f"sha256:{checksum.hexdigest()}", size, identity, len(tree.files), tree.left_out)


def _require_free_path(target: Path) -> None:
    """Raises UsageError if a file that is no package would be overwritten, or the target's folder does not exist."""
    try:
        with target.open("rb") as file:
            is_package = file.read(len(package.FILE_NAME)) == package.FILE_NAME.encode()
    except FileNotFoundError:
        is_package = True
    except OSError as error:
        raise UsageError(f"{target} cannot be read: {error.strerror}; choose another --out") from error
    if not is_package:
        raise UsageError(f"{target} exists and is not a package; choose another --out")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}; make it, or choose another --out")


def _package_pieces(name: str, tree: SourceTree, layout: Path | None, identity: str) -> Iterator[bytes]:
    """Yields the bytes of the package: the list of its members first, then the folder, then the image."""
    inner = SourceTree(layout, tuple(_layout_files(layout)), ()) if layout is not None else None
    members = [_listed_file(tree, file, SOURCE) for file in tree.files]
    members += [_listed_file(inner, file, IMAGE) for file in inner.files] if inner is not None else []
    text = Package(sparring_package=1, name=name, image=identity, members=members).encode()
    yield tar_header(package.FILE_NAME, len(text), 0o644, 0) + text + bytes(-len(text) % BLOCK_BYTES)
    yield from tar_members(tree, tree.files, f"{SOURCE}/", 0)
    if inner is not None:
        yield from tar_members(inner, inner.files, f"{IMAGE}/", 0)
    yield tar_end()


def _layout_files(layout: Path) -> Iterator[SourceFile]:
    for entry in walk_folder(layout):
        if entry.kind is EntryKind.FILE:
            yield SourceFile(entry.path, entry.size, executable=False)


def _listed_file(tree: SourceTree, file: SourceFile, folder: str) -> PackedFile:
    found = hashlib.sha256()
    for piece in tree.read(file):
        found.update(piece)
    return PackedFile(path=f"{folder}/{file.path}", size=file.size, sha256=found.hexdigest())


def write_layout(workshop: ImageStore, reference: str, layout: Path) -> str:
    """Writes an engine's image as an OCI layout into a new folder; returns the id that it will have once loaded.

    Raises:
        Rejected: organizers would refuse the image.
        UsageError: the engine has no such image.
    """
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    config, layers = _split_saved_image(workshop.save(reference), blobs)
    plain = workshop.normalise_config(config)
    (blobs / hashlib.sha256(plain).hexdigest()).write_bytes(plain)
    described = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _descriptor(CONFIG, plain),
        "layers": [
            {"mediaType": LAYER, "digest": f"sha256:{path.name}", "size": path.stat().st_size} for path in layers
        ],
    }
    text = canonical_json(described).encode()
    (blobs / hashlib.sha256(text).hexdigest()).write_bytes(text)
    index = {"schemaVersion": 2, "manifests": [_descriptor(MANIFEST, text)]}
    (layout / "index.json").write_text(canonical_json(index), "ascii")
    (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}', "ascii")
    image_archive.read_image_layout(layout)
    return digest(plain)


def _descriptor(kind: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest(data), "size": len(data)}


def _split_saved_image(pieces: Iterator[bytes], blobs: Path) -> tuple[dict[str, Any], list[Path]]:
    """Splits an image that an engine saved; returns its configuration, and its layers as files in `blobs`."""
    place = Path(tempfile.mkdtemp(prefix=".saved-", dir=blobs.parent))
    files: dict[str, Path] = {}
    links: dict[str, str] = {}
    try:
        stream = TarStream(PieceReader(pieces))
        for member in stream:
            name = posixpath.normpath(member.name.decode("utf-8", "replace"))
            if member.kind is MemberKind.FILE and _SAVED_NAME.fullmatch(name):
                files[name] = place / str(len(files))
                _write(files[name], stream.content())
            elif member.kind is MemberKind.LINK:  # a layer that occurs twice is saved as a link
                target = posixpath.join(posixpath.dirname(name), member.link.decode("utf-8", "replace"))
                links[name] = posixpath.normpath(target)
        [described] = _json(files["manifest.json"])
        config = _json(files[described["Config"]])
        layers = [_store_layer(files, links.get(name, name), blobs) for name in described["Layers"]]
    except (MalformedArchive, KeyError, ValueError, TypeError) as error:
        raise InfrastructureFault(f"the engine saved the image in a form that is not supported: {error}") from error
    finally:
        for path in place.iterdir():
            path.unlink()
        place.rmdir()
    return config, layers


def _json(path: Path) -> Any:
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        raise ValueError(f"a document of {path.stat().st_size} bytes")
    return json.loads(path.read_bytes())


def _store_layer(files: dict[str, Path], name: str, blobs: Path) -> Path:
    """Moves a saved layer to `blobs` under its digest, unless it is there already; returns its path."""
    path = files[name]
    if path.parent == blobs:
        return path
    with path.open("rb") as file:
        files[name] = blobs / hashlib.file_digest(file, "sha256").hexdigest()
    path.rename(files[name])
    return files[name]


def _write(path: Path, pieces: Iterator[bytes]) -> None:
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
