"""Whether what a format noted of a round's boards follows from them, such as who was promoted (A4, A11, A12, A16)."""

from collections.abc import Callable, Mapping

from orchestrator.bundles import comparison
from orchestrator.bundles.layout import CONTEST
from orchestrator.bundles.round_checks import ContestState, RulesResolver, resolve_checked_rules
from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.season import Season
from orchestrator.errors import NotGenuine
from orchestrator.ledger.read_model import RoundView
from orchestrator.scoring.round_scoring import RoundScoring

ViewAtHead = Callable[[str], RoundView | None]
"""Returns a round's record as it was when its ledger ended with this hash; None where a bundle does not tell."""


def check_outcomes(
    contest_state: ContestState, rounds: Mapping[tuple[str, str], ViewAtHead], judge: RulesResolver
) -> int:
    """Returns how many events of the format follow from boards at their time, of those of which the bundle tells.

    Raises:
        NotGenuine: at the first that does not follow.
    """
    season, checked = Season(), 0
    for link, event in zip(contest_state.entries, contest_state.events, strict=True):
        if isinstance(event, FormatEvent) and (source := event.follows_from()) is not None:
            checked += _outcome_follows(season, event, source, rounds, judge, f"{CONTEST} entry {link.seq}")
        season.apply(event, link.time)
    return checked


def _outcome_follows(
    season: Season,
    event: FormatEvent,
    source: tuple[str, str],
    rounds: Mapping[tuple[str, str], ViewAtHead],
    judge: RulesResolver,
    place: str,
) -> bool:
    round_played = season.played_rounds.get(source)
    if round_played is None:
        raise NotGenuine(place, f"is a {event.kind} event of a round that was not played yet")
    record = rounds[source](round_played.head)
    opening = record.round.opening if record else None
    if record is None or opening is None:
        return False
    contest_format, standings = resolve_checked_rules(judge, season, opening)
    found = RoundScoring(record, contest_format, standings).outcome(
        actor=event.actor, task=source[1], reason=event.reason
    )
    stated, follows = (None if each is None else each.model_dump(mode="json") for each in (event, found))
    comparison.check_equal(place, stated, follows)
    return True
