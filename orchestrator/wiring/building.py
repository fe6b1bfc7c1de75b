"""Entries of a contest file with a folder: what is started for each was built from it here, and is built where not.

A backend that starts images starts what a name leads to. So a folder's image is looked up in our own record of builds
(`intake.built`), never by a name or a label, and built where there is none; an unchanged folder is built once. Builds
have a name by their content, so no name that the organizers or a manifest gave is moved.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import structlog

from orchestrator.backends.base import Backend, Image, Recipe, Source, Workshop
from orchestrator.domain.images import is_identity
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.intake import build
from orchestrator.intake.build import Wanted
from orchestrator.intake.built import Record
from orchestrator.intake.source_tree import survey
from orchestrator.wiring import build_log, machine

REPOSITORY = "sparring-built"
"""What images of folders are called that were built for a round."""
BUILDS = "builds"
"""Where the logs go, in the folder of a round or of a contest."""
_NAMED = 16
"""Digits of a digest in a name."""

_log = structlog.get_logger()


def identify(backend: Backend, folder: Path, record: Record | None = None) -> Callable[[Source], Image]:
    """Returns what admits a source: a folder's image is the one that was built from it, and is built where needed.

    `folder` is where logs of builds go. Raises like `Backend.admit`, and Rejected where a build fails.
    """
    workshop = _workshop(backend)
    known = record or Record.here()

    def admitted(source: Source) -> Image:
        if workshop is None or not needs_proof(source):
            return backend.admit(_shelved(backend, source))
        identity = proved(backend, source, known) or _built(workshop, source, folder, known)
        return replace(backend.admit(replace(source, image=identity)), name=_shown(source))

    return admitted


def foretell(backend: Backend, record: Record | None = None) -> Callable[[Source], Image]:
    """Returns what admits a source without building: what would be built stands for itself, by its files' digest."""
    workshop = _workshop(backend)
    known = record or Record.here()

    def admitted(source: Source) -> Image:
        if workshop is None or not needs_proof(source):
            return backend.admit(_shelved(backend, source))
        identity = proved(backend, source, known)
        if not identity and source.folder is not None:
            prepared = build.prepare(source.folder, Wanted(flavour=source.flavour, tag=_name(source, "unbuilt")))
            return Image(prepared.tree.digest, _shown(source))
        return replace(backend.admit(replace(source, image=identity)), name=_shown(source))

    return admitted


def proved(backend: Backend, source: Source, record: Record) -> str:
    """Returns the id of the image that was built here from a source's folder as it is now, empty where none is here."""
    if source.folder is None:
        return ""
    identity = record.image_of(survey(source.folder).digest, source.flavour)
    try:
        return backend.look_into(identity, files=False).identity if identity else ""
    except UsageError:  # it was removed from the engine
        return ""


def _workshop(backend: Backend) -> Workshop | None:
    try:
        return backend.workshop()
    except UsageError:  # it starts folders, or only what others built
        return None


def needs_proof(source: Source) -> bool:
    """Returns whether it has to be shown that an image was built from a source's folder.

    A contest file that names the image by its id or digest is the organizers' own record of what it is.
    """
    return source.folder is not None and not (source.image and is_identity(source.image))


def shelf_of(source: Source) -> str | None:
    """Returns the name in the contest's registry of the image of a folder: its own, with its files' digest as the tag.

    Only the organizers write to that registry, and only what is on record as built from those files is pushed there
    under that tag (`wiring.pushing`). None for an image that has no name.
    """
    if source.folder is None or not source.image:
        return source.image
    digest = survey(source.folder).digest.removeprefix("sha256:")[:_NAMED]
    return f"{source.image.rpartition(':')[0] or source.image}:{source.flavour}-{digest}"


def _shelved(backend: Backend, source: Source) -> Source:
    """Returns a source as a cluster's nodes find it, where they start it."""
    if backend.name == machine.KUBERNETES and needs_proof(source):
        return replace(source, image=shelf_of(source))
    return source


def _shown(source: Source) -> str:
    return source.image or (source.folder.name if source.folder else "")


def _built(workshop: Workshop, source: Source, folder: Path, record: Record) -> str:
    """Builds a folder's image, notes it and returns its id. Raises Rejected."""
    path = source.folder or Path()
    digest = survey(path).digest
    wanted = Wanted(flavour=source.flavour, tag=_name(source, digest))
    prepared = build.prepare(path, wanted)
    log = folder / BUILDS / f"{prepared.manifest.name}-{digest.removeprefix('sha256:')[:12]}.log"
    _log.info("image_building", folder=str(path), log=str(log))
    with build_log.kept(log) as words:
        identity = _made(workshop, prepared.recipe, words, path)
    if survey(path).digest != digest or prepared.tree.digest != digest:
        raise Rejected(f"folder {path}", [Problem("files", "changed while it was built", "run it again")])
    record.note(digest, source.flavour, identity)
    return identity


def _made(workshop: Workshop, recipe: Recipe, log: build_log.BuildLog, folder: Path) -> str:
    try:
        return workshop.build(recipe, log)
    except Rejected as error:
        more = [Problem("log", f"it ends with: {log.last[-1]}", f"all of it is in {log.path}")] if log.last else []
        hint = build.missing_wheels(folder)
        more += [Problem("wheels", hint[0], f"`make images` builds what is shipped; else {hint[1]}")] if hint else []
        raise Rejected(error.subject, [*error.problems, *more]) from error


def _name(source: Source, digest: str) -> str:
    name = (source.image or "entry").rpartition("/")[2].partition(":")[0]
    return f"{REPOSITORY}/{name}:{source.flavour}-{digest.removeprefix('sha256:')[:_NAMED]}"
