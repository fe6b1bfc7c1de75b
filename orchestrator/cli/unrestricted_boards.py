"""Prints the boards of an unrestricted contest. Commands of other contests start faster without these imports."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from orchestrator.application.contests import seasons
from orchestrator.application.contests.unrestricted_contest import open_unrestricted
from orchestrator.application.contests.unrestricted_views import board_table
from orchestrator.cli import console
from orchestrator.cli.console import out, safe_text
from orchestrator.cli.tables import Column, fitting_tables
from orchestrator.domain.leaderboard import Leaderboard
from orchestrator.formats.unrestricted.boards import boards
from orchestrator.scoring.round_scoring import leaderboard_part


def print_standing(folder: Path, day: date | None = None, *, as_json: bool) -> None:
    """Prints the boards of the contest in a folder: now, or at the end of a day. They belong to no round."""
    with open_unrestricted(folder) as contest:
        found = contest.read(boards) if day is None else contest.boards_of_day(day, seasons.now())
    if as_json:
        console.print_json([leaderboard_part(each, {}).model_dump(mode="json") for each in found])
    else:
        _print_boards(found)


def _print_boards(found: Sequence[Leaderboard]) -> None:
    for board in map(board_table, found):
        out.print(f"[bold]{safe_text(board.title)}[/]")
        if not board.rows:
            out.print("none yet")
            continue
        cells = [[safe_text(row[place]) for row in board.rows] for place in range(len(board.heads))]
        last = len(board.heads) - 1
        columns = [
            Column(head.lower(), own, is_number=place not in (1, last), is_sentence=place == last)
            for place, (head, own) in enumerate(zip(board.heads, cells, strict=True))
        ]
        for table in fitting_tables(columns, 1):
            out.print(table)
