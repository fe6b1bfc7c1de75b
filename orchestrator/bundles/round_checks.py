"""Checks that sealed and full rounds have in common."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ValidationError

from orchestrator import redaction
from orchestrator.bundles import chain
from orchestrator.bundles.layout import CONTEST, MANIFEST, RoundPart
from orchestrator.bundles.reader import Bundle, parse_model
from orchestrator.domain import contest_events, events
from orchestrator.domain.contest_format import Format, SeasonState
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Roster
from orchestrator.domain.text import printable
from orchestrator.errors import NotGenuine, StoreFault, UsageError
from orchestrator.intake.contest_file import ContestFile

RulesResolver = Callable[[Season, events.RoundOpened], tuple[Format[Any], SeasonState]]
"""Returns the format with the rules in force, and the part of the season that affects a round."""

_IMPOSSIBLE_VALUE_ERRORS = (
    StoreFault,
    UsageError,
    ValidationError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
)
"""Errors that our own code raises for values that it would never have written."""
_MAX_DIGITS = 30
"""The largest number of digits of a number in rules; a hostile one could use up all memory."""


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """How much was checked in one round: see `verifier.VerificationReport`."""

    entries: int
    withheld: int
    pictures: int
    cells: int
    numbers: int
    replays: int = 0


@dataclass(frozen=True, slots=True)
class VerifiedRound:
    """One round of a full bundle: the entries of its ledger, and its secret."""

    part: RoundPart
    entries: list[chain.ChainEntry]
    secret: bytes

    @property
    def events(self) -> list[events.Event]:
        """The events of its ledger."""
        return [entry.event for entry in self.entries if entry.event is not None]


def check_end(entries: Sequence[chain.ChainEntry], part: RoundPart, name: str) -> None:
    """Raises NotGenuine if a round's ledger is not the complete one that the contest's ledger names."""
    if not entries or entries[-1].hash != part.head:
        raise NotGenuine(name, "does not end with the hash that the contest's ledger has for this round")
    if not isinstance(entries[-1].event, events.RoundClosed):
        raise NotGenuine(name, "does not end with the end of the round")


@contextmanager
def untrusted(place: str) -> Iterator[None]:
    """Converts errors that our code raises for impossible values into NotGenuine at a place."""
    try:
        yield
    except _IMPOSSIBLE_VALUE_ERRORS as error:
        message = printable(str(error).splitlines()[0] if str(error) else "", 200)
        raise NotGenuine(place, f"cannot be what it is said to be: {type(error).__name__}: {message}") from None
    except (RecursionError, MemoryError) as error:
        raise NotGenuine(place, f"cannot be read: {type(error).__name__}") from None


@dataclass(frozen=True, slots=True)
class ContestState:
    """A bundle's contest ledger: its entries, the event of each, possibly redacted, and the resulting season."""

    entries: list[chain.ChainEntry]
    events: list[contest_events.ContestEvent]
    season: Season


def read_contest(bundle: Bundle) -> ContestState:
    """Reads and checks a bundle's contest ledger.

    Raises:
        NotGenuine: the chain is broken, does not end as the manifest says, or has another contest, key or rounds.
    """
    manifest, contest = bundle.manifest, ContestState([], [], Season())
    with bundle.open_file(CONTEST) as file:
        for entry in chain.read_chain(file, CONTEST, redaction.redact_contest_event):
            place = f"{CONTEST} entry {entry.seq}"
            event = redaction.parse_redacted_event(entry.public, place) if entry.event is None else entry.event
            opens = isinstance(event, contest_events.ContestOpened)
            if not isinstance(event, contest_events.ContestEvent) or (entry.seq == 1) != opens:
                raise NotGenuine(place, f"is a {printable(event.kind)} event, which does not belong here")
            if contest.season.closing is not None and _is_late_submission(event, contest.season.closing.time):
                raise NotGenuine(place, "receives something after the organizers closed submissions")
            with untrusted(place):
                contest.season.apply(event, entry.time)
            contest.entries.append(entry)
            contest.events.append(event)
    opening = contest.season.opening
    played = [(each.round, each.task, each.head) for each in contest.season.played_rounds.values()]
    if opening is None or contest.entries[-1].hash != manifest.head:
        raise NotGenuine(f"{MANIFEST} head", f"is not the end of {CONTEST}")
    for place, stated, known in (
        ("contest", manifest.contest, opening.contest.get("contest")),
        ("key", bundle.key, opening.key_fingerprint),
        ("rounds", [(part.round, part.task, part.head) for part in manifest.rounds], played),
    ):
        if stated != known:
            raise NotGenuine(f"{MANIFEST} {place}", f"is not what {CONTEST} says")
    return contest


def _is_late_submission(event: contest_events.ContestEvent, closed: str) -> bool:
    """Returns whether this event brings in a submission that did not arrive before submissions closed."""
    if isinstance(event, contest_events.SubmissionArrived):
        return not event.last_byte or event.last_byte >= closed
    return isinstance(event, contest_events.SubmissionReceived) and not event.arrival


def check_opened(opened: events.RoundOpened, part: RoundPart, place: str) -> ContestFile:
    """Returns the contest file that a round was opened with. Raises NotGenuine if it is another round."""
    if (opened.round, opened.phase, opened.task.name) != (part.round, part.round, part.task):
        raise NotGenuine(place, f"opens the round {printable(opened.round)} of {printable(opened.task.name)}")
    return parse_model(ContestFile, opened.contest, place)


def check_roster(roster: Roster, season: Season, file: ContestFile, place: str) -> None:
    """Raises NotGenuine if a submission plays that was not received, or differs from the one that was received."""
    for one in roster:
        entry = season.entries.get(one.id)
        if entry is None and not one.baseline and not file.submissions:
            raise NotGenuine(f"{place} {printable(one.id)}", f"plays, and {CONTEST} does not tell that it was received")
        if entry is None or one.baseline:
            continue
        stated = (one.name, one.team, one.side, one.digest, one.submitted, one.pixels, one.decoder)
        known = (entry.name, entry.team, entry.side, entry.digest, entry.received_at, entry.pixels, entry.decoder)
        if stated != known:
            raise NotGenuine(f"{place} {printable(one.id)}", f"is not the submission that {CONTEST} tells of")


def resolve_checked_rules(
    resolve_rules: RulesResolver, season: Season, opened: events.RoundOpened
) -> tuple[Format[Any], SeasonState]:
    """Returns the result of `resolve_rules`. Raises NotGenuine if the rules have numbers that no contest has."""
    contest_format, standings = resolve_rules(season, opened)
    _check_numbers(contest_format.rules)
    return contest_format, standings


def _check_numbers(value: object) -> None:
    if isinstance(value, BaseModel):
        value = dict(value)
    if isinstance(value, Mapping):
        for each in value.values():
            _check_numbers(each)
    if isinstance(value, Decimal):
        parts = value.as_tuple()
        if not isinstance(parts.exponent, int) or abs(parts.exponent) > _MAX_DIGITS or len(parts.digits) > _MAX_DIGITS:
            raise NotGenuine("rules", f"hold the number {printable(str(value), 60)}")
