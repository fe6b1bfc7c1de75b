"""From the entries of a contest file to a roster: every entry is read, found on the backend and fixed by its digest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from orchestrator.backends.base import Image, Source
from orchestrator.domain.submissions import Roster, Submission
from orchestrator.domain.tasks import Task
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.intake import entries
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.entries import Described, EntrySection


@dataclass(frozen=True)
class Admitted:
    """Who plays, and what the backend starts for each, by submission id."""

    roster: Roster
    images: dict[str, Image]


def admit(contest: Contest, identify: Callable[[Source], Image], *, complete: bool = True) -> Admitted:
    """Returns the contest's roster with everything that is started fixed by its digest; `identify` is `Backend.admit`.

    A roster that is not `complete` grows later: the format does not object to it yet.

    Raises:
        Rejected: with every entry that cannot play, and why.
    """
    problems: list[Problem] = []
    submissions: list[Submission] = []
    images: dict[str, Image] = {}
    folders: dict[str, Path] = {}
    for section, listed in (("baselines", contest.file.baselines), ("submissions", contest.file.submissions)):
        for place, entry in enumerate(listed):
            at = (section, place)
            try:
                found = entries.read(entry, contest.folder)
                if shared := entries.second_folder(entry, found, folders):
                    problems.append(contest.problem(at, *shared))
                    continue
                submission, image = _entry(contest, identify, entry, found, baseline=section == "baselines")
            except Rejected as error:
                problems += [contest.problem(at, str(each)) for each in error.problems]
                continue
            if submission.id in images:
                problems.append(contest.problem(at, f"a second {submission.id!r}", "give one of them a `name:`"))
                continue
            submissions.append(submission)
            images[submission.id] = image
    roster = Roster(tuple(submissions))
    if not problems and complete:
        problems = _objections(contest, roster)
    if problems:
        raise Rejected(str(contest.path), problems)
    return Admitted(roster, images)


def objections(contest: Contest, roster: Roster, phase: str) -> None:
    """Raises Rejected with why the format cannot play this round with this roster, if it cannot."""
    if problems := _objections(contest, roster, phase):
        raise Rejected(str(contest.path), problems)


def described(contest: Contest, *, complete: bool = True) -> Roster:
    """Returns the roster as the files describe it, without asking a backend; identities are empty.

    Raises:
        Rejected: with every entry that cannot be read.
    """
    return admit(contest, _unseen, complete=complete).roster


def look(contest: Contest, phases: Sequence[str] = ()) -> tuple[list[Task], Roster]:
    """Returns the contest's tasks and its roster as the files describe them, without asking a backend.

    Of a season, `phases` are the rounds that it is going to have: each has to be one that the roster can play.

    Raises:
        Rejected: with everything that is wrong with pictures, budgets and entries.
    """
    tasks: list[Task] = []
    roster = Roster(())
    problems: list[Problem] = []
    for name in (section.name for section in contest.file.every_task):
        try:
            tasks.append(contest.task(contest.samples(name), name))
        except Rejected as error:
            problems += error.problems
    try:
        roster = described(contest, complete=False)
        against = (problem for phase in ("", *phases) for problem in _objections(contest, roster, phase))
        problems += dict.fromkeys(against)
    except Rejected as error:
        problems += error.problems
    if problems:
        raise Rejected(str(contest.path), problems)
    return tasks, roster


def baseline(contest: Contest, identify: Callable[[Source], Image], name: str) -> tuple[Submission, Image]:
    """Returns one baseline of the contest and what is started for it.

    Raises:
        UsageError: the contest has no baseline of this name.
        Rejected: it cannot be started.
    """
    read = [(entry, entries.read(entry, contest.folder)) for entry in contest.file.baselines]
    known = {found.name: (entry, found) for entry, found in read}
    if name not in known:
        raise UsageError(f"{contest.path} has no baseline {name!r}; it has {', '.join(known) or 'none'}")
    return _entry(contest, identify, *known[name], baseline=True)


def _unseen(source: Source) -> Image:
    return Image(digest="", name=source.image or "")


def _entry(
    contest: Contest, identify: Callable[[Source], Image], entry: EntrySection, found: Described, *, baseline: bool
) -> tuple[Submission, Image]:
    cuda = bool(contest.file.limits.gpus and found.manifest and found.manifest.gpu)
    image = identify(_source(entry, found, flavour="cuda" if cuda else "cpu", trusted=baseline))
    submission = Submission(
        id=found.name,
        name=found.name,
        team=entry.team,
        side=found.side,
        digest=image.digest,
        image=image.name,
        baseline=baseline,
        submitted=entry.submitted.astimezone(UTC).isoformat() if entry.submitted else "",
    )
    return submission, image


def _source(entry: EntrySection, found: Described, *, flavour: str, trusted: bool) -> Source:
    described = found.manifest
    tag = tagged(entry.image or (described.image if described else ""), flavour)
    return Source(
        folder=found.folder,
        image=tag,
        command=tuple(described.command) if described else (),
        trusted=trusted,
        flavour=flavour,
    )


def tagged(image: str, flavour: str = "cpu") -> str | None:
    """Returns the name of an image with its tag, the flavour where it has none; None for no image."""
    named = ":" in image.rsplit("/", 1)[-1]  # a tag, a digest, or it is an id
    return (image if named else f"{image}:{flavour}") if image else None


def _objections(contest: Contest, roster: Roster, phase: str = "") -> list[Problem]:
    found: list[Problem] = contest.format.objections(roster, phase)
    return [contest.problem(tuple(p.place.split(".")), p.what, p.remedy) for p in found]
