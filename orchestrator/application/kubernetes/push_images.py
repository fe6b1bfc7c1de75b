"""Pushes a contest's images from this machine's engine to the registry from which a cluster's nodes pull."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from orchestrator.application.contests import seasons
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.rounds import entry_images
from orchestrator.domain.text import shell_word
from orchestrator.errors import InfrastructureFault, Rejected, UsageError
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.intake.admission import admit_entries
from orchestrator.intake.build_record import BuildRecord
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.source_tree import scan_folder
from orchestrator.ledger.contest_folder import contest_file
from orchestrator.oci.credentials import Credentials
from orchestrator.oci.image_names import received_image_name, registry_prefix, tagged_name
from orchestrator.oci.manifests import UnusableImageError
from orchestrator.oci.references import ImageReference, InvalidReferenceError, parse_reference
from orchestrator.oci.resolver import ImageResolver, ResolvedImage
from orchestrator.sandboxes.base import Backend, Image, ImageSource

RUNNER = "runner"
"""The owner under which the image of the driver and the init container is listed."""


class PushState(StrEnum):
    """The outcome for one image."""

    PUSHED = "pushed"
    PRESENT = "present"
    """The registry has it already, and the engine has the same image or none."""
    ELSEWHERE = "elsewhere"
    """Its name is in another registry, which is not asked: the person who chose that name has to push it."""
    MISSING = "missing"
    REFUSED = "refused"
    """Admission on this machine refuses it; unlike a registry, the engine lets admission read the image's files."""


@dataclass(frozen=True, slots=True)
class RequiredImage:
    """An image that the cluster needs: its owner, its name or id on the engine, and its name in a registry.

    `identity` is the id that the image must have; empty if whatever the engine calls `image` now is meant.
    `in_our_registry` says whether the name is below `cluster.registry`, so that we may push it. `folder` is the folder
    from which our record has to show that the image was built, None if it need not.
    """

    owner: str
    image: str
    name: ImageReference
    identity: str = ""
    in_our_registry: bool = True
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class PushResult:
    """The result for one image.

    `reference` is the name by which a node pulls it; empty if it was not looked up or not found, as `reason` says.
    """

    owner: str
    image: str
    reference: str
    state: PushState
    reason: str = ""


def required_images(place: Path) -> tuple[ClusterSettings, list[RequiredImage]]:
    """Returns the cluster's settings and all images that a contest needs on a cluster, including the runner's.

    `place` is a contest file, or the folder of a season, whose received images are listed as well. The contest is open
    only while it is read.

    Raises:
        UsageError: there is nothing at `place`, `cluster.registry` names no registry, or an image has no name that can
            be pushed.
        Rejected: the contest file or an entry cannot be read.
    """
    if not place.is_dir():
        contest = Contest(contest_file(place))
        return contest.file.cluster, _images_of_file(contest, _registry_prefix(contest.file.cluster), complete=True)
    with seasons.administer(place) as admin:
        settings = admin.contest.file.cluster
        prefix = _registry_prefix(settings)
        return settings, [*_images_of_file(admin.contest, prefix, complete=False), *_received_images(admin, prefix)]


def push_missing(
    settings: ClusterSettings, listed: list[RequiredImage], backend: Backend, registries: ImageResolver | None = None
) -> Iterator[PushResult]:
    """Pushes the images that the registry does not have yet, and yields the result for each image.

    Raises:
        UsageError: the registry refuses the push of this user, or the backend has no image store.
        InfrastructureFault: the engine or the registry failed; images pushed before that stay.
    """
    resolver = registries or ImageResolver(settings.insecure_registries)
    for image in listed:
        yield _push_one(settings, image, backend, resolver)


def _registry_prefix(settings: ClusterSettings) -> str:
    """Returns the prefix of all names in the settings' registry. Raises UsageError if `cluster.registry` names none."""
    try:
        return registry_prefix(settings.registry)
    except InvalidReferenceError as error:
        raise UsageError(f"{error}; set it, like registry.example.org/contest, in the contest file") from error


