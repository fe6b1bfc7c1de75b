"""What organizers do to a contest: one event at a time, each in its ledger.

Several processes may work on one contest. None holds it longer than a decision and its entry take.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.application.contests import teams
from orchestrator.application.contests.admission_steps import UNWATCHED, StepLog
from orchestrator.application.contests.submission_window import submission_window
from orchestrator.application.submissions import image_ownership, trial_match_setup
from orchestrator.bundles.receipts import Receipt, encode_receipt
from orchestrator.domain import contest_events
from orchestrator.domain.contest_format import LedgerFold
from orchestrator.domain.field_errors import first_field_error
from orchestrator.domain.season import Entry, Season
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import iso_time, printable
from orchestrator.errors import Problem, Rejected, StoreFault, UsageError
from orchestrator.files import write_whole
from orchestrator.intake import manifest
from orchestrator.intake.admission import describe_roster, with_tag
from orchestrator.intake.contest_file import Contest
from orchestrator.intake.picture_entries import EntryPictures
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.ledger.season_fold import fold_season
from orchestrator.ledger.stores.base import Ledger, format_time, put_array
from orchestrator.sandboxes.base import Backend, Image, ImageSource
from orchestrator.signatures import SigningKey

S = TypeVar("S", bound=BaseModel)
_DAY_DIGITS = len("2026-11-23")
_PROBLEM_LIMIT = 4000
"""Characters of one problem of a refusal that are recorded."""
Clock = Callable[[], datetime]
"""Returns the time of day, with its zone."""


def validated(kind: type[S], **words: object) -> S:
    """Returns an act, or a person, of what the operator said. Raises UsageError for what it cannot hold."""
    try:
        return kind.model_validate(words)
    except ValidationError as error:
        raise UsageError(first_field_error(error, kind)) from None


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """What somebody hands in: a folder with a manifest, or an image with its name and side; both come of a package."""

    team: str
    task: str
    folder: Path | None = None
    image: str | None = None
    name: str = ""
    side: Side | None = None
    package_name: str = ""
    """What the file is called that it came in, to name it before its manifest is read."""
    is_pictures: bool = False
    """Whether it is an archive of pictures, of which nothing is started."""
    arrival: str = ""
    """The arrival that it is, whose time, day and actor are its own; empty for what organizers hand in by command."""
    arrived_at: datetime | None = None
    """For what is not noted as an arrival yet: the time by which it is judged."""


_LEADERBOARD_EVENTS = (
    contest_events.TeamAdded,
    contest_events.SubmissionWithdrawn,
    contest_events.SubmissionDisqualified,
    contest_events.SubmissionCorrected,
    contest_events.RulesChanged,
    contest_events.FormatEvent,
)
"""Acts that change what is said of rounds that were played."""


@dataclass(frozen=True, slots=True)
class ReceivedSubmission:
    """A submission as the contest's ledger has it: when, in which entry, and that entry's hash."""

    event: contest_events.SubmissionReceived
    time: str
    seq: int
    hash: str


class ContestAdmin:
    """One contest, which other processes read and change at the same time.

    `season` is what this process knows of it. What is decided by the season is decided in `alone`, where nobody else
    can note anything between the decision and its entry.
    """

    def __init__(self, folder: ContestFolder, ledger: Ledger, contest: Contest, clock: Clock, by: str) -> None:
        self.folder, self.contest = folder, contest
        self._ledger, self._clock, self.actor = ledger, clock, by
        past = list(ledger.read())
        self.season: Season = fold_season(past)
        self._entry_count, self._latest_time = len(past), past[-1].time if past else ""
        self._holds = 0
        self.outdated_rounds: set[Path] = set()
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
    def entry_count(self) -> int:
        """How many entries the contest's ledger has: the number of the last one."""
        return self._entry_count

    def signing_key(self) -> SigningKey:
        """Returns the contest's key. Raises StoreFault when it is lost, or the one that is here is another."""
        key, opening = self.folder.key(), self.season.opening
        if opening is not None and key.fingerprint != opening.key_fingerprint:
            path = self.folder.path / "key"
            raise StoreFault(
                f"{path} is {key.fingerprint}; the contest was opened with {opening.key_fingerprint}: put it back"
            )
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

    def resume(self, contest: Contest, by: str) -> None:
        """Begins another act: of this person, by the contest file as it is now, after what others noted meanwhile."""
        self.contest, self.actor = contest, by
        self.__dict__.pop("baselines", None)  # read again: their manifests may be others now
        self.refresh()

    def refresh(self) -> None:
        """Learns what others noted meanwhile. Raises StoreFault where the ledger is damaged."""
        for entry in self._ledger.read_new():
            self._learn(entry.event, entry.time)

    def ledger_fold(self) -> LedgerFold | None:
        """Returns what the format makes of the whole ledger, None where it makes nothing. Raises Rejected."""
        found: LedgerFold | None = self.contest.format.ledger_fold()
        if found is not None:
            for entry in self._ledger.read():
                if isinstance(entry.event, contest_events.ContestEvent):
                    found.learn(entry.event, datetime.fromisoformat(entry.time))
        return found

    def now(self) -> datetime:
        """Returns the time of day, as the contest's clock has it."""
        return self._clock()

    def counted_time(self, time: datetime) -> datetime:
        """Returns as what a time counts that the clock told a while ago: as itself, if the clock goes on.

        A clock that is set back opens nothing again: then it is no earlier than the latest entry of the ledger.
        """
        latest = datetime.fromisoformat(self._latest_time) if self._latest_time else time
        return time if self._clock() >= latest else max(time, latest)

    def append_event(self, act: contest_events.ContestEvent, at: datetime | None = None) -> str:
        """Notes an act; returns its time: the clock's, or that of the entry before where the clock is behind it.

        `at` is what the clock said, where the act was decided by it.
        """
        with self.alone():
            if _changes_boards(act):
                self.discard_results()
            time = self._ledger.append(act, time=format_time(at or self._clock()))
            self._learn(act, time)
        return time

    def _learn(self, event: object, time: str) -> None:
        if isinstance(event, contest_events.ContestEvent):
            self.season.apply(event, time)
        self._entry_count, self._latest_time = self._entry_count + 1, time

    def played_rounds(self) -> list[RoundFolder]:
        """Returns the folders of all rounds that were begun, in the order of tasks and rounds of the contest file."""
        every = [
            self.folder.round(each.name, task.name)
            for task in self.contest.file.all_tasks
            for each in self.contest.format.rounds(self.season, task.name)
        ]
        return [folder for folder in every if folder.exists]

    def rounds_without_results(self) -> list[RoundFolder]:
        """Returns the folders of rounds whose results are not there: never written, or taken away by an act."""
        played_paths = {self.folder.round(phase, task).path for phase, task in self.season.played_rounds}
        return [
            folder
            for folder in self.played_rounds()
            if folder.path in played_paths | self.outdated_rounds and not folder.results_path.exists()
        ]

    def discard_results(self) -> None:
        """Takes away results that an act changes, so that a killed command leaves none that are wrong."""
        for folder in self.played_rounds():
            if folder.results_path.exists():
                self.outdated_rounds.add(folder.path)
                folder.discard_results()

    def _clock_warnings(self) -> list[str]:
        """Returns what a team is told where the clock is behind an entry that is on the ledger already."""
        now = format_time(self._clock())
        if now >= self._latest_time:
            return []
        warning = (
            f"time: the organizers' clock says {now}, and the entry before is of {self._latest_time}, which is recorded"
            " for this one too; what is earlier is told by the number of the entry, not by the time (A16)"
        )
        return [warning]

    def add_team(self, team: str, people: list[contest_events.PersonRecord]) -> None:
        """Adds a team, or replaces its people. Raises UsageError and Rejected like `team_changes`."""
        with self.alone():
            self.note_members(teams.team_changes(self.season, self.contest.format, team, people))

    def note_members(self, changes: Iterable[teams.TeamMembers]) -> None:
        """Notes who is in these teams from now on. To be called while nobody else writes, see `alone`."""
        for name, members in changes:
            records = [
                validated(contest_events.PersonRecord, id=p.id, name=p.name, organizer=p.organizer) for p in members
            ]
            self.append_event(validated(contest_events.TeamAdded, actor=self.actor, team=name, people=records))

    def submit(self, submitted: SubmissionRequest, backend: Backend, steps: StepLog = UNWATCHED) -> Receipt:
        """Admits a submission and returns its signed receipt.

        The same again from the same team is no second try: the receipt of the first is returned, while that one plays.

        Raises:
            Rejected: with every reason at once; the refusal is on record, used up nothing, and left nothing here.
        """
        with ExitStack() as undo:
            return self._admit(submitted, backend, undo, steps)

    def _admit(self, submitted: SubmissionRequest, backend: Backend, undo: ExitStack, steps: StepLog) -> Receipt:
        submission_manifest, problems = self._read_manifest(submitted)
        self.signing_key()  # before anything is noted: what cannot be receipted is not received
        side = submitted.side or (submission_manifest.side if submission_manifest else None)
        name = submitted.name or (submission_manifest.name if submission_manifest else "")
        dubious = self._validate_time_and_fields(submitted, submission_manifest)
        problems += dubious + self._validate_team_rules(submitted, submission_manifest)
        image = None
        try:
            if submission_manifest is not None or submitted.folder is None:  # else nobody knows what is started
                image = backend.admit(self._image_source(submitted, submission_manifest))
                steps.add("image policy", True)
        except Rejected as error:
            steps.result("image policy", error.problems)
            problems += error.problems
        if image is not None:
            undo.callback(self._take_back, image)
            foreign = self._validate_ownership(submitted, image)
            steps.result("ownership", foreign)
            dubious, problems = dubious + foreign, problems + foreign
        warnings: list[str] = []
        if image is not None and side is not None:
            act = self._received_event(submitted, submission_manifest, name, side, image)
            if (before := self._earlier_receipt(act)) is not None:
                undo.pop_all()
                return before
            if not dubious:  # else nobody's code is started for nothing
                candidate = trial_match_setup.Applicant(submitted.task, side, image)
                unfit, warnings = trial_match_setup.play_trial_match(self.contest, candidate, backend, steps.match_step)
                problems += unfit
        if problems or image is None or side is None:
            self._record_refusal(submitted, name, side, problems)
        format_warnings = self.contest.format.submission_warnings(self.season, act)
        with self.alone():  # while it was tried, its team or another may have handed something in
            if (before := self._earlier_receipt(act)) is None:
                if problems := self.validate_request(submitted, submission_manifest) + _missing_files_problem(image):
                    self._record_refusal(submitted, name, side, problems)
                act = self._received_event(submitted, submission_manifest, name, side, image)
                act = act.model_copy(update={"warnings": [*format_warnings, *self._clock_warnings(), *warnings]})
            undo.pop_all()  # from here on it is on record
            return before or self._receive(act)

    def submit_pictures(
        self, submitted: SubmissionRequest, read: Callable[[], EntryPictures], steps: StepLog = UNWATCHED
    ) -> Receipt:
        """Admits pictures that were handed in in an archive, and returns the signed receipt; see `submit`.

        `read` reads the archive. It is called only where the time and what is said of it are right.
        """
        self.signing_key()
        problems = self._validate_time_and_fields(submitted, None)
        archive = None
        try:
            archive = None if problems else read()
        except Rejected as error:
            problems = list(error.problems)
        steps.result("archive", problems)
        if archive is None:
            self._record_refusal(submitted, submitted.name, submitted.side, problems)
        pixels = put_array(self.folder.blobs(), archive.pixels)
        with self.alone():
            image = Image(archive.digest, "")
            act = self._received_event(submitted, None, submitted.name, Side.ATTACK, image)
            act = act.model_copy(update={"pixels": pixels, "decoder": archive.decoder})
            if (before := self._earlier_receipt(act)) is not None:
                return before
            if problems := self.validate_request(submitted, None):
                self._record_refusal(submitted, submitted.name, submitted.side, problems)
            warnings = [*self.contest.format.submission_warnings(self.season, act), *self._clock_warnings()]
            return self._receive(act.model_copy(update={"warnings": warnings}))

    def _receive(self, act: contest_events.SubmissionReceived) -> Receipt:
        """Notes that a submission was received, and returns its receipt."""
        time = self.append_event(act)
        return self._write_receipt(ReceivedSubmission(act, time, self._entry_count, self._ledger.head))

    def _take_back(self, image: Image) -> None:
        """Removes what a refused submission left, unless another that was received is the same."""
        if image.rollback is None:
            return
        with self.alone():
            if all(entry.digest != image.digest for entry in self.season.entries.values()):
                image.rollback()

    def validate_request(self, submitted: SubmissionRequest, found: manifest.Manifest | None) -> list[Problem]:
        """Returns what is against a submission before it is looked into: the time, its words, and its team's rules."""
        return self._validate_time_and_fields(submitted, found) + self._validate_team_rules(submitted, found)

    def _validate_time_and_fields(self, submitted: SubmissionRequest, found: manifest.Manifest | None) -> list[Problem]:
        """Returns why nothing can be received now, and what is missing or contradicts itself."""
        return self._validate_time(submitted) + self._validate_fields(
            submitted, found, submitted.name or (found.name if found else "")
        )

    def _validate_ownership(self, submitted: SubmissionRequest, image: Image) -> list[Problem]:
        """Returns why an image that is only named is not this team's."""
        if image.folder is not None or (submitted.folder is not None and submitted.image is not None):
            return []
        return list(image_ownership.ownership_problems(self.season, submitted.team, submitted.folder, image))

    def _validate_team_rules(
        self, submitted: SubmissionRequest, submission_manifest: manifest.Manifest | None
    ) -> list[Problem]:
        """Returns what the rules for teams have against a submission (A1, A4)."""
        side, rules = submitted.side or (submission_manifest.side if submission_manifest else None), self.contest.format
        if side is None:
            return []
        if side not in rules.programs and not submitted.is_pictures:
            mismatch, kinds = f"{rules.name} has no {side} programs", [str(kind) for kind in rules.programs]
            kinds += ["pictures, in an archive"] if rules.picture_formats() else []
            return [Problem("side", mismatch, f"hand in one of the kind {' or '.join(kinds)}")]
        problems: list[Problem] = rules.entry_problems(self.season, submitted.team, submitted.task, side)
        return problems + self._validate_day(submitted)

    def _validate_day(self, submitted: SubmissionRequest) -> list[Problem]:
        """Returns that a team has handed in as often as it may on this day (C9)."""
        allowed = self.contest.format.submissions_per_day()
        day = self._day_of(submitted)
        if allowed is None or self.season.count_on_day(submitted.team, submitted.task, day) < allowed:
            return []
        what = f"{submitted.team} has handed in {allowed} of {allowed} on {day} (C9)"
        return [Problem("submission", what, "come back after midnight UTC")]

    def record_refusal(self, submitted: SubmissionRequest, problems: list[Problem]) -> NoReturn:
        """Notes that a submission was not admitted, and raises Rejected; it used up nothing."""
        self._record_refusal(submitted, submitted.name, submitted.side, problems)

    def withdraw(self, submission: str, reason: str) -> None:
        """Takes a submission back in its team's name. Raises UsageError for an unknown one, or the second time."""
        with self.alone():
            _check_once("withdrawn", submission, self._require_entry(submission).withdrawn)
            self.append_event(
                validated(contest_events.SubmissionWithdrawn, actor=self.actor, id=submission, reason=reason)
            )

    def disqualify(self, submission: str, reason: str) -> None:
        """Takes a submission out of the ranking. Raises UsageError for an unknown one, or the second time."""
        with self.alone():
            _check_once("disqualified", submission, self._require_entry(submission).disqualified)
            self.append_event(
                validated(contest_events.SubmissionDisqualified, actor=self.actor, id=submission, reason=reason)
            )

    def correct_release(self, submission: str, reason: str, *, licence: str | None, source: str | None) -> list[str]:
        """Corrects what a submission says of its licence or source (rule A6); returns what they lack all the same."""
        if licence is None and source is None:
            raise UsageError("nothing to correct: give --licence or --source")
        corrected = validated(
            contest_events.SubmissionCorrected,
            actor=self.actor,
            id=submission,
            licence=licence,
            source=source,
            reason=reason,
        )
        with self.alone():
            self._require_entry(submission)
            self.append_event(corrected)
            warnings: list[str] = self.contest.format.release_warnings(self.season.entries[submission])
        return warnings

    def record_format_event(self, kind: str, fields: Mapping[str, str]) -> contest_events.FormatEvent:
        """Notes an event of the contest's format that organizers decide freely.

        Raises:
            UsageError: the format has no such event, or it cannot hold these words.
            Rejected: the format objects to it now.
        """
        rules = self.contest.format
        known: dict[str, type[contest_events.FormatEvent]] = {
            event_type.model_fields["kind"].default: event_type for event_type in rules.organizer_events
        }
        if kind not in known:
            known_kinds = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"the format {rules.name} has no event {kind!r} that organizers note; {known_kinds}")
        event = validated(known[kind], **{**fields, "actor": self.actor})
        with self.alone():
            if problems := rules.event_problems(self.season, event):
                raise Rejected(f"event {kind}", problems)
            self.append_event(event)
        return event

    def restore_receipts(self) -> None:
        """Writes the receipts that are missing, as they were: a command was killed, or they were lost.

        Raises:
            StoreFault: the key is not the contest's, or they cannot be written.
        """
        missing = {submission for submission in self.season.entries if not self._receipt_path(submission).exists()}
        for received in self._received_submissions() if missing else ():
            if received.event.id in missing:
                self._write_receipt(received)

    def _read_manifest(self, submitted: SubmissionRequest) -> tuple[manifest.Manifest | None, list[Problem]]:
        if submitted.folder is None:
            if submitted.image is None or not submitted.name:
                return None, [Problem("submission", "neither a folder nor a named image", "give a folder, or --name")]
            return None, []
        try:
            return manifest.read_manifest(submitted.folder), []
        except Rejected as error:
            return None, list(error.problems)

    def _validate_fields(
        self, submitted: SubmissionRequest, submission_manifest: manifest.Manifest | None, name: str
    ) -> list[Problem]:
        """Returns what is missing or contradicts itself in what somebody hands in."""
        problems = []
        if submitted.task not in (tasks := [task.name for task in self.contest.file.all_tasks]):
            problems.append(Problem("task", f"there is no {submitted.task!r}", f"one of {', '.join(tasks)}"))
        if submitted.side is None and submitted.folder is None:
            problems.append(Problem("side", "is missing", "give --side attack or --side defence"))
        if submission_manifest and submitted.side not in (None, submission_manifest.side):
            contradiction = f"{submitted.side} was asked for, its submission.yaml says {submission_manifest.side}"
            problems.append(Problem("side", contradiction, "make them agree"))
        if name and not manifest.is_slug(name):
            problems.append(Problem("name", f"{name!r} is no name", "1 to 64 of a-z, 0-9, _ and -, no _ or - first"))
        return problems

    def _image_source(self, submitted: SubmissionRequest, found: manifest.Manifest | None) -> ImageSource:
        command = tuple(found.command) if found else ()
        flavour = "cuda" if self.contest.file.limits.gpus and found and found.gpu else "cpu"
        tag = with_tag(submitted.image or (found.image if found else ""), flavour)
        return ImageSource(folder=submitted.folder, image=tag, command=command)

    def _arrival_time(self, submitted: SubmissionRequest) -> datetime | None:
        """Returns when the ledger says that a submission arrived, None for one that organizers hand in by command."""
        return datetime.fromisoformat(self.season.arrivals[submitted.arrival].time) if submitted.arrival else None

    def _judged_time(self, submitted: SubmissionRequest) -> datetime:
        """Returns the time by which a submission is judged: of its arrival where there is one, else now."""
        return self._arrival_time(submitted) or self.counted_time(submitted.arrived_at or self._clock())

    def _actor_of(self, submitted: SubmissionRequest) -> str:
        return self.season.arrivals[submitted.arrival].actor if submitted.arrival else self.actor

    def _validate_time(self, submitted: SubmissionRequest) -> list[Problem]:
        """Returns why nothing is received now: before the opening, or after the close.

        What arrived is judged by the time of its arrival, however long its admission takes. It came before the
        organizers closed submissions if it is on the ledger, or if its last byte was here before that.
        """
        file, arrived = self.contest.file, self._arrival_time(submitted)
        clock = arrived or submitted.arrived_at or self._clock()
        if file.opens and clock < file.opens:
            return [Problem("time", f"submissions open at {iso_time(file.opens)}", "come back then")]
        judged, closing = self._judged_time(submitted), self.season.closing
        came_before = arrived or (closing is not None and judged < datetime.fromisoformat(closing.time))
        window = submission_window(file, None if came_before else closing, judged)
        if window.state != "closed" or window.closes is None:
            return []
        if window.closing is not None:
            why = f" ({window.reason})" if window.reason else ""
            what = f"the organizers closed submissions at {window.closing.time}{why}, and this was not here by then"
            return [Problem("time", what, "nothing can be added unless they open them again")]
        came = f"this came at {clock.isoformat(timespec='milliseconds')}"
        remedy = "nothing can be added"
        if clock < window.closes:
            remedy = f"the ledger has an entry of {self._latest_time}: the clock was set back; set it, or move `closes`"
        return [Problem("time", f"submissions closed at {iso_time(window.closes)}, and {came}", remedy)]

    def _record_refusal(
        self, submitted: SubmissionRequest, name: str, side: Side | None, problems: list[Problem]
    ) -> NoReturn:
        # What was refused may be no text, which no record can keep: the record has it as it is shown.
        self.append_event(
            contest_events.SubmissionRefused(
                actor=self._actor_of(submitted),
                name=printable(name),
                team=printable(submitted.team),
                task=printable(submitted.task),
                side=side,
                problems=[printable(str(problem), _PROBLEM_LIMIT) for problem in problems],
                arrival=submitted.arrival,
            )
        )
        called = name or submitted.package_name or submitted.folder or submitted.image
        raise Rejected(f"submission {called}", problems)

    def _free_id(self, name: str) -> str:
        """Returns an id that no submission and no baseline has yet: the name, or the name with a number."""
        used_ids = self.baselines | self.season.entries.keys()
        numbers = (f"{name}-{number}" for number in range(2, len(used_ids) + 3))
        return next(candidate for candidate in (name, *numbers) if candidate not in used_ids)

    def _received_event(
        self,
        submitted: SubmissionRequest,
        submission_manifest: manifest.Manifest | None,
        name: str,
        side: Side,
        image: Image,
    ) -> contest_events.SubmissionReceived:
        """Returns the act of receiving a submission now, without warnings."""
        attempt = self.season.count_attempts(submitted.team, submitted.task, side) + 1
        return contest_events.SubmissionReceived(
            actor=self._actor_of(submitted),
            arrival=submitted.arrival,
            id=self._free_id(name),
            name=name,
            team=submitted.team,
            task=submitted.task,
            side=side,
            digest=image.digest,
            image=image.name,
            folder="" if image.folder is None else str(image.folder.relative_to(self.folder.path.resolve())),
            licence=submission_manifest.licence if submission_manifest else "",
            source=submission_manifest.source if submission_manifest else "",
            attempt=attempt,
            attempts_left=self._attempts_left(submitted, attempt),
        )

    def _attempts_left(self, submitted: SubmissionRequest, attempt: int) -> int:
        """Returns how often a team may hand in after this attempt: in all (A4), on this day (C9); 0 without a limit."""
        rules, left = self.contest.format, []
        if (allowed := rules.submissions_per_team()) is not None:
            left.append(allowed - attempt)
        if (daily := rules.submissions_per_day()) is not None:
            left.append(daily - self.season.count_on_day(submitted.team, submitted.task, self._day_of(submitted)) - 1)
        return max(0, min(left, default=0))

    def _day_of(self, submitted: SubmissionRequest) -> str:
        """Returns the day of its arrival, else this one, no earlier than that of the ledger's latest entry; in UTC."""
        return format_time(self._judged_time(submitted))[:_DAY_DIGITS]

    def _earlier_receipt(self, act: contest_events.SubmissionReceived) -> Receipt | None:
        """Returns the receipt of the same submission of the same team, None where none was received that plays."""
        for known in self._received_submissions():
            entry = self.season.entries.get(known.event.id)  # none where another command received it just now
            if entry is not None and entry.is_active and _identity(known.event) == _identity(act):
                return self._write_receipt(known)
        return None

    def _received_submissions(self) -> Iterator[ReceivedSubmission]:
        """Yields everything that was received."""
        for entry in self._ledger.read():
            if isinstance(entry.event, contest_events.SubmissionReceived):
                yield ReceivedSubmission(entry.event, entry.time, entry.seq, entry.hash)

    def _write_receipt(self, received: ReceivedSubmission) -> Receipt:
        key, act = self.signing_key(), received.event
        receipt = Receipt.create_signed(
            key,
            contest=self.contest.file.contest,
            submission=act.id,
            team=act.team,
            task=act.task,
            side=act.side.value,
            digest=act.digest,
            received=received.time,
            entry=received.seq,
            head=received.hash,
            attempt=act.attempt,
            attempts_left=act.attempts_left,
            warnings=act.warnings,
        )
        write_whole(self._receipt_path(act.id), encode_receipt(receipt.document()))
        return receipt

    def _receipt_path(self, submission: str) -> Path:
        return self.folder.path / "receipts" / f"{submission}.json"

    def _require_entry(self, submission: str) -> Entry:
        entry = self.season.entries.get(submission)
        if entry is None:
            known = ", ".join(self.season.entries) or "none yet"
            raise UsageError(f"no submission {submission!r} in this contest (known: {known})")
        return entry


def _changes_boards(act: contest_events.ContestEvent) -> bool:
    return isinstance(act, _LEADERBOARD_EVENTS) and getattr(act, "changes_boards", True)


def _check_once(action: str, submission: str, reason: str) -> None:
    """Raises UsageError where it was done already: another reason would stand in place of the first."""
    if reason:
        raise UsageError(f"{submission} was {action} already: {printable(reason)}; nothing is left to do")


def _missing_files_problem(image: Image) -> list[Problem]:
    """Returns what is wrong where the refusal of a submission with the same files took them away."""
    if image.folder is None or image.folder.is_dir():
        return []
    problem = "the same files were refused for another submission at this moment, and taken away"
    return [Problem("submission", problem, "submit it again")]


def _identity(act: contest_events.SubmissionReceived) -> object:
    """Returns what two submissions share that are one and the same, handed in twice."""
    return act.model_dump(include={"name", "team", "task", "side", "digest", "licence", "source"})
