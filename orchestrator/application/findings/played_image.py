"""Finds an image that played on a cluster on this machine's engine, by its id or by the digest that nodes pulled."""

from contextlib import suppress
from dataclasses import replace

from orchestrator.application.rounds.entry_images import find_image
from orchestrator.domain import events
from orchestrator.domain.submissions import Submission
from orchestrator.errors import Rejected, UsageError
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.oci.image_names import NO_REGISTRY, received_image_name, registry_prefix, tagged_name
from orchestrator.oci.references import ImageReference, InvalidReferenceError, parse_reference
from orchestrator.sandboxes.base import Backend, Image, ImageSource


def find_played_image(backend: Backend, submission: Submission, digest: str, opened: events.RoundOpened) -> Image:
    """Returns exactly the image that played, never another one of the same name.

    `digest` is the recorded one: that of a manifest or, for a received image, of a configuration, which is an engine's
    id. An engine knows an image by its manifest's digest once it pulled or pushed it by the repository's name.

    Raises:
        UsageError: the engine does not have it, with what to pull; or it cannot be started.
    """
    places = _image_names(submission, digest, opened)
    for name in (digest, *(each.pull_name(digest) for each in places)):
        if find_image(backend, name):
            return _admit_image(backend, name, submission, digest)
    raise UsageError(
        f"the image of {submission.id} that played, {digest}, is not on this machine's engine. "
        f"{_remedy(digest, places, opened)}; no other can show what it did"
    )


def _image_names(submission: Submission, digest: str, opening: events.RoundOpened) -> list[ImageReference]:
    """Returns the names by which nodes may have pulled it; with a tag if the digest is an engine's, not a manifest's.

    A season's submission was received, or came from the contest file: the record of a round does not tell which.
    """
    registry = _registry(opening)
    received = bool(opening.phase) and not submission.baseline
    references: list[ImageReference] = []
    with suppress(InvalidReferenceError):
        if received:
            references.append(
                parse_reference(
                    registry_prefix(registry) + received_image_name(opening.contest["contest"], submission.id, digest)
                )
            )
    with suppress(InvalidReferenceError):
        if not received or opening.contest.get("submissions"):
            prefix = "" if registry == NO_REGISTRY else registry.rstrip("/")
            references.append(replace(parse_reference(submission.image, prefix), tag="", digest=digest))
    return references


def _remedy(digest: str, places: list[ImageReference], opening: events.RoundOpened) -> str:
    pulls = " or ".join(f"`docker pull {tagged_name(each) if each.tag else each.pull_name(digest)}`" for each in places)
    if not pulls:
        return "Its name is in no registry: bring it with `docker load`"
    if _registry(opening) == NO_REGISTRY:
        return f"The round had no registry (cluster.registry: none). Push it to one under this name, then {pulls}"
    return f"Get it with {pulls}"


def _registry(opening: events.RoundOpened) -> str:
    return ClusterSettings.model_validate(opening.contest.get("cluster") or {}).registry


def _admit_image(backend: Backend, name: str, submission: Submission, digest: str) -> Image:
    try:
        return backend.admit(ImageSource(image=name, trusted=submission.baseline))
    except Rejected as error:
        problems = "; ".join(str(problem) for problem in error.problems)
        raise UsageError(f"the image of {submission.id} that played, {digest}, cannot: {problems}") from error
