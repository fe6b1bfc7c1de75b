"""Whether those were promoted whom the boards say (rules A4, A11, A12, A16)."""

from collections.abc import Callable, Mapping

from orchestrator.domain import acts, events
from orchestrator.domain.season import Season
from orchestrator.errors import NotGenuine
from orchestrator.publication import comparison
from orchestrator.publication.judging import Judge, Told, judged
from orchestrator.publication.layout import CONTEST
from orchestrator.record import Record
from orchestrator.results.scoring import Scoring

AsOf = Callable[[str], Record | None]
"""Returns a round's record as it was when its ledger ended with this hash; None where a bundle does not tell."""


def check(told: Told, rounds: Mapping[tuple[str, str], AsOf], judge: Judge) -> int:
    """Returns how many promotions follow from the boards at their time, of those of which the bundle tells.

    Raises:
        NotGenuine: at the first that does not follow.
    """
    season, checked = Season(), 0
    for link, act in zip(told.links, told.acts, strict=True):
        if isinstance(act, acts.FinalistsPromoted):
            checked += _follows(season, act, rounds, judge, f"{CONTEST} entry {link.seq}")
        season.apply(act, link.time)
    return checked


def _follows(
    season: Season, act: acts.FinalistsPromoted, rounds: Mapping[tuple[str, str], AsOf], judge: Judge, place: str
) -> bool:
    played = [each for each in season.rounds.values() if each.task == act.task]
    for each in played:
        record = rounds[each.round, each.task](each.head)
        opened: events.RoundOpened | None = record.round.opened if record else None
        if record is None or opened is None:
            continue
        contest_format, standings = judged(judge, season, opened)
        if opened.phase == contest_format.phases[0]:
            found = Scoring(record, contest_format, standings).promoted()
            body = {
                "attacks": list(found.attacks),
                "defences": list(found.defences),
                "not_standing": dict(found.not_standing),
            }
            comparison.check(place, act.model_dump(mode="json", include=set(body)), body)
            return True
    if not played:
        raise NotGenuine(place, "promotes before anything was played")
    return False
