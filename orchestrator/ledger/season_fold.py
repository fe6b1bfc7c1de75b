"""The season that a contest's ledger tells, and what it says of the submissions of a round."""

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator import plugins
from orchestrator.domain import contest_events, events
from orchestrator.domain.contest_format import Format, RoundOfSeason, SeasonState
from orchestrator.domain.season import Season
from orchestrator.ledger.stores.base import LedgerEntry


def fold_season(entries: Iterable[LedgerEntry]) -> Season:
    """Returns the season that a contest's ledger tells."""
    season = Season()
    for entry in entries:
        if isinstance(entry.event, contest_events.ContestEvent):
            season.apply(entry.event, entry.time)
    return season


def format_of_round(
    opened: events.RoundOpened, season: Season | None = None, rules: dict[str, Any] | None = None
) -> Format[Any]:
    """Returns the format of a round with the rules that hold for it: these, or those in force, or its own.

    Raises:
        UsageError: the format is not installed.
        pydantic.ValidationError: these are no rules of it.
    """
    changed = season.rules if season is not None else None
    return _make_format(opened.contest, rules or changed)


def format_of_season(season: Season) -> Format[Any]:
    """Returns the format of a contest that was opened, with the rules in force. Raises like `format_of_round`."""
    if season.opening is None:
        raise ValueError("the contest was not opened")
    return _make_format(season.opening.contest, season.rules)


def _make_format(contest: Mapping[str, Any], rules: Mapping[str, Any] | None) -> Format[Any]:
    """Returns the format that a resolved contest file names, with these rules or else the file's own."""
    kind = plugins.load_plugin("formats", contest["format"])
    found: Format[Any] = kind(kind.rules_type.model_validate(rules or contest["rules"]))
    return found


def season_state(contest_format: Format[Any], season: Season, opened: events.RoundOpened) -> SeasonState:
    """Returns what a season says that bears on a round."""
    where = RoundOfSeason(opened.round, opened.task.name, season)
    return SeasonState(
        {entry.id: contest_format.eligibility(entry, where) for entry in season.entries_of_task(where.task)},
        tuple(event for event, _ in season.format_events),
    )
