"""Selects the submissions that a page shows if there are too many: the baselines, then the best."""

from orchestrator.domain.submissions import Side
from orchestrator.scoring.results_file import Results, SubmissionPart


def limited_members(results: Results, side: Side, most: int) -> tuple[list[SubmissionPart], int]:
    """Returns at most `most` submissions of a side, in their order, and how many are left out.

    It keeps baselines first, then those with the best rank on any leaderboard, and submissions without a rank last.
    """
    everybody = [part for part in results.submissions if part.side is side]
    if len(everybody) <= most:
        return everybody, 0
    ranks: dict[str, int] = {}
    for row in (row for board in results.boards for row in board.rows if row.rank is not None):
        ranks[row.submission] = min(row.rank or 0, ranks.get(row.submission, len(everybody)))
    ranking = sorted(everybody, key=lambda part: (not part.baseline, ranks.get(part.id, len(everybody) + 1)))
    members = {part.id for part in ranking[:most]}
    return [part for part in everybody if part.id in members], len(everybody) - most


def left_out_note(results: Results, most: int) -> str:
    """Returns a note that some submissions are left out, "" if none are."""
    left = [(side.value, limited_members(results, side, most)[1]) for side in Side]
    parts = [f"{most:,} of {most + number:,} {name}s" for name, number in left if number]
    return f"Shown are {' and '.join(parts)}: the baselines and the best. All cells are in cells.csv." if parts else ""
