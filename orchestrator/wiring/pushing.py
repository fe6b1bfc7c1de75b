"""A contest's images brought from this machine's engine to the registry that a cluster's nodes pull from."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from orchestrator.backends.base import Backend, Image, Source
from orchestrator.cluster.settings import ClusterSettings
from orchestrator.errors import InfrastructureFault, Rejected, UsageError
from orchestrator.intake.admission import admit
from orchestrator.intake.built import Record
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.source_tree import survey
from orchestrator.registry.credentials import Credentials
from orchestrator.registry.documents import UnfitError
from orchestrator.registry.references import Name, NoNameError, parse
from orchestrator.registry.registries import Described, Registries
from orchestrator.registry.shelves import below, shelf, tagged
from orchestrator.wiring import building, seasons
from orchestrator.wiring.desk import Desk

RUNNER = "runner"
"""What the image of driver and init container is listed as."""


class State(StrEnum):
    """What became of an image."""

    PUSHED = "pushed"
    THERE = "there"
    """The registry has it already: what the engine has, or more than the engine has."""
    ELSEWHERE = "elsewhere"
    """Its name is in another registry, which is not asked: whoever calls it so pushes it."""
    MISSING = "missing"
    REFUSED = "refused"
    """Admission on this machine's engine refuses it, which sees the files that a registry tells nothing of."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An image that the cluster needs: for whom, how the engine knows it, and where it has to lie.

    `identity` is what was received; empty where whatever the engine calls `image` now is meant. `ours` is whether the
    name lies below `cluster.registry`, so that we may put it there. `folder` is what the image has to be built from.
    """

    who: str
    image: str
    place: Name
    identity: str = ""
    ours: bool = True
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Pushed:
    """What became of one image. `reference` is what a node pulls, empty where nobody looked or found it; then `why`."""

    who: str
    image: str
    reference: str
    state: State
    why: str = ""


def wanted(place: Path) -> tuple[ClusterSettings, list[Wanted]]:
    """Returns every image that a contest needs on a cluster, the runner's included.

    `place` is a contest file, or the folder of a season, whose received images are listed too. A folder is held no
    longer than it takes to read it.

    Raises:
        UsageError: `cluster.registry` says no place, or an image has no name that can be pushed.
        Rejected: the contest file or an entry cannot be read.
    """
    if not place.is_dir():
        contest = Contest(place)
        return contest.file.cluster, _of_file(contest, _prefix(contest.file.cluster), complete=True)
    with seasons.at_desk(place) as desk:
        settings = desk.contest.file.cluster
        prefix = _prefix(settings)
        return settings, [*_of_file(desk.contest, prefix, complete=False), *_received(desk, prefix)]


def push(
    settings: ClusterSettings, listed: list[Wanted], backend: Backend, registries: Registries | None = None
) -> Iterator[Pushed]:
    """Pushes what the registry does not have yet, and yields what became of each image.

    Raises:
        UsageError: the registry does not take it from this user, or the backend has no workshop.
        InfrastructureFault: engine or registry failed; what was pushed before stays.
    """
    asked = registries or Registries(settings.insecure_registries)
    for each in listed:
        yield _one(settings, each, backend, asked)


def _prefix(settings: ClusterSettings) -> str:
    """Returns the beginning of every name in the settings' registry. Raises UsageError where there is none."""
    try:
        return below(settings.registry)
    except NoNameError as error:
        raise UsageError(f"{error}; set it, like registry.example.org/contest, in the contest file") from error


