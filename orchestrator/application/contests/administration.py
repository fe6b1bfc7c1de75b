"""The organizers' desk: everything that is done to a contest, one act at a time, each on its ledger.

Several processes may be at the desk of one contest. Nothing holds it longer than a decision and its entry take.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.application.contests import teams
from orchestrator.application.submissions import image_ownership, trial_matches
from orchestrator.bundles.receipts import Receipt, encode_receipt
from orchestrator.domain import contest_events
from orchestrator.domain.entry_rules import entry_problems, release_problems
from orchestrator.domain.season import Entry, Season
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, StoreFault, UsageError
from orchestrator.files import write_whole
from orchestrator.intake import manifest
from orchestrator.intake.admission import describe_roster, with_tag
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.ledger.season_view import fold_season, is_osi_approved
from orchestrator.ledger.stores.base import Ledger
from orchestrator.sandboxes.base import Backend, Image, ImageSource
from orchestrator.signatures import SigningKey

S = TypeVar("S", bound=BaseModel)
Clock = Callable[[], datetime]
"""Returns the time of day, with its zone."""


def validated(kind: type[S], **words: object) -> S:
    """Returns an act, or a person, of what the operator said. Raises UsageError for what it cannot hold."""
    try:
        return kind.model_validate(words)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"{place}: {first['msg'].removeprefix('Value error, ').lower()}; say it in other words"
        ) from None


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """What somebody hands in: a folder with a manifest, or an image with its name and side; both come of a package."""

    team: str
    task: str
    folder: Path | None = None
    image: str | None = None
    name: str = ""
    side: Side | None = None
    package: str = ""
    """What the file is called that it came in, to name it before its manifest is read."""


_LEADERBOARD_EVENTS = (
    contest_events.TeamAdded,
    contest_events.SubmissionWithdrawn,
    contest_events.SubmissionDisqualified,
    contest_events.SubmissionCorrected,
    contest_events.FinalistsPromoted,
    contest_events.RulesChanged,
)
"""Acts that change what is said of rounds that were played."""


@dataclass(frozen=True, slots=True)
class ReceivedSubmission:
    """A submission as the contest's ledger has it: when, in which entry, and that entry's hash."""

    act: contest_events.SubmissionReceived
    time: str
    number: int
    hash: str


class ContestAdmin:
    """One contest, which other processes read and change at the same time.

    `season` is what this process knows of it. What is decided by the season is decided in `alone`, where nobody else
    can note anything between the decision and its entry.
    """

    def __init__(self, folder: ContestFolder, ledger: Ledger, contest: Contest, clock: Clock, by: str) -> None:
        self.folder, self.contest = folder, contest
        self._ledger, self._clock, self.by = ledger, clock, by
        past = list(ledger.read())
        self.season: Season = fold_season(past)
        self._count, self._latest = len(past), max((entry.time for entry in past), default="")
        self._holds = 0
        self.outdated: set[Path] = set()
        """Folders of rounds whose results were taken away because an act changes them."""

    @cached_property
    def baselines(self) -> frozenset[str]:
        """The ids of the organizers' own submissions."""
        return frozenset(
            submission.id for submission in describe_roster(self.contest, complete=False) if submission.baseline
        )

    @property
    def head(self) -> str:
        """The hash of the contest ledger's last entry."""
        return self._ledger.head

    @property
    def entries(self) -> int:
        """How many entries the contest's ledger has: the number of the last one."""
        return self._count

    def key(self) -> SigningKey:
        """Returns the contest's key. Raises StoreFault when it is lost, or the one that is here is another."""
        key, opened = self.folder.key(), self.season.opened
        if opened is not None and key.fingerprint != opened.key:
            path = self.folder.path / "key"
            raise StoreFault(f"{path} is {key.fingerprint}; the contest was opened with {opened.key}: put it back")
        return key

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps everybody else from noting anything, and brings the season up to date; may be nested.

        Raises:
            UsageError: another command has been writing for minutes.
        """
        if self._holds:
            yield
            return
        with self.folder.writing():
            self.refresh()
            self._holds += 1
            try:
                yield
            finally:
                self._holds -= 1

    def refresh(self) -> None:
        """Learns what others noted meanwhile. Raises StoreFault where the ledger is damaged."""
        for entry in self._ledger.read_new():
            self._learn(entry.event, entry.time)

    def act(self, act: contest_events.ContestEvent) -> str:
        """Notes an act; returns its time, which is the clock's: what came first says the ledger's order."""
        with self.alone():
            time = self._now().isoformat(timespec="milliseconds")
            if isinstance(act, _LEADERBOARD_EVENTS):
                self._outdate()
            self._ledger.append(act, time=time)
            self._learn(act, time)
        return time

    def _learn(self, event: object, time: str) -> None:
        if isinstance(event, contest_events.ContestEvent):
            self.season.apply(event, time)
        self._count, self._latest = self._count + 1, max(self._latest, time)

    def played(self) -> list[RoundFolder]:
        """Returns the folders of all rounds that were begun, in the order of tasks and rounds of the contest file."""
        phases, tasks = self.contest.format.phases, self.contest.file.every_task
        every = [self.folder.round(phase, task.name) for task in tasks for phase in phases]
        return [folder for folder in every if folder.exists]

    def without_results(self) -> list[RoundFolder]:
        """Returns the folders of rounds whose results are not there: never written, or taken away by an act."""
        ended = {self.folder.round(phase, task).path for phase, task in self.season.rounds}
        return [each for each in self.played() if each.path in ended | self.outdated and not each.results.exists()]

    def _outdate(self) -> None:
        """Takes away results that an act is about to change, so that a killed command leaves none that are wrong."""
        for folder in self.played():
            if folder.results.exists():
                self.outdated.add(folder.path)
                folder.discard_results()

    def _now(self) -> datetime:
        return self._clock().astimezone(UTC)

    def _behind(self) -> list[str]:
        """Returns what a team is told where the clock is behind an entry that is on the ledger already."""
        now = self._now().isoformat(timespec="milliseconds")
        if now >= self._latest:
            return []
        words = (
            f"time: the organizers' clock says {now}, and an entry before is of {self._latest}; "
            "what is earlier is told by the number of the entry, not by the time (A16)"
        )
        return [words]

    def add_team(self, team: str, people: list[contest_events.PersonRecord]) -> None:
        """Adds a team, or replaces its people. Raises UsageError and Rejected like `teams.added`."""
        with self.alone():
            for name, members in teams.team_changes(self.season, self.contest.format.allowance(), team, people):
                records = [
                    validated(contest_events.PersonRecord, id=p.id, name=p.name, organizer=p.organizer) for p in members
                ]
                self.act(validated(contest_events.TeamAdded, by=self.by, team=name, people=records))

    def submit(self, submitted: SubmissionRequest, backend: Backend) -> Receipt:
        """Admits a submission and returns its signed receipt.

        The same again from the same team is no second try: the receipt of the first is returned, while that one plays.

        Raises:
            Rejected: with every reason at once; the refusal is on record, used up nothing, and left nothing here.
        """
        with ExitStack() as undo:
            return self._submit(submitted, backend, undo)

    def _submit(self, submitted: SubmissionRequest, backend: Backend, undo: ExitStack) -> Receipt:
        found, problems = self._manifest(submitted)
        self.key()  # before anything is noted: what cannot be receipted is not received
        side = submitted.side or (found.side if found else None)
        name = submitted.name or (found.name if found else "")
        dubious = self._dubious(submitted, found)
        problems += dubious + self._rules_against(submitted, found)
        image = None
        try:
            if found is not None or submitted.folder is None:  # else nobody knows what is started
                image = backend.admit(self._source(submitted, found))
        except Rejected as error:
            problems += error.problems
        if image is not None:
            undo.callback(self._take_back, image)
            foreign = self._foreign(submitted, image)
            dubious, problems = dubious + foreign, problems + foreign
        warnings: list[str] = []
        if image is not None and side is not None:
            act = self._act(submitted, found, name, side, image)
            if (before := self._before(act)) is not None:
                undo.pop_all()
                return before
            if not dubious:  # else nobody's code is started for nothing
                candidate = trial_matches.Applicant(submitted.task, side, image)
                unfit, warnings = trial_matches.play_trial_match(self.contest, candidate, backend)
                problems += unfit
        if problems or image is None or side is None:
            self._refuse(submitted, name, side, problems)
        told = [f"{p.place} {p.what}; {p.remedy}" for p in release_problems(act.licence, act.source, is_osi_approved)]
        with self.alone():  # while it was tried, its team or another may have handed something in
            if (before := self._before(act)) is None:
                if problems := self.against(submitted, found) + _taken_away(image):
                    self._refuse(submitted, name, side, problems)
                act = self._act(submitted, found, name, side, image)
                act = act.model_copy(update={"warnings": [*told, *self._behind(), *warnings]})
            undo.pop_all()  # from here on it is on record
            return before or self._receive(act)

    def _receive(self, act: contest_events.SubmissionReceived) -> Receipt:
        """Notes that a submission was received, and returns its receipt."""
        time = self.act(act)
        return self._receipt(ReceivedSubmission(act, time, self._count, self._ledger.head))

    def _take_back(self, image: Image) -> None:
        """Removes what a refused submission left, unless another that was received is the same."""
        if image.undo is None:
            return
        with self.alone():
            if all(entry.digest != image.digest for entry in self.season.entries.values()):
                image.undo()

    def against(self, submitted: SubmissionRequest, found: manifest.Manifest | None) -> list[Problem]:
        """Returns what is against a submission before it is looked into: the time, its words, and its team's rules."""
        return self._dubious(submitted, found) + self._rules_against(submitted, found)

    def _dubious(self, submitted: SubmissionRequest, found: manifest.Manifest | None) -> list[Problem]:
        """Returns why nothing can be received now, and what is missing or contradicts itself."""
        return self._untimely() + self._unclear(submitted, found, submitted.name or (found.name if found else ""))

    def _foreign(self, submitted: SubmissionRequest, image: Image) -> list[Problem]:
        """Returns why an image that is only named is not this team's."""
        if image.folder is not None or (submitted.folder is not None and submitted.image is not None):
            return []
        return list(image_ownership.ownership_problems(self.season, submitted.team, submitted.folder, image))

    def _rules_against(self, submitted: SubmissionRequest, found: manifest.Manifest | None) -> list[Problem]:
        """Returns what the rules for teams have against a submission (A1, A4)."""
        side, allowance = submitted.side or (found.side if found else None), self.contest.format.allowance()
        if side is None or allowance is None:
            return []
        return entry_problems(self.season, allowance, submitted.team, submitted.task, side)

    def refuse(self, submitted: SubmissionRequest, problems: list[Problem]) -> NoReturn:
        """Notes that a submission was not admitted, and raises Rejected; it used up nothing."""
        self._refuse(submitted, submitted.name, submitted.side, problems)

    def withdraw(self, submission: str, reason: str) -> None:
        """Takes a submission back in its team's name. Raises UsageError for an unknown one, or the second time."""
        with self.alone():
            _check_once("withdrawn", submission, self._known(submission).withdrawn)
            self.act(validated(contest_events.SubmissionWithdrawn, by=self.by, id=submission, reason=reason))

    def disqualify(self, submission: str, reason: str) -> None:
        """Takes a submission out of the ranking. Raises UsageError for an unknown one, or the second time."""
        with self.alone():
            _check_once("disqualified", submission, self._known(submission).disqualified)
            self.act(validated(contest_events.SubmissionDisqualified, by=self.by, id=submission, reason=reason))

    def correct(self, submission: str, reason: str, *, licence: str | None, source: str | None) -> None:
        """Corrects what a submission says of its licence or source (rule A6)."""
        if licence is None and source is None:
            raise UsageError("nothing to correct: give --licence or --source")
        corrected = validated(
            contest_events.SubmissionCorrected, by=self.by, id=submission, licence=licence, source=source, reason=reason
        )
        with self.alone():
            self._known(submission)
            self.act(corrected)

    def mend_receipts(self) -> None:
        """Writes the receipts that are missing, as they were: a command was killed, or they were lost.

        Raises:
            StoreFault: the key is not the contest's, or they cannot be written.
        """
        missing = {submission for submission in self.season.entries if not self._file(submission).exists()}
        for received in self._received() if missing else ():
            if received.act.id in missing:
                self._receipt(received)

    def _manifest(self, submitted: SubmissionRequest) -> tuple[manifest.Manifest | None, list[Problem]]:
        if submitted.folder is None:
            if submitted.image is None or not submitted.name:
                return None, [Problem("submission", "neither a folder nor a named image", "give a folder, or --name")]
            return None, []
        try:
            return manifest.read_manifest(submitted.folder), []
        except Rejected as error:
            return None, list(error.problems)

    def _unclear(self, submitted: SubmissionRequest, found: manifest.Manifest | None, name: str) -> list[Problem]:
        """Returns what is missing or contradicts itself in what somebody hands in."""
        problems = []
        if submitted.task not in (tasks := [task.name for task in self.contest.file.every_task]):
            problems.append(Problem("task", f"there is no {submitted.task!r}", f"one of {', '.join(tasks)}"))
        if submitted.side is None and submitted.folder is None:
            problems.append(Problem("side", "is missing", "give --side attack or --side defence"))
        if found and submitted.side not in (None, found.side):
            what = f"{submitted.side} was asked for, its submission.yaml says {found.side}"
            problems.append(Problem("side", what, "make them agree"))
        if name and not manifest.is_slug(name):
            problems.append(Problem("name", f"{name!r} is no name", "1 to 64 of a-z, 0-9, _ and -, no _ or - first"))
        return problems

    def _source(self, submitted: SubmissionRequest, found: manifest.Manifest | None) -> ImageSource:
        command = tuple(found.command) if found else ()
        flavour = "cuda" if self.contest.file.limits.gpus and found and found.gpu else "cpu"
        tag = with_tag(submitted.image or (found.image if found else ""), flavour)
        return ImageSource(folder=submitted.folder, image=tag, command=command)

    def _untimely(self) -> list[Problem]:
        """Returns why nothing is received now: before the opening, or after the close.

        A clock that is set back opens nothing again: it is no earlier than the latest entry of the ledger.
        """
        clock, file = self._clock(), self.contest.file
        latest = datetime.fromisoformat(self._latest) if self._latest else clock
        if file.opens and clock < file.opens:
            return [Problem("time", f"submissions open at {file.opens.isoformat()}", "come back then")]
        if file.closes and max(clock, latest) >= file.closes:
            remedy = "nothing can be added"
            if clock < file.closes:
                remedy = f"the ledger has an entry of {self._latest}: the clock was set back; set it, or move `closes`"
            return [Problem("time", f"submissions closed at {file.closes.isoformat()}", remedy)]
        return []

    def _refuse(self, submitted: SubmissionRequest, name: str, side: Side | None, problems: list[Problem]) -> NoReturn:
        texts = [str(problem) for problem in problems]
        self.act(
            contest_events.SubmissionRefused(
                by=self.by, name=name, team=submitted.team, task=submitted.task, side=side, problems=texts
            )
        )
        called = name or submitted.package or submitted.folder or submitted.image
        raise Rejected(f"submission {called}", problems)

    def _free(self, name: str) -> str:
        """Returns an id that no submission and no baseline has yet: the name, or the name with a number."""
        taken = self.baselines | self.season.entries.keys()
        numbers = (f"{name}-{number}" for number in range(2, len(taken) + 3))
        return next(candidate for candidate in (name, *numbers) if candidate not in taken)

    def _act(
        self, submitted: SubmissionRequest, found: manifest.Manifest | None, name: str, side: Side, image: Image
    ) -> contest_events.SubmissionReceived:
        """Returns the act of receiving a submission now, without warnings."""
        allowance = self.contest.format.allowance()
        attempt = self.season.attempts(submitted.team, submitted.task, side) + 1
        return contest_events.SubmissionReceived(
            by=self.by,
            id=self._free(name),
            name=name,
            team=submitted.team,
            task=submitted.task,
            side=side,
            digest=image.digest,
            image=image.name,
            folder="" if image.folder is None else str(image.folder.relative_to(self.folder.path.resolve())),
            licence=found.licence if found else "",
            source=found.source if found else "",
            attempt=attempt,
            left=max(0, allowance.submissions - attempt) if allowance else 0,
        )

    def _before(self, act: contest_events.SubmissionReceived) -> Receipt | None:
        """Returns the receipt of the same submission of the same team, None where none was received that plays."""
        for known in self._received():
            entry = self.season.entries.get(known.act.id)  # none where another command received it just now
            if entry is not None and entry.plays and _identity(known.act) == _identity(act):
                return self._receipt(known)
        return None

    def _received(self) -> Iterator[ReceivedSubmission]:
        """Yields everything that was received."""
        for entry in self._ledger.read():
            if isinstance(entry.event, contest_events.SubmissionReceived):
                yield ReceivedSubmission(entry.event, entry.time, entry.seq, entry.hash)

    def _receipt(self, received: ReceivedSubmission) -> Receipt:
        key, act = self.key(), received.act
        receipt = Receipt.signed(
            key,
            contest=self.contest.file.contest,
            submission=act.id,
            team=act.team,
            task=act.task,
            side=act.side.value,
            digest=act.digest,
            received=received.time,
            entry=received.number,
            head=received.hash,
            attempt=act.attempt,
            left=act.left,
            warnings=act.warnings,
        )
        write_whole(self._file(act.id), encode_receipt(receipt.document()))
        return receipt

    def _file(self, submission: str) -> Path:
        return self.folder.path / "receipts" / f"{submission}.json"

    def _known(self, submission: str) -> Entry:
        entry = self.season.entries.get(submission)
        if entry is None:
            known = ", ".join(self.season.entries) or "none yet"
            raise UsageError(f"no submission {submission!r} in this contest (known: {known})")
        return entry


def _check_once(what: str, submission: str, reason: str) -> None:
    """Raises UsageError where it was done already: another reason would stand in place of the first."""
    if reason:
        raise UsageError(f"{submission} was {what} already: {printable(reason)}; nothing is left to do")


def _taken_away(image: Image) -> list[Problem]:
    """Returns what is wrong where the refusal of a submission with the same files took them away."""
    if image.folder is None or image.folder.is_dir():
        return []
    what = "the same files were refused for another submission at this moment, and taken away"
    return [Problem("submission", what, "submit it again")]


def _identity(act: contest_events.SubmissionReceived) -> object:
    """Returns what two submissions share that are one and the same, handed in twice."""
    return act.model_dump(include={"name", "team", "task", "side", "digest", "licence", "source"})
