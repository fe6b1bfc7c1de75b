"""Makes a roster from a contest file's entries: reads each, finds its image on the backend, and fixes its digest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

from orchestrator.domain.organizer_attacks import ORGANIZERS, OrganizerAttack
from orchestrator.domain.samples import Pixels
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Task
from orchestrator.errors import Problem, Rejected, UsageError
from orchestrator.intake import contest_entries, manifest, picture_entries
from orchestrator.intake.contest_entries import EntryDescription, EntrySection
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.stores.base import array_digest
from orchestrator.sandboxes.base import Image, ImageSource

_RENAME = "give one of them a `name:`"
PARTICIPANT = "participant"
"""The team name of a submission that its authors play alone."""


@dataclass(frozen=True, eq=False)
class AdmittedEntry:
    """One entry, with the image that is started for it or, for a submission of pictures, pixels u8 [n, c, h, w]."""

    submission: Submission
    image: Image | None = None
    pixels: Pixels | None = None


@dataclass(frozen=True)
class AdmittedRoster:
    """A roster, and by submission id the image that the backend starts, or the submitted pictures."""

    roster: Roster
    images: dict[str, Image]
    pictures: dict[str, Pixels] = field(default_factory=dict)


def admit_entries(
    contest: Contest, identify: Callable[[ImageSource], Image], *, complete: bool = True
) -> AdmittedRoster:
    """Returns the contest's roster with every image fixed by its digest; `identify` is `Backend.admit` or like it.

    A roster that is not `complete` grows later, so the format's objections to it are not asked for.

    Raises:
        Rejected: with every entry that cannot play, and why.
    """
    problems: list[Problem] = []
    admitted: dict[str, AdmittedEntry] = {}
    folders: dict[str, Path] = {}
    for section, listed in (("baselines", contest.file.baselines), ("submissions", contest.file.submissions)):
        for place, entry in enumerate(listed):
            at = (section, place)
            try:
                description = contest_entries.read_entry(entry, contest.folder)
                if shared := contest_entries.image_name_conflict(entry, description, folders):
                    problems.append(contest.problem_at(at, *shared))
                    continue
                found = _admit_entry(contest, identify, entry, description, baseline=section == "baselines")
            except Rejected as error:
                problems += [contest.problem_at(at, str(each)) for each in error.problems]
                continue
            if found.submission.id in admitted:
                problems.append(contest.problem_at(at, f"a second {found.submission.id!r}", _RENAME))
                continue
            admitted[found.submission.id] = found
    submissions = [found.submission for found in admitted.values()]
    for attack in contest.format.organizer_attacks():
        if attack.name in admitted:
            problems.append(
                contest.problem_at(
                    ("format",), f"{attack.name!r} is an attack that the format brings", "give yours another `name:`"
                )
            )
        submissions.append(_organizer_submission(attack))
    roster = Roster(tuple(submissions))
    if not problems and complete:
        problems = _format_problems(contest, roster)
    if problems:
        raise contest.rejection(*problems)
    return AdmittedRoster(
        roster,
        {name: found.image for name, found in admitted.items() if found.image is not None},
        {name: found.pixels for name, found in admitted.items() if found.pixels is not None},
    )


def admit_alone(contest: Contest, identify: Callable[[ImageSource], Image], folder: Path) -> AdmittedRoster:
    """Returns the roster of one folder's submission and the format's own attacks, with the submission's image.

    `identify` is `Backend.admit` or like it. The contest file's entries are left out, so their files need not exist.

    Raises:
        Rejected: the submission cannot be read or started, or the format cannot be played with it.
    """
    entry = EntrySection(folder=str(folder.resolve()), team=PARTICIPANT)
    description = contest_entries.read_entry(entry, folder)
    attacks = contest.format.organizer_attacks()
    if description.name in {attack.name for attack in attacks}:
        problem = f"{description.name!r} is an attack that the format brings"
        raise Rejected(str(folder), [Problem("name", problem, "give the submission another `name:`")])
    submission, image = _admit_program(contest, identify, entry, description, baseline=False)
    roster = Roster((submission, *map(_organizer_submission, attacks)))
    if problems := contest.format.roster_problems(roster):
        raise Rejected(str(folder), problems)
    return AdmittedRoster(roster, {submission.id: image})


def _organizer_submission(attack: OrganizerAttack) -> Submission:
    """Returns an attack of the format as a submission without an image; its digest is of its code and settings."""
    return Submission(
        id=attack.name,
        name=attack.name,
        team=ORGANIZERS,
        side=Side.ATTACK,
        digest=attack.digest,
        image="",
        baseline=True,
    )


def require_playable(contest: Contest, roster: Roster, round_name: str) -> None:
    """Raises Rejected with the reasons if the format cannot play this round with this roster."""
    if problems := _format_problems(contest, roster, round_name):
        raise contest.rejection(*problems)


def describe_roster(contest: Contest) -> Roster:
    """Returns the roster as the files describe it, which may grow, without asking a backend; digests are empty.

    Raises:
        Rejected: with every entry that cannot be read.
    """
    return admit_entries(contest, lambda source: Image(digest="", name=source.image or ""), complete=False).roster


def check_contest(contest: Contest, rounds: Sequence[str] = ("",)) -> tuple[list[Task], Roster]:
    """Returns the contest's tasks and its roster as the files describe them, without asking a backend.

    `rounds` are the names of the rounds that the roster must be able to play, "" for a round outside a season.

    Raises:
        Rejected: with all problems of pictures, budgets and entries.
    """
    tasks: list[Task] = []
    roster = Roster(())
    problems: list[Problem] = []
    for name in (section.name for section in contest.file.all_tasks):
        try:
            tasks.append(contest.make_task(contest.load_samples(name), name))
        except Rejected as error:
            problems += error.problems
    try:
        roster = describe_roster(contest)
        against = (problem for name in rounds for problem in _format_problems(contest, roster, name))
        problems += dict.fromkeys(against)
    except Rejected as error:
        problems += error.problems
    if problems:
        raise contest.rejection(*problems)
    return tasks, roster


def admit_baseline(contest: Contest, identify: Callable[[ImageSource], Image], name: str) -> tuple[Submission, Image]:
    """Returns one baseline of the contest and its image.

    Raises:
        UsageError: the contest has no baseline of this name.
        Rejected: the baseline cannot be started.
    """
    read = [(entry, contest_entries.read_entry(entry, contest.folder)) for entry in contest.file.baselines]
    known = {found.name: (entry, found) for entry, found in read}
    if name not in known:
        raise UsageError(f"{contest.path} has no baseline {name!r}; it has {', '.join(known) or 'none'}")
    return _admit_program(contest, identify, *known[name], baseline=True)


def _admit_entry(
    contest: Contest,
    identify: Callable[[ImageSource], Image],
    entry: EntrySection,
    description: EntryDescription,
    *,
    baseline: bool,
) -> AdmittedEntry:
    if description.pictures is None:
        return AdmittedEntry(*_admit_program(contest, identify, entry, description, baseline=baseline))
    archive = picture_entries.read_entry_pictures(description.pictures, contest)
    submission = Submission(
        id=description.name,
        name=description.name,
        team=entry.team,
        side=description.side,
        digest=archive.digest,
        image="",
        baseline=baseline,
        submitted=_submitted(entry),
        pixels=array_digest(archive.pixels),
        decoder=archive.decoder,
    )
    return AdmittedEntry(submission, pixels=archive.pixels)


def _submitted(entry: EntrySection) -> str:
    return entry.submitted.astimezone(UTC).isoformat() if entry.submitted else ""


def _admit_program(
    contest: Contest,
    identify: Callable[[ImageSource], Image],
    entry: EntrySection,
    description: EntryDescription,
    *,
    baseline: bool,
) -> tuple[Submission, Image]:
    cuda = bool(contest.file.limits.gpus and description.manifest and description.manifest.gpu)
    image = identify(_image_source(entry, description, flavour="cuda" if cuda else "cpu", trusted=baseline))
    submission = Submission(
        id=description.name,
        name=description.name,
        team=entry.team,
        side=description.side,
        digest=image.digest,
        image=image.name,
        baseline=baseline,
        submitted=_submitted(entry),
    )
    return submission, image


def _image_source(entry: EntrySection, description: EntryDescription, *, flavour: str, trusted: bool) -> ImageSource:
    described = description.manifest
    tag = manifest.with_tag(entry.image or (described.image if described else ""), flavour)
    return ImageSource(
        folder=description.folder,
        image=tag,
        command=tuple(described.command) if described else (),
        trusted=trusted,
        flavour=flavour,
    )


def _format_problems(contest: Contest, roster: Roster, round_name: str = "") -> list[Problem]:
    found: list[Problem] = contest.format.roster_problems(roster, round_name)
    return [contest.problem_at(tuple(p.place.split(".")), p.what, p.remedy) for p in found]