def _one(settings: ClusterSettings, each: Wanted, backend: Backend, asked: Registries) -> Pushed:
    if not each.ours:
        return Pushed(
            each.who, each.image, "", State.ELSEWHERE, "not in cluster.registry; whoever calls it so pushes it"
        )
    found, why = _look(asked, each, settings)
    here = "" if each.place.digest else _identity(backend, each)
    meant = each.identity or here
    if here and each.who != RUNNER and (why := _refused(backend, here)):
        return Pushed(each.who, each.image, "", State.REFUSED, why)
    if found is not None and (not meant or meant in found.identities):
        return Pushed(each.who, each.image, each.place.at(found.digest), State.THERE)
    if each.place.digest:
        return Pushed(each.who, each.image, "", State.MISSING, f"{why}; a digest is not pushed: name it by its tag")
    if not here:
        remedy = "bring it with `docker load`" if each.identity else "build it (`make images` builds ours)"
        if each.folder is not None:
            remedy = f"build it here: `sparring submission build {each.folder}` (`make images` builds ours)"
        return Pushed(each.who, each.image, "", State.MISSING, f"neither registry nor engine has it; {remedy}")
    name = tagged(each.place)
    backend.workshop().push(each.image, name, Credentials.read().of(each.place.host, each.place.repository))
    found, why = _look(asked, each, settings)
    if found is None or meant not in found.identities:
        there = why or f"{found.digest if found else ''}, an image of another identity"
        raise InfrastructureFault(f"{name} was pushed, and there lies now: {there}; {meant} was meant: run it again")
    return Pushed(each.who, each.image, each.place.at(found.digest), State.PUSHED)


def _look(asked: Registries, each: Wanted, settings: ClusterSettings) -> tuple[Described | None, str]:
    """Returns what lies in a place; where there is nothing, or nothing for this platform, None and why."""
    try:
        return asked.describe(each.place, settings.platform), ""
    except UnfitError as error:
        return None, f"{error.problem.what}"


def _refused(backend: Backend, image: str) -> str:
    """Returns why admission refuses an image of the engine's, empty where it does not."""
    try:
        backend.admit(Source(image=image))
    except Rejected as error:
        return "; ".join(str(problem) for problem in error.problems)
    return ""


def _identity(backend: Backend, each: Wanted) -> str:
    """Returns what the engine has of an image: its id, empty where there is none."""
    try:
        return backend.look_into(each.image, files=False).identity
    except UsageError:
        return ""


def _of_file(contest: Contest, prefix: str, *, complete: bool) -> list[Wanted]:
    """Returns the runner's image and those of a contest file's entries, each once."""
    sources: list[Source] = []

    def noted(source: Source) -> Image:
        sources.append(source)
        return Image(digest="", name=source.image or "")

    roster = admit(contest, noted, complete=complete).roster
    named = [_entry(RUNNER, Source(image=contest.file.cluster.runner), prefix)]
    named += [_entry(each.id, source, prefix) for each, source in zip(roster, sources, strict=True) if source.image]
    found: dict[str, Wanted] = {}
    for each in named:
        found.setdefault(str(each.place), each)
    return list(found.values())


def _entry(who: str, source: Source, prefix: str) -> Wanted:
    """Returns what is to lie where; a folder's image is the one that was built from it, by our own record."""
    image = source.image or ""
    proof = building.needs_proof(source)
    shelf_name = (building.shelf_of(source) if proof else None) or image
    try:
        place = parse(shelf_name, prefix.rstrip("/"))
    except NoNameError as error:
        raise UsageError(f"{who}: {error}; name it like team/entry:1") from error
    ours = f"{place.host}/{place.repository}".startswith(prefix)
    if not proof or source.folder is None:
        return Wanted(who, image, place, ours=ours)
    built = Record.here().image_of(survey(source.folder).digest, source.flavour)
    return Wanted(who, built or shelf_name, place, built, ours=ours, folder=source.folder)


def _received(desk: Desk, prefix: str) -> list[Wanted]:
    """Returns the received images that still play. What was received as a folder has none."""
    contest = desk.contest.file.contest
    return [
        Wanted(entry.id, entry.digest, parse(prefix + shelf(contest, entry.id, entry.digest)), entry.digest)
        for entry in desk.season.entries.values()
        if entry.plays and not entry.folder
    ]
