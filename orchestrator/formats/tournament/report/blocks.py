"""The blocks that the tournament adds to report pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.domain.submissions import Side
from orchestrator.formats.tournament.report import row_limit
from orchestrator.formats.tournament.report.matrix import MAX_SUBMISSIONS, matrix_of
from orchestrator.formats.tournament.report.transfer import transfer_of
from orchestrator.reports import formatting
from orchestrator.reports.blocks import Block, ReportBlocks
from orchestrator.reports.markdown import escape_markdown, table_lines
from orchestrator.scoring.results_file import CellPart, Results


@dataclass(frozen=True, slots=True)
class OpponentCell:
    """One of a submission's cells, formatted as text. `opponent` is empty for clean pictures.

    `counts` are held, fooled, abstained, forfeits, faults, not played, and all pictures.
    """

    opponent: str
    accuracy: str
    delta: str
    limits: str
    counts: tuple[str, ...]


class TournamentBlocks(ReportBlocks):
    """The matrix and the transfer on a round's page, and cells on a team's page."""

    def round_blocks(self, results: Results) -> Sequence[Block]:
        """Returns the matrix, and the transfer if attacks were played."""
        blocks = [Block("matrix", "Matrix", "tournament/matrix.html.j2", {"matrix": matrix_of(results)}, on_index=True)]
        if (transfer := transfer_of(results)) is not None:
            blocks.append(Block("transfer", "Transfer", "tournament/transfer.html.j2", {"transfer": transfer}))
        return blocks

    def blocks_by_submission(self, results: Results) -> Mapping[str, Sequence[Block]]:
        """Returns a block with the cells of each submission, by id."""
        cells: dict[str, list[OpponentCell]] = {}
        for cell in results.cells:
            against_attack = _opponent_cell(cell)
            cells.setdefault(cell.defence, []).append(against_attack)
            if cell.attack is not None:
                cells.setdefault(cell.attack, []).append(replace(against_attack, opponent=cell.defence))
        parts = {part.id: part for part in results.submissions}
        return {
            name: [Block("cells", "Cells", "tournament/cells.html.j2", {"cells": own, "submission": parts[name]})]
            for name, own in cells.items()
        }

    def markdown_sections(self, results: Results) -> Sequence[str]:
        """Returns the matrix as a table: accuracies in percent, and the points lost against clean pictures."""
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
        """Returns the explanations of the tournament's terms."""
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


def _opponent_cell(cell: CellPart) -> OpponentCell:
    """Returns a cell as the page of the defence's team shows it."""
    counts = (cell.held, cell.fooled, cell.abstained, cell.forfeits, cell.faults, cell.not_played, cell.total)
    return OpponentCell(
        opponent=cell.attack or "",
        accuracy=formatting.percent(cell.held, cell.total),
        delta="" if cell.delta is None else formatting.signed(cell.delta),
        limits="" if cell.delta_interval is None else " to ".join(map(formatting.signed, cell.delta_interval)),
        counts=tuple(f"{count:,}" for count in counts),
    )


def _cell_text(cell: CellPart | None) -> str:
    if cell is None:
        return ""
    accuracy = formatting.percent(cell.held, cell.total)
    return accuracy if cell.delta is None else f"{accuracy} ({formatting.signed(cell.delta)})"
