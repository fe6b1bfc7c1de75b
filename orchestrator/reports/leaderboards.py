"""The boards as pages show them, each line with its submission and team."""

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.scoring.results_file import LeaderboardPart, Results, RowPart


@dataclass(frozen=True, slots=True)
class SubmissionLabel:
    """The labels of a submission. `name` is empty if it equals the id, `date` if it is not known."""

    id: str
    name: str = ""
    team: str = ""
    side: str = ""
    baseline: bool = False
    date: str = ""


@dataclass(frozen=True, slots=True)
class LeaderboardLine:
    """One line of a board. `bar_width` is the length of the score's bar, 0 to 100."""

    row: RowPart
    submission: SubmissionLabel
    is_tied: bool
    bar_width: float


@dataclass(frozen=True, slots=True)
class LeaderboardView:
    """A board as pages show it. `side` is "" if it has submissions of both sides."""

    part: LeaderboardPart
    side: str
    ranked: tuple[LeaderboardLine, ...]
    unranked: tuple[LeaderboardLine, ...]


def submission_labels(results: Results) -> dict[str, SubmissionLabel]:
    """Returns the labels of each submission by its id."""
    return {
        s.id: SubmissionLabel(
            s.id, "" if s.name == s.id else s.name, s.team, s.side.value, s.baseline, s.submitted[:10]
        )
        for s in results.submissions
    }


def leaderboard_view(board: LeaderboardPart, labels: Mapping[str, SubmissionLabel]) -> LeaderboardView:
    """Returns a board as pages show it. A submission that is not in `labels` is shown by its id."""
    longest = max((abs(row.score) for row in board.rows if row.score is not None), default=0.0)
    ranks = [row.rank for row in board.rows if row.rank is not None]
    lines = [
        LeaderboardLine(
            row=row,
            submission=labels.get(row.submission) or SubmissionLabel(row.submission),
            is_tied=row.rank is not None and ranks.count(row.rank) > 1,
            bar_width=round(100 * max(row.score or 0.0, 0.0) / longest, 1) if longest else 0.0,
        )
        for row in board.rows
    ]
    sides = {line.submission.side for line in lines}
    side = sides.pop() if len(sides) == 1 else ""
    return LeaderboardView(
        part=board,
        side=side,
        ranked=tuple(line for line in lines if line.row.rank is not None),
        unranked=tuple(line for line in lines if line.row.rank is None),
    )
