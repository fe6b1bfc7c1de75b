"""Which blocks the tournament adds to which page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.domain.submissions import Side
from orchestrator.formats.tournament.report import row_limit
from orchestrator.formats.tournament.report.matrix import MAX_SUBMISSIONS, matrix_of
from orchestrator.formats.tournament.report.transfer import transfer_of
from orchestrator.reports import formatting
from orchestrator.reports.blocks import Block, ReportBlocks
from orchestrator.reports.markdown import escape_markdown, table_lines
from orchestrator.scoring.results_file import CellPart, Results, SubmissionPart


@dataclass(frozen=True, slots=True)
class OpponentCell:
    """One of a submission's cells. `opponent` is empty for clean pictures."""

    part: CellPart
    opponent: str
    accuracy: str
    delta: str
    limits: str


class TournamentBlocks(ReportBlocks):
    """Matrix and transfer on a round's page, cells on a team's."""

    def round_blocks(self, results: Results) -> Sequence[Block]:
        """Returns the matrix, and where attacks were played also how they transfer."""
        blocks = [Block("matrix", "Matrix", "tournament/matrix.html.j2", {"matrix": matrix_of(results)}, on_index=True)]
        if (transfer := transfer_of(results)) is not None:
            blocks.append(Block("transfer", "Transfer", "tournament/transfer.html.j2", {"transfer": transfer}))
        return blocks

    def submission_blocks(self, results: Results, submission: SubmissionPart) -> Sequence[Block]:
        """Returns a submission's cells, against whom it met."""
        cells = [_opponent_cell(cell, submission) for cell in _cells_of(results, submission)]
        values = {"cells": cells, "submission": submission}
        return [Block("cells", "Cells", "tournament/cells.html.j2", values)] if cells else []

    def markdown_sections(self, results: Results) -> Sequence[str]:
        """Returns accuracy in percent, and the points lost against clean pictures."""
        cells = {(cell.attack, cell.defence): cell for cell in results.cells}
        attacks = [part.id for part in row_limit.limited_members(results, Side.ATTACK, MAX_SUBMISSIONS)[0]]
        defences = [part.id for part in row_limit.limited_members(results, Side.DEFENCE, MAX_SUBMISSIONS)[0]]
        rows = (
            (
                "clean pictures" if attack is None else escape_markdown(attack),
                *(_cell_text(cells.get((attack, defence))) for defence in defences),
            )
            for attack in (None, *attacks)
        )
        left_out = row_limit.left_out_note(results, MAX_SUBMISSIONS)
        return [
            "### Matrix",
            "",
            "Accuracy of each defence, and in brackets the points that it lost to the attack.",
            "",
            *([left_out, ""] if left_out else []),
            *table_lines(("Attack", *map(escape_markdown, defences)), rows),
        ]

    def terms(self) -> Sequence[tuple[str, str]]:
        """Returns the tournament's words."""
        return (
            (
                "Delta",
                (
                    "Accuracy on clean pictures minus accuracy against an attack, on the same pictures, in percentage "
                    "points: from 80% to 60% is 20 (A11). An attack wants it large, a defence small."
                ),
            ),
            (
                "Rank and tie",
                (
                    "Equal scores rank by fewer violations, then by the earlier submission. What is still equal shares "
                    "a rank, written with “=” (A16)."
                ),
            ),
            ("Baseline", "A submission of the organizers. It meets everybody and is never ranked (A3)."),
        )


def _cells_of(results: Results, submission: SubmissionPart) -> Iterator[CellPart]:
    return (cell for cell in results.cells if submission.id in (cell.attack, cell.defence))


def _opponent_cell(cell: CellPart, part: SubmissionPart) -> OpponentCell:
    defending = cell.defence == part.id
    return OpponentCell(
        part=cell,
        opponent=(cell.attack or "") if defending else cell.defence,
        accuracy=formatting.percent(cell.held, cell.total),
        delta="" if cell.delta is None else formatting.signed(cell.delta),
        limits="" if cell.delta_interval is None else " to ".join(map(formatting.signed, cell.delta_interval)),
    )


def _cell_text(cell: CellPart | None) -> str:
    if cell is None:
        return ""
    accuracy = formatting.percent(cell.held, cell.total)
    return accuracy if cell.delta is None else f"{accuracy} ({formatting.signed(cell.delta)})"
