"""Changes a contest, one event of its ledger at a time.

Several processes may work on one contest. Each holds the write lock only while it decides and appends the event.
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
_MAX_PROBLEMS = 50
"""The most problems of one submission that a refusal records; the rest are counted."""
_PROBLEM_LIMIT = 4000
"""The most characters of one problem that a refusal records."""
Clock = Callable[[], datetime]
"""A function that returns the current time, with its time zone."""


def validated(kind: type[S], **words: object) -> S:
    """Returns a model, such as an event, of an operator's words. Raises UsageError if a field is invalid."""
    try:
        return kind.model_validate(words)
    except ValidationError as error:
        raise UsageError(first_field_error(error, kind)) from None


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """A submission to admit: a folder with a manifest, or an image with its name and side. A package gives both."""

    team: str
    task: str
    folder: Path | None = None
    image: str | None = None
    name: str = ""
    side: Side | None = None
    package_name: str = ""
    """The name of the package's file, which names the submission in errors before its manifest is read."""
    is_pictures: bool = False
    """Whether the submission is an archive of pictures, for which no player is started."""
    arrival: str = ""
    """The arrival that this request comes from; its time, day and actor are used. Empty for `sparring submit`."""
    arrived_at: datetime | None = None
    """When the last byte arrived, for a file that has no arrival in the ledger yet; it is judged by this time."""


_LEADERBOARD_EVENTS = (
    contest_events.TeamAdded,
    contest_events.SubmissionWithdrawn,
    contest_events.SubmissionDisqualified,
    contest_events.SubmissionCorrected,
    contest_events.OrganizersRecognized,
    contest_events.RulesChanged,
    contest_events.FormatEvent,
)
"""Events that change the results of played rounds."""


@dataclass(frozen=True, slots=True)
class ReceivedSubmission:
    """The ledger's entry of a received submission: its event, time, number and hash."""

    event: contest_events.SubmissionReceived
    time: str
    seq: int
    hash: str


