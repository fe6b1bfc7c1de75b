"""Changes a contest, one event of its ledger at a time.

Several processes may work on one contest. Each holds the write lock only while it decides and appends the event.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.application.contests import teams
from orchestrator.domain import contest_events
from orchestrator.domain.contest_format import LedgerFold
from orchestrator.domain.field_errors import first_field_error
from orchestrator.domain.season import Entry, Season
from orchestrator.domain.text import printable
from orchestrator.errors import Rejected, StoreFault, UsageError
from orchestrator.intake.admission import describe_roster
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.ledger.season_fold import fold_season
from orchestrator.ledger.stores.base import Ledger, LedgerEntry, format_time
from orchestrator.signatures import SigningKey

S = TypeVar("S", bound=BaseModel)
Clock = Callable[[], datetime]
"""A function that returns the current time, with its time zone."""


def validated(kind: type[S], **words: object) -> S:
    """Returns a model, such as an event, of an operator's words. Raises UsageError if a field is invalid."""
    try:
        return kind.model_validate(words)
    except ValidationError as error:
        raise UsageError(first_field_error(error, kind)) from None


def begun_rounds(
    folder: ContestFolder, contest: Contest, season: Season, phase: str | None = None, task: str | None = None
) -> list[RoundFolder]:
    """Returns the folders of the rounds that were begun, restricted to the round `phase` and to `task` if given."""
    every = [
        folder.round(each.name, section.name)
        for section in contest.file.all_tasks
        for each in contest.format.rounds(season, section.name)
        if phase in (None, each.name) and task in (None, section.name)
    ]
    return [each for each in every if each.exists]


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
        self.entry_count, self.latest_time = len(past), past[-1].time if past else ""
        """The number and the time of the last ledger entry that this process has read."""
        self._holds = 0
        self.outdated_rounds: set[Path] = set()
        """Folders of rounds whose results were removed because an event changed them."""

    @cached_property
    def baselines(self) -> frozenset[str]:
        """The ids of the contest file's baselines."""
        return frozenset(submission.id for submission in describe_roster(self.contest) if submission.baseline)

    @property
    def head(self) -> str:
        """The hash of the contest ledger's last entry."""
        return self._ledger.head

    def entries(self) -> Iterator[LedgerEntry]:
        """Yields all entries of the contest's ledger."""
        return self._ledger.read()

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
            for entry in self.entries():
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
        latest = datetime.fromisoformat(self.latest_time) if self.latest_time else time
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
        self.entry_count, self.latest_time = self.entry_count + 1, time

    def begun_rounds(self) -> list[RoundFolder]:
        """Returns the folders of all rounds that were begun, in the order of the contest file's tasks and rounds."""
        return begun_rounds(self.folder, self.contest, self.season)

    def rounds_without_results(self) -> list[RoundFolder]:
        """Returns the folders of rounds that lack their results: never written, or removed because of an event."""
        played_paths = {self.folder.round(phase, task).path for phase, task in self.season.played_rounds}
        return [
            folder
            for folder in self.begun_rounds()
            if folder.path in played_paths | self.outdated_rounds and not folder.results_path.exists()
        ]

    def discard_results(self) -> None:
        """Removes all written results before an event that changes them, so that a killed command leaves none wrong."""
        for folder in self.begun_rounds():
            if folder.results_path.exists():
                self.outdated_rounds.add(folder.path)
                folder.discard_results()

    def clock_warnings(self) -> list[str]:
        """Returns a warning for the team if the clock is behind the ledger's latest entry, else nothing."""
        now = format_time(self._clock())
        if now >= self.latest_time:
            return []
        warning = (
            f"time: the organizers' clock says {now}, and the entry before is of {self.latest_time}, which is recorded"
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
        self.recognize_organizers()

    def recognize_organizers(self) -> None:
        """Records which submissions an organizer made who was not marked as one when they came (A5)."""
        if names := self.season.unrecognized_entries():
            self.append_event(contest_events.OrganizersRecognized(actor=self.actor, submissions=names))

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
            raise UsageError("nothing to correct: give a licence or a source")
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
