"""A contest's images brought from this machine's engine to the registry that a cluster's nodes pull from."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from orchestrator.application.contests import seasons
from orchestrator.application.contests.administration import ContestAdmin
from orchestrator.application.rounds import entry_images
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
"""What the image of driver and init container is listed as."""


class PushState(StrEnum):
    """What became of an image."""

    PUSHED = "pushed"
    PRESENT = "there"
    """The registry has it already: what the engine has, or more than the engine has."""
    ELSEWHERE = "elsewhere"
    """Its name is in another registry, which is not asked: pushing it is for those who chose that name."""
    MISSING = "missing"
    REFUSED = "refused"
    """Admission on this machine's engine refuses it, which sees the files that a registry tells nothing of."""


@dataclass(frozen=True, slots=True)
class RequiredImage:
    """An image that the cluster needs: for whom, how the engine knows it, and where it has to lie.

    `identity` is what was received; empty where whatever the engine calls `image` now is meant. `in_our_registry` is
    whether the name lies below `cluster.registry`, so that we may put it there. `folder` is what the image has to be
    built from.
    """

    owner: str
    image: str
    name: ImageReference
    identity: str = ""
    in_our_registry: bool = True
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class PushResult:
    """What became of one image.

    `reference` is what a node pulls, empty where nobody looked or found it; then `reason`.
    """

    owner: str
    image: str
    reference: str
    state: PushState
    reason: str = ""


def required_images(place: Path) -> tuple[ClusterSettings, list[RequiredImage]]:
    """Returns every image that a contest needs on a cluster, the runner's included.

    `place` is a contest file, or the folder of a season, whose received images are listed too. A folder is held no
    longer than it takes to read it.

    Raises:
        UsageError: there is nothing at `place`, `cluster.registry` says no place, or an image has no name that can be
            pushed.
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
    """Pushes what the registry does not have yet, and yields what became of each image.

    Raises:
        UsageError: the registry does not take it from this user, or the backend has no image store.
        InfrastructureFault: engine or registry failed; what was pushed before stays.
    """
    resolver = registries or ImageResolver(settings.insecure_registries)
    for image in listed:
        yield _push_one(settings, image, backend, resolver)


def _registry_prefix(settings: ClusterSettings) -> str:
    """Returns the beginning of every name in the settings' registry. Raises UsageError where there is none."""
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
    local_identity = "" if image.name.digest else _engine_identity(backend, image)
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
            remedy = f"build it here: `sparring submission build {image.folder}` (`sparring image build` builds ours)"
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
    """Returns what lies in a place; where there is nothing, or nothing for this platform, None and why."""
    try:
        return resolver.resolve(image.name, settings.platform), ""
    except UnusableImageError as error:
        return None, f"{error.problem.what}"


def _refusal_reason(backend: Backend, image: str) -> str:
    """Returns why admission refuses an image of the engine's, empty where it does not."""
    try:
        backend.admit(ImageSource(image=image))
    except Rejected as error:
        return "; ".join(str(problem) for problem in error.problems)
    return ""


def _engine_identity(backend: Backend, image: RequiredImage) -> str:
    """Returns what the engine has of an image: its id, empty where there is none."""
    try:
        return backend.inspect_image(image.image, files=False).image_id
    except UsageError:
        return ""


def _images_of_file(contest: Contest, prefix: str, *, complete: bool) -> list[RequiredImage]:
    """Returns the runner's image and those of a contest file's programs, each once."""
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
    """Returns what is to lie where; a folder's image is the one that was built from it, by our own record."""
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
    """Returns the received images that still play. What was received as a folder, or as pictures, has none."""
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
