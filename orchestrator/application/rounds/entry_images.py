"""Finds the image for a contest file's entry with a folder, or builds it.

An image's name or label does not prove that it was built from a folder. So a folder's image is looked up in our own
record of builds (`intake.build_record`), and built if there is none; an unchanged folder is built once. Built images
are named by their content, so no name that the organizers or a manifest gave is moved.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from orchestrator import composition
from orchestrator.domain.images import is_image_id
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.intake import build_log, image_build
from orchestrator.intake.build_record import BuildRecord
from orchestrator.intake.image_build import ImageBuildOptions
from orchestrator.intake.source_tree import scan_folder
from orchestrator.logs import get_logger
from orchestrator.sandboxes.base import Backend, BuildRequest, Image, ImageSource, ImageStore

REPOSITORY = "sparring-built"
"""The first part of the names of images that are built from folders for a round."""
BUILDS = "builds"
"""The folder of build logs, in the folder of a round or of a contest."""
_DIGEST_DIGITS = 16
"""The number of a digest's digits in a name."""

_log = get_logger()


def admitter_with_builds(
    backend: Backend, folder: Path, record: BuildRecord | None = None
) -> Callable[[ImageSource], Image]:
    """Returns a function that admits a source; a folder's image is the one that was built from it, built if needed.

    Build logs go below `folder`. The function raises like `Backend.admit`, and Rejected if a build fails.
    """
    image_store = find_image_store(backend)
    known = record or BuildRecord.of_user()

    def admitted(source: ImageSource) -> Image:
        if image_store is None or not needs_proof(source):
            return backend.admit(_with_registry_name(backend, source))
        identity = proven_image(backend, source, known) or _build_image(image_store, source, folder, known)
        return replace(backend.admit(replace(source, image=identity)), name=_display_name(source))

    return admitted


def admitter_without_builds(backend: Backend, record: BuildRecord | None = None) -> Callable[[ImageSource], Image]:
    """Returns a function that admits a source without building; an image not built yet has the digest of its files."""
    image_store = find_image_store(backend)
    known = record or BuildRecord.of_user()

    def admitted(source: ImageSource) -> Image:
        if image_store is None or not needs_proof(source):
            return backend.admit(_with_registry_name(backend, source))
        identity = proven_image(backend, source, known)
        if not identity and source.folder is not None:
            prepared = image_build.prepare_build(
                source.folder, ImageBuildOptions(flavour=source.flavour, tag=_build_name(source, "unbuilt"))
            )
            return Image(prepared.tree.digest, _display_name(source))
        return replace(backend.admit(replace(source, image=identity)), name=_display_name(source))

    return admitted


def proven_image(backend: Backend, source: ImageSource, record: BuildRecord) -> str:
    """Returns the id of the image that was built here from a source's present folder, "" if the engine has none."""
    if source.folder is None:
        return ""
    identity = record.image_of(scan_folder(source.folder).digest, source.flavour)
    return find_image(backend, identity) if identity else ""


def find_image(backend: Backend, name: str) -> str:
    """Returns the id of an image on the engine, by its name or id; "" if the engine does not have it."""
    try:
        return backend.inspect_image(name, files=False).image_id
    except UsageError:
        return ""


def find_image_store(backend: Backend) -> ImageStore | None:
    """Returns a backend's image store; None if it starts folders, or only images that others built."""
    try:
        return backend.image_store()
    except UsageError:
        return None


def needs_proof(source: ImageSource) -> bool:
    """Returns whether our record has to show that an image was built from a source's folder.

    It need not if the contest file names the image by id or digest: then the organizers have fixed which image it is.
    """
    return source.folder is not None and not (source.image and is_image_id(source.image))


def registry_image_name(source: ImageSource) -> str | None:
    """Returns a folder's image name in the contest's registry: the source's name, tagged with its files' digest.

    Only the organizers write to that registry, and `application.kubernetes.push_images` pushes under that tag only an
    image that our record shows as built from those files. Returns None for a source without an image name.
    """
    if source.folder is None or not source.image:
        return source.image
    digest = scan_folder(source.folder).digest.removeprefix("sha256:")[:_DIGEST_DIGITS]
    return f"{source.image.rpartition(':')[0] or source.image}:{source.flavour}-{digest}"


def _with_registry_name(backend: Backend, source: ImageSource) -> ImageSource:
    """Returns a source with the image's name in the registry if a cluster's nodes start it, else unchanged."""
    if backend.name == composition.KUBERNETES and needs_proof(source):
        return replace(source, image=registry_image_name(source))
    return source


def _display_name(source: ImageSource) -> str:
    return source.image or (source.folder.name if source.folder else "")


def _build_image(image_store: ImageStore, source: ImageSource, folder: Path, record: BuildRecord) -> str:
    """Builds a folder's image, adds it to the record of builds and returns its id. Raises Rejected."""
    path = source.folder or Path()
    digest = scan_folder(path).digest
    options = ImageBuildOptions(flavour=source.flavour, tag=_build_name(source, digest))
    prepared = image_build.prepare_build(path, options)
    log = folder / BUILDS / f"{prepared.manifest.name}-{digest.removeprefix('sha256:')[:12]}.log"
    _log.info("image_building", folder=str(path), log=str(log))
    with build_log.open_build_log(log) as write_line:
        identity = _run_build(image_store, prepared.recipe, write_line, path)
    if scan_folder(path).digest != digest or prepared.tree.digest != digest:
        raise Rejected(f"folder {path}", [Problem("files", "changed while it was built", "run it again")])
    record.add(digest, source.flavour, identity)
    return identity


def _run_build(image_store: ImageStore, recipe: BuildRequest, log: build_log.BuildLog, folder: Path) -> str:
    try:
        return image_store.build(recipe, log)
    except Rejected as error:
        more = [Problem("log", f"it ends with: {log.tail[-1]}", f"all of it is in {log.path}")] if log.tail else []
        hint = image_build.missing_wheels_problem(folder)
        more += (
            [Problem("wheels", hint[0], f"`sparring image build` builds what is shipped; else {hint[1]}")]
            if hint
            else []
        )
        raise Rejected(error.subject, [*error.problems, *more]) from error


def _build_name(source: ImageSource, digest: str) -> str:
    name = (source.image or "entry").rpartition("/")[2].partition(":")[0]
    return f"{REPOSITORY}/{name}:{source.flavour}-{digest.removeprefix('sha256:')[:_DIGEST_DIGITS]}"