def _push_one(settings: ClusterSettings, image: RequiredImage, backend: Backend, resolver: ImageResolver) -> PushResult:
    if not image.in_our_registry:
        return PushResult(
            image.owner,
            image.image,
            "",
            PushState.ELSEWHERE,
            "not in cluster.registry, so it is not pushed; push it there yourself",
        )
    resolved, why = _look_up(resolver, image, settings)
    local_identity = "" if image.name.digest else entry_images.find_image(backend, image.image)
    expected_identity = image.identity or local_identity
    if local_identity and image.owner != RUNNER and (why := _refusal_reason(backend, local_identity)):
        return PushResult(image.owner, image.image, "", PushState.REFUSED, why)
    if resolved is not None and (not expected_identity or expected_identity in resolved.identities):
        return PushResult(image.owner, image.image, image.name.pull_name(resolved.digest), PushState.PRESENT)
    if image.name.digest:
        return PushResult(
            image.owner, image.image, "", PushState.MISSING, f"{why}; a digest is not pushed: name it by its tag"
        )
    if not local_identity:
        remedy = "bring it with `docker load`" if image.identity else "build it (`sparring image build` builds ours)"
        if image.folder is not None:
            build = f"`sparring submission build {shell_word(image.folder)}`"
            remedy = f"build it here: {build} (`sparring image build` builds ours)"
        return PushResult(
            image.owner, image.image, "", PushState.MISSING, f"neither registry nor engine has it; {remedy}"
        )
    name = tagged_name(image.name)
    backend.image_store().push(
        image.image, name, Credentials.from_docker_config().login_for(image.name.host, image.name.repository)
    )
    resolved, why = _look_up(resolver, image, settings)
    if resolved is None or expected_identity not in resolved.identities:
        present = why or f"{resolved.digest if resolved else ''}, an image of another identity"
        raise InfrastructureFault(
            f"{name} was pushed, and there lies now: {present}; {expected_identity} was meant: run it again"
        )
    return PushResult(image.owner, image.image, image.name.pull_name(resolved.digest), PushState.PUSHED)


def _look_up(
    resolver: ImageResolver, image: RequiredImage, settings: ClusterSettings
) -> tuple[ResolvedImage | None, str]:
    """Returns the image that the registry has and ""; or None and the reason, also if it has none for this platform."""
    try:
        return resolver.resolve(image.name, settings.platform), ""
    except UnusableImageError as error:
        return None, f"{error.problem.what}"


def _refusal_reason(backend: Backend, image: str) -> str:
    """Returns why admission refuses an image of the engine, "" if it admits it."""
    try:
        backend.admit(ImageSource(image=image))
    except Rejected as error:
        return "; ".join(str(problem) for problem in error.problems)
    return ""


def _images_of_file(contest: Contest, prefix: str, *, complete: bool) -> list[RequiredImage]:
    """Returns the runner's image and those of a contest file's entries, each once."""
    sources: list[ImageSource] = []

    def noted(source: ImageSource) -> Image:
        sources.append(source)
        return Image(digest="", name=source.image or "")

    programs = admit_entries(contest, noted, complete=complete).images
    named = [_required_image(RUNNER, ImageSource(image=contest.file.cluster.runner), prefix)]
    named += [
        _required_image(name, source, prefix) for name, source in zip(programs, sources, strict=True) if source.image
    ]
    found: dict[str, RequiredImage] = {}
    for each in named:
        found.setdefault(str(each.name), each)
    return list(found.values())


def _required_image(owner: str, source: ImageSource, prefix: str) -> RequiredImage:
    """Returns a source's image; for a folder, the image that was built from it, according to our record of builds."""
    image = source.image or ""
    proof = entry_images.needs_proof(source)
    shelf_name = (entry_images.registry_image_name(source) if proof else None) or image
    try:
        place = parse_reference(shelf_name, prefix.rstrip("/"))
    except InvalidReferenceError as error:
        raise UsageError(f"{owner}: {error}; name it like team/entry:1") from error
    in_our_registry = f"{place.host}/{place.repository}".startswith(prefix)
    if not proof or source.folder is None:
        return RequiredImage(owner, image, place, in_our_registry=in_our_registry)
    built = BuildRecord.of_user().image_of(scan_folder(source.folder).digest, source.flavour)
    return RequiredImage(
        owner, built or shelf_name, place, built, in_our_registry=in_our_registry, folder=source.folder
    )


def _received_images(admin: ContestAdmin, prefix: str) -> list[RequiredImage]:
    """Returns the images of active received submissions. Those received as a folder or as pictures have none."""
    contest = admin.contest.file.contest
    return [
        RequiredImage(
            entry.id,
            entry.digest,
            parse_reference(prefix + received_image_name(contest, entry.id, entry.digest)),
            entry.digest,
        )
        for entry in admin.season.entries.values()
        if entry.is_active and not entry.folder and not entry.pixels
    ]
