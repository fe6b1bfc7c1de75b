"""Checks that events which follow from a round's leaderboards, such as promotions, do (A4, A11, A12, A16)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from orchestrator.bundles import comparison
from orchestrator.bundles.layout import CONTEST
from orchestrator.bundles.round_checks import ContestState, RulesResolver, resolve_checked_rules
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.contest_format import LedgerFold
from orchestrator.domain.season import Season
from orchestrator.domain.text import printable
from orchestrator.errors import NotGenuine, Rejected
from orchestrator.ledger.read_model import RoundView
from orchestrator.scoring.round_scoring import RoundScoring

ViewAtHead = Callable[[str], RoundView | None]
"""Returns a round's record at the time when its ledger ended with this hash; None if the bundle does not have it."""


def check_outcomes(
    contest_state: ContestState,
    rounds: Mapping[tuple[str, str], ViewAtHead],
    resolve_rules: RulesResolver,
    *,
    sealed: bool,
) -> int:
    """Returns how many events of the format were recomputed from the leaderboards of their time.

    If the format has a fold of the whole ledger, that fold has to accept every entry at its time. A `sealed` bundle has
    no answers, so events that record results from answers are not recomputed.

    Raises:
        NotGenuine: at the first event that does not follow.
    """
    season, checked = Season(), 0
    fold, at = _ledger_fold(contest_state, rounds, resolve_rules), datetime.min.replace(tzinfo=UTC)
    recorded = _RecordedRounds(rounds, resolve_rules)
    for entry, event in zip(contest_state.entries, contest_state.events, strict=True):
        if fold is not None:
            # A redacted entry has no time: use that of the entry before it, than which it is not earlier.
            at = datetime.fromisoformat(entry.time) if entry.time else at
            place = f"{CONTEST} entry {entry.seq}"
            if isinstance(event, FormatEvent) and (name := event.recorded_round()) and not sealed:
                checked += recorded.was_observed(fold, season, event, name, place)
            else:
                recorded.forget()
            try:
                fold.apply(event, at)
            except Rejected as error:
                raise NotGenuine(place, f"may not have happened: {printable(str(error.problems[0]))}") from None
        if isinstance(event, FormatEvent) and (source := event.follows_from()) is not None:
            checked += _outcome_follows(season, event, source, rounds, resolve_rules, f"{CONTEST} entry {entry.seq}")
        season.apply(event, entry.time)
    return checked


def _outcome_follows(
    season: Season,
    event: FormatEvent,
    source: tuple[str, str],
    rounds: Mapping[tuple[str, str], ViewAtHead],
    resolve_rules: RulesResolver,
    place: str,
) -> bool:
    round_played = season.played_rounds.get(source)
    if round_played is None:
        raise NotGenuine(place, f"is a {event.kind} event of a round that was not played yet")
    record = rounds[source](round_played.head)
    opening = record.round.opening if record else None
    if record is None or opening is None:
        return False
    contest_format, standings = resolve_checked_rules(resolve_rules, season, opening)
    found = RoundScoring(record, contest_format, standings).outcome(
        actor=event.actor, task=source[1], reason=event.reason
    )
    stated, follows = (None if each is None else each.model_dump(mode="json") for each in (event, found))
    comparison.check_equal(place, stated, follows)
    return True


def _ledger_fold(
    contest_state: ContestState, rounds: Mapping[tuple[str, str], ViewAtHead], resolve_rules: RulesResolver
) -> LedgerFold | None:
    """Returns the format's fold for the public version of the contest's ledger, None if it has none."""
    for source, played in contest_state.season.played_rounds.items():
        record = rounds[source](played.head)
        if record is not None and record.round.opening is not None:
            contest_format, _ = resolve_checked_rules(resolve_rules, contest_state.season, record.round.opening)
            return contest_format.ledger_fold(redacted=True)
    return None


@dataclass
class _RecordedRounds:
    """The recomputed results of rounds. A round's events are adjacent in a ledger, so it is scored once for all."""

    rounds: Mapping[tuple[str, str], ViewAtHead]
    resolve_rules: RulesResolver
    _round: tuple[str, str, str] | None = None
    """The name and the head of the round that was scored last, and the actor of its events."""
    _events: tuple[FormatEvent, ...] = ()
    """The events of that round, computed before the first of them was applied; none of them affects another."""

    def forget(self) -> None:
        """Discards the scored round, because another event may change its result."""
        self._round = None

    def was_observed(self, fold: LedgerFold, season: Season, event: FormatEvent, name: str, place: str) -> bool:
        """Returns whether an event could be compared with the round's result. Raises NotGenuine if it differs."""
        sources = [source for source in season.played_rounds if source[0] == name]
        if not sources:
            raise NotGenuine(place, f"is a {event.kind} event of a round that was not played yet")
        head = season.played_rounds[sources[0]].head
        if self._round != (name, head, event.actor):
            record = self.rounds[sources[0]](head)
            opening = record.round.opening if record else None
            if record is None or opening is None:
                return False
            contest_format, standings = resolve_checked_rules(self.resolve_rules, season, opening)
            observed = RoundScoring(record, contest_format, standings).observations()
            self._round, self._events = (name, head, event.actor), fold.round_events(name, observed, event.actor)
        if event not in self._events:
            raise NotGenuine(place, f"is not what the round {name} came to: another one follows from its answers")
        return True