class ContestAdmin:
    """One contest, which other processes read and change at the same time.

    `season` is the fold of the ledger entries that this process has read. Decide from the season inside `alone`: no
    other process can then append an event between the decision and its entry.
    """

    def __init__(self, folder: ContestFolder, ledger: Ledger, contest: Contest, clock: Clock, by: str) -> None:
        self.folder, self.contest = folder, contest
        self._ledger, self._clock, self.actor = ledger, clock, by
        past = list(ledger.read())
        self.season: Season = fold_season(past)
        self._entry_count, self._latest_time = len(past), past[-1].time if past else ""
        self._holds = 0
        self.outdated_rounds: set[Path] = set()
        """Folders of rounds whose results were removed because an event changed them."""

    @cached_property
    def baselines(self) -> frozenset[str]:
        """The ids of the contest file's baselines."""
        return frozenset(
            submission.id for submission in describe_roster(self.contest, complete=False) if submission.baseline
        )

    @property
    def head(self) -> str:
        """The hash of the contest ledger's last entry."""
        return self._ledger.head

    @property
    def entry_count(self) -> int:
        """The number of the last ledger entry that this process has read, which is the count of entries."""
        return self._entry_count

    def signing_key(self) -> SigningKey:
        """Returns the contest's key. Raises StoreFault if it is missing, or not the key that opened the contest."""
        key, opening = self.folder.key(), self.season.opening
        if opening is not None and key.fingerprint != opening.key_fingerprint:
            path = self.folder.path / "key"
            raise StoreFault(
                f"{path} is {key.fingerprint}; the contest was opened with {opening.key_fingerprint}: put it back"
            )
        return key

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the contest's write lock and applies new entries to `season`. May be nested.

        Raises:
            UsageError: another command has held the lock for minutes.
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
        """Sets the actor and the contest file for the next events, and applies new entries to `season`."""
        self.contest, self.actor = contest, by
        self.__dict__.pop("baselines", None)  # read again: the manifests may have changed
        self.refresh()

    def refresh(self) -> None:
        """Applies entries that other processes appended since the last read. Raises StoreFault for a damaged ledger."""
        for entry in self._ledger.read_new():
            self._apply(entry.event, entry.time)

    def ledger_fold(self) -> LedgerFold | None:
        """Returns the format's fold of the whole ledger, None if the format has no such fold. Raises Rejected."""
        found: LedgerFold | None = self.contest.format.ledger_fold()
        if found is not None:
            for entry in self._ledger.read():
                if isinstance(entry.event, contest_events.ContestEvent):
                    found.apply(entry.event, datetime.fromisoformat(entry.time))
        return found

    def now(self) -> datetime:
        """Returns the current time of the contest's clock."""
        return self._clock()

    def counted_time(self, time: datetime) -> datetime:
        """Returns the time that counts for a `time` that was read from the clock a while ago: usually `time` itself.

        If the clock is behind the ledger's latest entry, the result is no earlier than that entry: setting the clock
        back must not open submissions again.
        """
        latest = datetime.fromisoformat(self._latest_time) if self._latest_time else time
        return time if self._clock() >= latest else max(time, latest)

    def append_event(self, act: contest_events.ContestEvent, at: datetime | None = None) -> str:
        """Appends an event and returns its time: the clock's time, or the previous entry's if the clock is behind it.

        `at` replaces the clock's time if the event was decided by an earlier reading of the clock.
        """
        with self.alone():
            if _changes_boards(act):
                self.discard_results()
            time = self._ledger.append(act, time=format_time(at or self._clock()))
            self._apply(act, time)
        return time

    def _apply(self, event: object, time: str) -> None:
        if isinstance(event, contest_events.ContestEvent):
            self.season.apply(event, time)
        self._entry_count, self._latest_time = self._entry_count + 1, time

    def opened_rounds(self) -> list[RoundFolder]:
        """Returns the folders of all rounds that were begun, in the order of the contest file's tasks and rounds."""
        every = [
            self.folder.round(each.name, task.name)
            for task in self.contest.file.all_tasks
            for each in self.contest.format.rounds(self.season, task.name)
        ]
        return [folder for folder in every if folder.exists]

    def rounds_without_results(self) -> list[RoundFolder]:
        """Returns the folders of rounds that lack their results: never written, or removed because of an event."""
        played_paths = {self.folder.round(phase, task).path for phase, task in self.season.played_rounds}
        return [
            folder
            for folder in self.opened_rounds()
            if folder.path in played_paths | self.outdated_rounds and not folder.results_path.exists()
        ]

    def discard_results(self) -> None:
        """Removes all written results before an event that changes them, so that a killed command leaves none wrong."""
        for folder in self.opened_rounds():
            if folder.results_path.exists():
                self.outdated_rounds.add(folder.path)
                folder.discard_results()

    def _clock_warnings(self) -> list[str]:
        """Returns a warning for the team if the clock is behind the ledger's latest entry, else nothing."""
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
            self.record_members(teams.team_changes(self.season, self.contest.format, team, people))

    def record_members(self, changes: Iterable[teams.TeamMembers]) -> None:
        """Records the new members of these teams. Call it inside `alone`."""
        for name, members in changes:
            records = [
                validated(contest_events.PersonRecord, id=p.id, name=p.name, organizer=p.organizer) for p in members
            ]
            self.append_event(validated(contest_events.TeamAdded, actor=self.actor, team=name, people=records))
        self._recognize_organizers()

    def _recognize_organizers(self) -> None:
        """Records which submissions an organizer made who was not marked as one when they came (A5)."""
        if names := self.season.unrecognized_entries():
            self.append_event(contest_events.OrganizersRecognized(actor=self.actor, submissions=names))

    def submit(self, submitted: SubmissionRequest, backend: Backend, steps: StepLog = UNWATCHED) -> Receipt:
        """Admits a submission and returns its signed receipt.

        If the team submits the same again while the first is active, returns the first receipt and counts no attempt.

        Raises:
            Rejected: with all reasons. The refusal is recorded, counts as no attempt of the team, and leaves no files.
        """
        with ExitStack() as undo:
            return self._admit(submitted, backend, undo, steps)

    def _admit(self, submitted: SubmissionRequest, backend: Backend, undo: ExitStack, steps: StepLog) -> Receipt:
        submission_manifest, problems = self._read_manifest(submitted)
        self.signing_key()  # raises before anything is recorded: without a receipt, nothing is received
        side = submitted.side or (submission_manifest.side if submission_manifest else None)
        name = submitted.name or (submission_manifest.name if submission_manifest else "")
        dubious = self._validate_time_and_fields(submitted, submission_manifest)
        problems += dubious + self._validate_team_rules(submitted, submission_manifest)
        image, refused = self._admit_image(submitted, submission_manifest, backend, steps)
        problems += refused
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
            if not dubious:  # the trial match does not start a submission that is refused anyway
                candidate = trial_match_setup.Applicant(submitted.task, side, image)
                unfit, warnings = trial_match_setup.play_trial_match(self.contest, candidate, backend, steps.match_step)
                problems += unfit
        if problems or image is None or side is None:
            self._record_refusal(submitted, name, side, problems)
        format_warnings = self.contest.format.submission_warnings(self.season, act)
        with self.alone():  # during the trial match, this team or another may have submitted something
            if (before := self._earlier_receipt(act)) is None:
                if problems := self.validate_request(submitted, submission_manifest) + _missing_files_problem(image):
                    self._record_refusal(submitted, name, side, problems)
                act = self._received_event(submitted, submission_manifest, name, side, image)
                act = act.model_copy(update={"warnings": [*format_warnings, *self._clock_warnings(), *warnings]})
            undo.pop_all()  # the submission is recorded from here on, so its files stay
            return before or self._receive(act)

    def _admit_image(
        self, submitted: SubmissionRequest, found: manifest.Manifest | None, backend: Backend, steps: StepLog
    ) -> tuple[Image | None, list[Problem]]:
        """Returns the admitted image, or None with the problems; None without a problem if no manifest names one."""
        if found is None and submitted.folder is not None:
            return None, []
        try:
            image = backend.admit(self._image_source(submitted, found))
        except Rejected as error:
            steps.result("image policy", error.problems)
            return None, list(error.problems)
        steps.add("image policy", True)
        return image, []

    def submit_pictures(
        self, submitted: SubmissionRequest, read: Callable[[], EntryPictures], steps: StepLog = UNWATCHED
    ) -> Receipt:
        """Admits an archive of pictures and returns the signed receipt; see `submit`.

        `read` reads the archive. It is called only if the time and the request's fields are valid.
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
        with self.alone():  # before the pictures are stored: nothing removes those of a refused submission
            if isinstance(before := self._check_pictures(submitted, archive), Receipt):
                return before
        pixels = put_array(self.folder.blobs(), archive.pixels)
        with self.alone():  # meanwhile this team or another may have submitted something
            if isinstance(act := self._check_pictures(submitted, archive), Receipt):
                return act
            warnings = [*self.contest.format.submission_warnings(self.season, act), *self._clock_warnings()]
            return self._receive(act.model_copy(update={"pixels": pixels, "warnings": warnings}))

    def _check_pictures(
        self, submitted: SubmissionRequest, archive: EntryPictures
    ) -> contest_events.SubmissionReceived | Receipt:
        """Returns the event of receiving pictures now, or the receipt of the same submission. Raises Rejected."""
        act = self._received_event(submitted, None, submitted.name, Side.ATTACK, Image(archive.digest, ""))
        if (before := self._earlier_receipt(act)) is not None:
            return before
        if problems := self.validate_request(submitted, None):
            self._record_refusal(submitted, submitted.name, submitted.side, problems)
        return act.model_copy(update={"decoder": archive.decoder})

    def _receive(self, act: contest_events.SubmissionReceived) -> Receipt:
        """Records that a submission was received, and returns its receipt."""
        time = self.append_event(act)
        received = ReceivedSubmission(act, time, self._entry_count, self._ledger.head)
        self._recognize_organizers()
        return self._write_receipt(received)

    def _take_back(self, image: Image) -> None:
        """Removes the copy that admission made of a refused submission, unless a received one has the same digest."""
        if image.rollback is None:
            return
        with self.alone():
            if all(entry.digest != image.digest for entry in self.season.entries.values()):
                image.rollback()

    def validate_request(self, submitted: SubmissionRequest, found: manifest.Manifest | None) -> list[Problem]:
        """Returns the problems that show before the files are read: with the time, the fields, and the team's rules."""
        return self._validate_time_and_fields(submitted, found) + self._validate_team_rules(submitted, found)

    def _validate_time_and_fields(self, submitted: SubmissionRequest, found: manifest.Manifest | None) -> list[Problem]:
        """Returns the problems with the time, and with fields that are missing, invalid or contradictory."""
        return self._validate_time(submitted) + self._validate_fields(
            submitted, found, submitted.name or (found.name if found else "")
        )

    def _validate_ownership(self, submitted: SubmissionRequest, image: Image) -> list[Problem]:
        """Returns the problems if an image that is only named may belong to another team; see `image_ownership`."""
        if image.folder is not None or (submitted.folder is not None and submitted.image is not None):
            return []
        return list(image_ownership.ownership_problems(self.season, submitted.team, submitted.folder, image))

    def _validate_team_rules(
        self, submitted: SubmissionRequest, submission_manifest: manifest.Manifest | None
    ) -> list[Problem]:
        """Returns the problems by the rules for teams (A1, A4, C9), none without a side that can be submitted."""
        side, rules = submitted.side or (submission_manifest.side if submission_manifest else None), self.contest.format
        if side is None or (side not in rules.programs and not submitted.is_pictures):
            return []
        problems: list[Problem] = rules.entry_problems(self.season, submitted.team, submitted.task, side)
        return problems + self._validate_day(submitted)

    def _validate_day(self, submitted: SubmissionRequest) -> list[Problem]:
        """Returns a problem if the team, or somebody in it, has used up the submissions of this day (C9)."""
        allowed = self.contest.format.submissions_per_day()
        day = self._day_of(submitted)
        if allowed is None or self.season.count_on_day(submitted.team, submitted.task, day) < allowed:
            return []
        who = f"{submitted.team}, or somebody in it through another team,"
        what = f"{who} has submitted {allowed} of {allowed} on {day} (C9)"
        return [Problem("submission", what, "come back after midnight UTC")]

    def record_refusal(self, submitted: SubmissionRequest, problems: list[Problem]) -> NoReturn:
        """Records that a submission was refused, and raises Rejected. It counts as no attempt of the team."""
        self._record_refusal(submitted, submitted.name, submitted.side, problems)

    def withdraw(self, submission: str, reason: str) -> None:
        """Takes a submission back in its team's name.

        Raises UsageError for an unknown one, the second time, and where something was decided about it for good.
        """
        with self.alone():
            _check_once("withdrawn", submission, self._require_entry(submission).withdrawn)
            if obstacle := self.contest.format.withdrawal_obstacle(self.season, submission):
                raise UsageError(f"{submission} cannot be withdrawn: {obstacle}")
            self.append_event(
                validated(contest_events.SubmissionWithdrawn, actor=self.actor, id=submission, reason=reason)
            )

    def disqualify(self, submission: str, reason: str) -> None:
        """Disqualifies a submission. Raises UsageError if it is unknown or already disqualified."""
        with self.alone():
            _check_once("disqualified", submission, self._require_entry(submission).disqualified)
            self.append_event(
                validated(contest_events.SubmissionDisqualified, actor=self.actor, id=submission, reason=reason)
            )

    def correct_release(self, submission: str, reason: str, *, licence: str | None, source: str | None) -> list[str]:
        """Corrects a submission's licence or source (rule A6); returns the format's warnings that remain.

        Raises UsageError if neither is given, or the submission is unknown.
        """
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
        """Records an event of the contest's format that organizers may decide at any time, and returns it.

        Raises:
            UsageError: the format has no such event, or a field is invalid.
            Rejected: the format objects to the event in the present season.
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
        """Writes missing receipts again with the same contents, after a killed command or a loss.

        Raises:
            StoreFault: the key is not the contest's, or a receipt cannot be written.
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
        """Returns the problems with fields of a request that are missing, invalid or contradictory."""
        problems = []
        if submitted.task not in (tasks := [task.name for task in self.contest.file.all_tasks]):
            problems.append(Problem("task", f"there is no {submitted.task!r}", f"one of {', '.join(tasks)}"))
        if submitted.side is None and submitted.folder is None:
            problems.append(Problem("side", "is missing", "give --side attack or --side defence"))
        if submission_manifest and submitted.side not in (None, submission_manifest.side):
            contradiction = f"{submitted.side} was asked for, its submission.yaml says {submission_manifest.side}"
            problems.append(Problem("side", contradiction, "make them agree"))
        side = submitted.side or (submission_manifest.side if submission_manifest else None)
        if side is not None and not submitted.is_pictures:
            problems += self.contest.format.side_problems(side)
        if name and not manifest.is_slug(name):
            problems.append(Problem("name", f"{name!r} is no name", "1 to 64 of a-z, 0-9, _ and -, no _ or - first"))
        return problems

    def _image_source(self, submitted: SubmissionRequest, found: manifest.Manifest | None) -> ImageSource:
        command = tuple(found.command) if found else ()
        flavour = "cuda" if self.contest.file.limits.gpus and found and found.gpu else "cpu"
        tag = with_tag(submitted.image or (found.image if found else ""), flavour)
        return ImageSource(folder=submitted.folder, image=tag, command=command)

    def _arrival_time(self, submitted: SubmissionRequest) -> datetime | None:
        """Returns the time of the request's arrival in the ledger, None for a submission by command."""
        return datetime.fromisoformat(self.season.arrivals[submitted.arrival].time) if submitted.arrival else None

    def _judged_time(self, submitted: SubmissionRequest) -> datetime:
        """Returns the time by which a submission is judged: when it arrived, or now for a submission by command."""
        return self._arrival_time(submitted) or self.counted_time(submitted.arrived_at or self._clock())

    def _actor_of(self, submitted: SubmissionRequest) -> str:
        return self.season.arrivals[submitted.arrival].actor if submitted.arrival else self.actor

    def _validate_time(self, submitted: SubmissionRequest) -> list[Problem]:
        """Returns a problem before submissions open and after they close.

        An arrival is judged by its own time, however long its admission takes. A submission came before the organizers
        closed submissions if its arrival is in the ledger, or if its last byte arrived before that.
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
        shown, hidden = problems[:_MAX_PROBLEMS], len(problems) - _MAX_PROBLEMS
        shown += [Problem("submission", f"and {hidden} more problems")] if hidden > 0 else []
        # Refused fields may hold characters that a record cannot keep: it keeps their printable form.
        self.append_event(
            contest_events.SubmissionRefused(
                actor=self._actor_of(submitted),
                name=printable(name),
                team=printable(submitted.team),
                task=printable(submitted.task),
                side=side,
                problems=[printable(str(problem), _PROBLEM_LIMIT) for problem in shown],
                arrival=submitted.arrival,
            )
        )
        called = name or submitted.package_name or submitted.folder or submitted.image
        raise Rejected(f"submission {called}", shown)

    def _free_id(self, name: str) -> str:
        """Returns an id that no submission and no baseline has: the name, or the name with a number."""
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
        """Returns the event of receiving a submission now, without warnings."""
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
        """Returns how many submissions the team has left after this one, by A4 and, today, by C9; 0 without a limit."""
        rules, left = self.contest.format, []
        if (allowed := rules.submissions_per_team()) is not None:
            left.append(allowed - attempt)
        if (daily := rules.submissions_per_day()) is not None:
            left.append(daily - self.season.count_on_day(submitted.team, submitted.task, self._day_of(submitted)) - 1)
        return max(0, min(left, default=0))

    def _day_of(self, submitted: SubmissionRequest) -> str:
        """Returns the day, in UTC, of the time by which the submission is judged, such as "2026-11-23"."""
        return format_time(self._judged_time(submitted))[:_DAY_DIGITS]

    def _earlier_receipt(self, act: contest_events.SubmissionReceived) -> Receipt | None:
        """Returns the receipt of the team's active submission that is the same as this one, None if there is none."""
        for known in self._received_submissions():
            entry = self.season.entries.get(known.event.id)  # None if another command received it just now
            if entry is not None and entry.is_active and _identity(known.event) == _identity(act):
                return self._write_receipt(known)
        return None

    def _received_submissions(self) -> Iterator[ReceivedSubmission]:
        """Yields all received submissions, in the order of the ledger."""
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
    """Raises UsageError if the action has a reason already: a second event would replace the first reason."""
    if reason:
        raise UsageError(f"{submission} was {action} already: {printable(reason)}; nothing is left to do")


def _missing_files_problem(image: Image) -> list[Problem]:
    """Returns a problem if the refusal of another submission with the same files has just removed them."""
    if image.folder is None or image.folder.is_dir():
        return []
    problem = "the same files were refused for another submission at this moment, and taken away"
    return [Problem("submission", problem, "submit it again")]


def _identity(act: contest_events.SubmissionReceived) -> object:
    """Returns a value that is equal for two events if they are the same submission, submitted twice."""
    return act.model_dump(include={"name", "team", "task", "side", "digest", "licence", "source"})
