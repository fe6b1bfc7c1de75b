"""Whether those were promoted whom the boards say (rules A4, A11, A12, A16)."""

from collections.abc import Callable, Mapping

from orchestrator.bundles import comparison
from orchestrator.bundles.layout import CONTEST
from orchestrator.bundles.round_checks import ContestState, RulesResolver, resolve_checked_rules
from orchestrator.domain import contest_events, events
from orchestrator.domain.season import Season
from orchestrator.errors import NotGenuine
from orchestrator.ledger.read_model import RoundView
from orchestrator.scoring.round_scoring import RoundScoring

ViewAtHead = Callable[[str], RoundView | None]
"""Returns a round's record as it was when its ledger ended with this hash; None where a bundle does not tell."""


def check_promotions(told: ContestState, rounds: Mapping[tuple[str, str], ViewAtHead], judge: RulesResolver) -> int:
    """Returns how many promotions follow from the boards at their time, of those of which the bundle tells.

    Raises:
        NotGenuine: at the first that does not follow.
    """
    season, checked = Season(), 0
    for link, act in zip(told.links, told.acts, strict=True):
        if isinstance(act, contest_events.FinalistsPromoted):
            checked += _promotion_follows(season, act, rounds, judge, f"{CONTEST} entry {link.seq}")
        season.apply(act, link.time)
    return checked


def _promotion_follows(
    season: Season,
    act: contest_events.FinalistsPromoted,
    rounds: Mapping[tuple[str, str], ViewAtHead],
    judge: RulesResolver,
    place: str,
) -> bool:
    played = [each for each in season.rounds.values() if each.task == act.task]
    for each in played:
        record = rounds[each.round, each.task](each.head)
        opened: events.RoundOpened | None = record.round.opened if record else None
        if record is None or opened is None:
            continue
        contest_format, standings = resolve_checked_rules(judge, season, opened)
        if opened.phase == contest_format.phases[0]:
            found = RoundScoring(record, contest_format, standings).promoted()
            body = {
                "attacks": list(found.attacks),
                "defences": list(found.defences),
                "not_standing": dict(found.not_standing),
            }
            comparison.check_equal(place, act.model_dump(mode="json", include=set(body)), body)
            return True
    if not played:
        raise NotGenuine(place, "promotes before anything was played")
    return False
