"""What checking a sealed and a full round have in common."""

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
"""Returns the format with the rules that hold, and what the season says of the submissions of a round."""

_IMPOSSIBLE_VALUE_ERRORS = (
    StoreFault,
    UsageError,
    ValidationError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
)
"""What our own code raises on values that it would never have written."""
_MAX_DIGITS = 30
"""No rule has a number of more digits before or after the point; a hostile one could take all memory."""


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """How much was checked of one round: see Verified."""

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
        """What happened."""
        return [link.event for link in self.entries if link.event is not None]


def check_end(links: Sequence[chain.ChainEntry], part: RoundPart, name: str) -> None:
    """Raises NotGenuine where a round's ledger is not the complete one that the contest's ledger tells of."""
    if not links or links[-1].hash != part.head:
        raise NotGenuine(name, "does not end with the hash that the contest's ledger has for this round")
    if not isinstance(links[-1].event, events.RoundClosed):
        raise NotGenuine(name, "does not end with the end of the round")


@contextmanager
def untrusted(place: str) -> Iterator[None]:
    """Turns what our code raises on impossible values into NotGenuine at a place."""
    try:
        yield
    except _IMPOSSIBLE_VALUE_ERRORS as error:
        message = printable(str(error).splitlines()[0] if str(error) else "", 200)
        raise NotGenuine(place, f"cannot be what it is said to be: {type(error).__name__}: {message}") from None
    except (RecursionError, MemoryError) as error:
        raise NotGenuine(place, f"cannot be read: {type(error).__name__}") from None


@dataclass(frozen=True, slots=True)
class ContestState:
    """A bundle's contest ledger: its entries, the act that each is or is said to be, and the season that they tell."""

    entries: list[chain.ChainEntry]
    events: list[contest_events.ContestEvent]
    season: Season


def read_contest(bundle: Bundle) -> ContestState:
    """Returns what a bundle's contest ledger tells, once its chain holds.

    Raises:
        NotGenuine: the chain breaks, does not end where the manifest says, or tells another contest, key or rounds.
    """
    manifest, contest = bundle.manifest, ContestState([], [], Season())
    with bundle.open_file(CONTEST) as file:
        for link in chain.read_chain(file, CONTEST, redaction.redact_contest_event):
            place = f"{CONTEST} entry {link.seq}"
            act = redaction.parse_redacted_event(link.public, place) if link.event is None else link.event
            if not isinstance(act, contest_events.ContestEvent) or (link.seq == 1) != isinstance(
                act, contest_events.ContestOpened
            ):
                raise NotGenuine(place, f"is a {printable(act.kind)} event, which does not belong here")
            if contest.season.closing is not None and _takes_in(act, contest.season.closing.time):
                raise NotGenuine(place, "receives something after the organizers closed submissions")
            with untrusted(place):
                contest.season.apply(act, link.time)
            contest.entries.append(link)
            contest.events.append(act)
    opening = contest.season.opening
    if opening is None or contest.entries[-1].hash != manifest.head:
        raise NotGenuine(f"{MANIFEST} head", f"is not the end of {CONTEST}")
    for place, stated, known in (
        ("contest", manifest.contest, opening.contest.get("contest")),
        ("key", bundle.key, opening.key_fingerprint),
        ("rounds", [(part.round, part.task, part.head) for part in manifest.rounds], _played_rounds(contest.season)),
    ):
        if stated != known:
            raise NotGenuine(f"{MANIFEST} {place}", f"is not what {CONTEST} says")
    return contest


def _takes_in(act: contest_events.ContestEvent, closed: str) -> bool:
    """Returns whether something comes to the contest with this act that did not arrive before submissions closed."""
    if isinstance(act, contest_events.SubmissionArrived):
        return not act.last_byte or act.last_byte >= closed
    return isinstance(act, contest_events.SubmissionReceived) and not act.arrival


def _played_rounds(season: Season) -> list[tuple[str, str, str]]:
    return [(act.round, act.task, act.head) for act in season.played_rounds.values()]


def check_opened(opened: events.RoundOpened, part: RoundPart, place: str) -> ContestFile:
    """Returns the contest file that a round was opened with. Raises NotGenuine where it is another round's."""
    if (opened.round, opened.phase, opened.task.name) != (part.round, part.round, part.task):
        raise NotGenuine(place, f"opens the round {printable(opened.round)} of {printable(opened.task.name)}")
    return parse_model(ContestFile, opened.contest, place)


def check_roster(roster: Roster, season: Season, file: ContestFile, place: str) -> None:
    """Raises NotGenuine where somebody plays who was not received so, or a time or a team is another."""
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
    judge: RulesResolver, season: Season, opened: events.RoundOpened
) -> tuple[Format[Any], SeasonState]:
    """Returns what `judge` does. Raises NotGenuine for rules that no contest has."""
    contest_format, standings = judge(season, opened)
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
