"""How many submissions a team has left, so that it knows before it submits (rules A1, A4, C9)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Side
from orchestrator.errors import Problem
from orchestrator.intake.contest_file import Contest


@dataclass(frozen=True, slots=True)
class TriesLeft:
    """How many submissions a team has left on one side of a task.

    `used` and `allowed` count the whole contest (A4), `used_today` and `allowed_today` one day in UTC (C9); what is
    allowed is None without a limit. `waiting` counts the team's arrivals on this task without an outcome: each may use
    up one. `problems` are the reasons why no submission on this side would be received now.
    """

    task: str
    side: Side
    used: int
    allowed: int | None
    used_today: int
    allowed_today: int | None
    waiting: int
    problems: tuple[Problem, ...]


def utc_day(time: datetime) -> str:
    """Returns the day of a time in UTC, such as "2026-11-23"."""
    return time.astimezone(UTC).date().isoformat()


def tries_left(season: Season, contest: Contest, team: str, now: datetime) -> Iterator[TriesLeft]:
    """Yields what a team has left now on each task and side."""
    rules = contest.format
    sides = (Side.ATTACK,) if rules.picture_formats() else rules.programs
    waiting = [arrival.task for arrival in season.pending_arrivals.values() if arrival.team == team]
    for task in (task.name for task in contest.file.all_tasks):
        for side in sides:
            yield TriesLeft(
                task,
                side,
                used=season.count_attempts(team, task, side),
                allowed=rules.submissions_per_team(),
                used_today=season.count_on_day(team, task, utc_day(now)),
                allowed_today=rules.submissions_per_day(),
                waiting=waiting.count(task),
                problems=tuple(rules.entry_problems(season, team, task, side)),
            )
