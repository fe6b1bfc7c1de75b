"""From the entries of a contest file to a roster: every entry is read, found on the backend and fixed by its digest."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from orchestrator import shipped
from orchestrator.backends.base import Image, Source
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.intake import manifest
from orchestrator.intake.contest_file import Contest, EntrySection


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
    for section, entries in (("baselines", contest.file.baselines), ("submissions", contest.file.submissions)):
        for place, entry in enumerate(entries):
            at = (section, place)
            try:
                submission, image = _entry(contest, identify, entry, baseline=section == "baselines")
            except Rejected as error:
                problems += [contest.problem(at, str(found)) for found in error.problems]
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


def baseline(contest: Contest, identify: Callable[[Source], Image], name: str) -> tuple[Submission, Image]:
    """Returns one baseline of the contest and what is started for it.

    Raises:
        UsageError: the contest has no baseline of this name.
        Rejected: it cannot be started.
    """
    known = {_entry(contest, _unseen, entry, baseline=True)[0].id: entry for entry in contest.file.baselines}
    if name not in known:
        raise UsageError(f"{contest.path} has no baseline {name!r}; it has {', '.join(known) or 'none'}")
    return _entry(contest, identify, known[name], baseline=True)


def _unseen(source: Source) -> Image:
    return Image(digest="", name=source.image or "")


def _entry(
    contest: Contest, identify: Callable[[Source], Image], entry: EntrySection, *, baseline: bool
) -> tuple[Submission, Image]:
    folder = None if entry.folder is None else contest.folder / entry.folder
    if entry.builtin is not None:
        folder = builtin(entry.builtin)
    described = None if folder is None else manifest.read(folder)
    cuda = bool(contest.file.limits.gpus and described and described.gpu)
    source = _source(entry, folder, described, flavour="cuda" if cuda else "cpu", trusted=baseline)
    image = identify(source)
    name = entry.name or (described.name if described else "")
    side = entry.side or (described.side if described else None)
    if side is None:
        raise Rejected("entry", [Problem("side", "is missing", "write `side: attack` or `side: defence`")])
    if described and described.side is not side:
        what = f"the contest file says {side}, its submission.yaml {described.side}"
        raise Rejected("entry", [Problem("side", what, "make them agree")])
    submission = Submission(
        id=name,
        name=name,
        team=entry.team,
        side=Side(side),
        digest=image.digest,
        image=image.name,
        baseline=baseline,
        submitted=entry.submitted.astimezone(UTC).isoformat() if entry.submitted else "",
    )
    return submission, image


def builtin(name: str) -> Path:
    """Returns the folder of a baseline that is shipped with this software. Raises Rejected when there is none."""
    known = sorted(path.parent.name for path in shipped.path("images").glob("*/submission.yaml"))
    if name not in known:
        raise Rejected("entry", [Problem("builtin", f"there is no {name!r}", f"one of {', '.join(known)}")])
    return shipped.path("images", name)


def _source(
    entry: EntrySection, folder: Path | None, found: manifest.Manifest | None, *, flavour: str, trusted: bool
) -> Source:
    tag = tagged(entry.image or (found.image if found else ""), flavour)
    return Source(folder=folder, image=tag, command=tuple(found.command) if found else (), trusted=trusted)


def tagged(image: str, flavour: str = "cpu") -> str | None:
    """Returns the name of an image with its tag, the flavour where it has none; None for no image."""
    named = ":" in image.rsplit("/", 1)[-1]
    return (image if named else f"{image}:{flavour}") if image else None


def _objections(contest: Contest, roster: Roster, phase: str = "") -> list[Problem]:
    found: list[Problem] = contest.format.objections(roster, phase)
    return [contest.problem(tuple(p.place.split(".")), p.what, p.remedy) for p in found]
