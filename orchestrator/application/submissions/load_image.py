"""Loads an image from a package or an OCI image layout, after checking its files as a stranger's."""

from pathlib import Path

from orchestrator.domain.ids import digest
from orchestrator.domain.images import is_image_reference
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.intake import archive, image_archive
from orchestrator.intake.archive import UnpackedArchive
from orchestrator.sandboxes.base import ImageStore


def load_image(path: Path, name: str, image_store: ImageStore, workspace: Path) -> str:
    """Loads the image of a package, or of a folder with an OCI image layout, into an image store; returns its id.

    Args:
        path: the package's file, or the folder.
        name: the name that the image gets; names in the files are not read.
        image_store: the store to load it into.
        workspace: a folder to unpack a package into.

    Raises:
        UsageError: there is no such file, it has no image, or the name is invalid.
        Rejected: with all problems of the image.
    """
    if not is_image_reference(name) or name.startswith("sha256:"):
        raise UsageError(f"--name {printable(name)} is no name of an image; write it like team/entry:1")
    if path.is_dir():
        parts = image_archive.read_image_layout(path)
        return image_store.load(parts.config, parts.layers, name)
    with archive.open_archive(path, workspace) as unpacked:
        if unpacked.image is None:
            raise UsageError(f"{printable(str(path))} has no image; pack it with one, or build the image of its folder")
        return load_packaged_image(unpacked, image_store, name)


def load_packaged_image(unpacked: UnpackedArchive, image_store: ImageStore, name: str) -> str:
    """Loads the image of a package that has one, and returns its id. Raises Rejected."""
    assert unpacked.image is not None  # noqa: S101  the caller has checked it
    parts = image_archive.read_image_layout(unpacked.image)
    identity = digest(image_store.normalise_config(parts.config))
    if unpacked.declared_image != identity:
        mismatch = f"{identity}, the package says {unpacked.declared_image or 'nothing'}"
        raise Rejected("image", [Problem("image", mismatch, "pack it again with `sparring submission pack`")])
    return image_store.load(parts.config, parts.layers, name)
