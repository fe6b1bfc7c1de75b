"""An unrestricted contest in use: its state, folded from the ledger, and the ways to append events to it.

People's requests are commands of `formats.unrestricted.commands`. `act` first takes the actions that are due, such as
closing a week, then runs the command, and appends the events of both at once; `tick` only takes the actions that are
due. Both hold the contest's write lock while they decide, so that any number of processes may run them: nothing is
decided from an old state, and each action that is due is recorded once.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import islice, takewhile
from pathlib import Path
from typing import TypeVar

from orchestrator.domain.contest_events import ContestEvent, FormatEvent
from orchestrator.domain.leaderboard import Leaderboard
from orchestrator.errors import Busy, Rejected, StoreFault, UsageError
from orchestrator.formats.unrestricted import commands, due_events
from orchestrator.formats.unrestricted.boards import boards
from orchestrator.formats.unrestricted.commands import Refusal, Result
from orchestrator.formats.unrestricted.due_events import Action
from orchestrator.formats.unrestricted.events import PictureReceived
from orchestrator.formats.unrestricted.fold import apply, fold
from orchestrator.formats.unrestricted.money import Transfer
from orchestrator.formats.unrestricted.rules import UnrestrictedRules
from orchestrator.formats.unrestricted.state import State
from orchestrator.formats.unrestricted.week_calendar import first_instant, local_day
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.stores.base import Ledger, LedgerEntry, format_time

_DAYS_KEPT = 64
"""The number of days whose boards a process keeps in memory."""
T = TypeVar("T")
Command = Callable[[State, datetime], Result]
"""A request: a function of the state and the time that returns the events to append, or a refusal."""


class UnrestrictedContest:
    """One contest, which the threads of a process share; other processes may have it open too.

    Methods that depend on the time take it as an argument. It is rounded down to milliseconds, as the ledger writes it,
    and is at least the time of the ledger's last entry.
    """

    def __init__(self, folder: ContestFolder, rules: UnrestrictedRules) -> None:
        """Raises StoreFault if the ledger is damaged, Rejected if the rules do not allow one of its events."""
        self.folder, self._rules = folder, rules
        self._lock = threading.Lock()
        self._folding_past = threading.Lock()
        self._past: dict[date, tuple[Leaderboard, ...]] = {}
        """The boards of days that are over, which no later event changes."""
        self._ledger: Ledger = folder.ledger()
        try:
            self._fold()
        except BaseException:
            self._ledger.close()
            raise

    def read(self, view: Callable[[State], T]) -> T:
        """Returns `view` of the current state; the result must hold no reference to the state itself.

        Actions that are due but not recorded yet have not happened in this state, so nothing is shown early.
        """
        with self._lock:
            self._read_new_entries()
            return view(self._state)

    def act(self, command: Command, now: datetime) -> tuple[FormatEvent, ...]:
        """Takes the actions that are due, then runs a command, and appends the events of both in one transaction.

        Returns:
            The command's events; none if the request was already fulfilled.

        Raises:
            Rejected: the command refuses, with all reasons. The actions that were due are recorded nevertheless.
            StoreFault, Busy: nothing is recorded.
        """
        with self._deciding():
            at = self._time(now)
            actions = list(due_events.catch_up(self._state, at))
            found = command(self._state, at)
            events = () if isinstance(found, Refusal) else found
            for event in events:
                apply(self._state, event, at)
            self._append((*_events(actions), *events), at)
        if isinstance(found, Refusal):
            raise Rejected("contest", list(found.problems))
        return events

    def propose(self, event: FormatEvent, now: datetime) -> None:
        """Appends an event if the rules allow it now. Raises like `act`."""
        self.act(lambda state, at: commands.propose(state, at, event), now)

    def tick(self, now: datetime) -> list[Action]:
        """Takes the actions that are due now and returns them in order, none if they were already taken.

        Raises StoreFault or Busy, and then nothing is recorded.
        """
        with self._lock:
            self._read_new_entries()
            if next(due_events.due(self._state, self._time(now)), None) is None:
                return []
        with self._deciding():
            at = self._time(now)
            actions = list(due_events.catch_up(self._state, at))
            self._append(tuple(_events(actions)), at)
        return actions

    def boards_of_day(self, day: date, now: datetime) -> tuple[Leaderboard, ...]:
        """Returns the boards at the end of a day of the contest's time zone, or the current boards for today.

        Folding the ledger of a long contest takes seconds, and anybody may ask for it: one day is folded at a time.

        Raises:
            UsageError: the day is before the contest or after today.
            Busy: another day is being folded.
        """
        zone, opened_at = self.read(lambda state: (state.zone, state.opened_at or state.at))
        first, today = local_day(opened_at, zone), local_day(now, zone)
        if not first <= day <= today:
            raise UsageError(f"{day} is not from {first}, when the contest was opened, to {today}, which is today")
        if day == today:
            return self.read(boards)
        if (kept := self._past.get(day)) is not None:
            return kept
        if not self._folding_past.acquire(blocking=False):
            raise Busy("the boards of another day are being computed; ask again in a moment")
        try:
            found = self._boards_before(first_instant(day + timedelta(days=1), zone))
            self._past[day] = found
            if len(self._past) > _DAYS_KEPT:
                del self._past[next(iter(self._past))]
        finally:
            self._folding_past.release()
        return found

    def _boards_before(self, end: datetime) -> tuple[Leaderboard, ...]:
        """Returns the boards from the entries before an instant, read on a connection of its own without the lock."""
        with closing(self.folder.ledger()) as ledger:
            dated = ((each.event, datetime.fromisoformat(each.time)) for each in ledger.read())
            before = takewhile(lambda entry: entry[1] < end, dated)
            return boards(fold(self._rules, ((event, at) for event, at in before if isinstance(event, ContestEvent))))

    def entry_of(self, picture: str) -> tuple[int, str] | None:
        """Returns the receipt number and the entry's hash of a received picture, None if there is no such picture."""
        with self._lock:
            self._read_new_entries()
            known = self._state.pictures.get(picture)
            return None if known is None else (known.receipt, self._hashes[picture])

    def transfers(self) -> list[tuple[datetime, Transfer]]:
        """Returns all transfers of money, each with its time, in the order of the ledger."""
        with self._lock:
            self._read_new_entries()
            return list(self._transfers)

    def close(self) -> None:
        """Closes the ledger."""
        with self._lock:
            self._ledger.close()

    @contextmanager
    def _deciding(self) -> Iterator[None]:
        """Holds the contest's write lock and applies new entries. After an error, the next use folds it again."""
        with self._lock, self.folder.writing():
            self._read_new_entries()
            try:
                yield
            except BaseException:
                self._is_ahead = True
                raise

    def _append(self, events: tuple[FormatEvent, ...], at: datetime) -> None:
        if events:
            self._ledger.append(*events, time=format_time(at))
            if isinstance(events[-1], PictureReceived):
                self._hashes[events[-1].picture] = self._ledger.head
            self._add_transfers(at)

    def _time(self, now: datetime) -> datetime:
        now = now.astimezone(UTC)
        return max(now.replace(microsecond=now.microsecond // 1000 * 1000), self._state.at)

    def _fold(self) -> None:
        """Folds the whole ledger from its beginning."""
        self._state, self._is_ahead = State(self._rules), False
        self._hashes: dict[str, str] = {}
        """Picture -> the hash of the entry that received it, which its receipt shows."""
        self._transfers: list[tuple[datetime, Transfer]] = []
        self._apply_all(self._ledger.read())
        if self._state.opened_at is None:
            raise StoreFault(f"{self.folder.path} holds no contest that was opened; put its ledger back from a copy")

    def _read_new_entries(self) -> None:
        """Applies entries that other processes appended since the last read. Raises like the constructor."""
        if self._is_ahead:  # events were applied to the state that were not appended
            self._fold()
        self._apply_all(self._ledger.read_new())

    def _apply_all(self, entries: Iterable[LedgerEntry]) -> None:
        for entry in entries:
            if isinstance(entry.event, ContestEvent):
                at = datetime.fromisoformat(entry.time)
                apply(self._state, entry.event, at)
                self._add_transfers(at)
            if isinstance(entry.event, PictureReceived):
                self._hashes[entry.event.picture] = entry.hash

    def _add_transfers(self, at: datetime) -> None:
        """Adds the transfers that the state has gained since the last call, with their time `at`."""
        made = self._state.books.transfers if self._state.books else {}
        self._transfers += [(at, each) for each in islice(made.values(), len(self._transfers), None)]


@contextmanager
def open_unrestricted(path: Path) -> Iterator[UnrestrictedContest]:
    """Opens the unrestricted contest in a folder.

    Raises:
        UsageError: there is no contest, or it has another format.
        Rejected: its file cannot be read, or the rules do not allow an event of its ledger.
        StoreFault: its ledger is damaged.
    """
    folder = ContestFolder(path)
    folder.require()
    contest = Contest(folder.file)
    if (rules := unrestricted_rules(contest)) is None:
        raise UsageError(
            f"{path} is a contest of the format {contest.file.format}, in which nothing becomes due by time and "
            "no day has a standing; weeks are for the format unrestricted"
        )
    found = UnrestrictedContest(folder, rules)
    try:
        yield found
    finally:
        found.close()


def unrestricted_rules(contest: Contest) -> UnrestrictedRules | None:
    """Returns the rules of an unrestricted contest, None for a contest of another format."""
    rules = contest.format.rules
    return rules if isinstance(rules, UnrestrictedRules) else None


def _events(actions: list[Action]) -> Iterator[FormatEvent]:
    for action in actions:
        yield from action.events
