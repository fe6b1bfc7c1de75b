"""Folds a contest's ledger into a season, and computes what the season means for a round."""

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator import plugins
from orchestrator.domain import contest_events, events
from orchestrator.domain.contest_format import Format, RoundOfSeason, SeasonState
from orchestrator.domain.season import Season
from orchestrator.ledger.stores.base import LedgerEntry


def fold_season(entries: Iterable[LedgerEntry]) -> Season:
    """Returns the season that results from the entries of a contest's ledger."""
    season = Season()
    for entry in entries:
        if isinstance(entry.event, contest_events.ContestEvent):
            season.apply(entry.event, entry.time)
    return season


def format_of_round(
    opened: events.RoundOpened, season: Season | None = None, rules: dict[str, Any] | None = None
) -> Format[Any]:
    """Returns the format of a round. Its rules are `rules`, or those in force in the season, or those of the round.

    Raises:
        UsageError: the format is not installed.
        pydantic.ValidationError: the rules are not valid for the format.
    """
    changed = season.rules if season is not None else None
    return _make_format(opened.contest, rules or changed)


def format_of_season(season: Season) -> Format[Any]:
    """Returns the format of an opened contest with the rules in force. Raises like `format_of_round`."""
    if season.opening is None:
        raise ValueError("the contest was not opened")
    return _make_format(season.opening.contest, season.rules)


def _make_format(contest: Mapping[str, Any], rules: Mapping[str, Any] | None) -> Format[Any]:
    """Returns the format that a resolved contest file names, with these rules or the file's own."""
    kind = plugins.load_plugin("formats", contest["format"])
    contest_format: Format[Any] = kind(kind.rules_type.model_validate(rules or contest["rules"]))
    return contest_format


def season_state(contest_format: Format[Any], season: Season, opened: events.RoundOpened) -> SeasonState:
    """Returns the part of a season that affects a round."""
    round_ = RoundOfSeason(opened.round, opened.task.name, season)
    return SeasonState(
        {entry.id: contest_format.eligibility(entry, round_) for entry in season.entries_of_task(round_.task)},
        tuple(event for event, _ in season.format_events),
    )
