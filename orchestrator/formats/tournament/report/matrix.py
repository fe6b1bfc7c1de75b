"""The matrix: clean pictures and every attack against every defence."""

from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from orchestrator.domain.submissions import Side
from orchestrator.formats.tournament.report import row_limit
from orchestrator.reports import colours, formatting
from orchestrator.scoring.results_file import CellPart, Results, SubmissionPart

MAX_SUBMISSIONS: Final = 60
"""The largest number of submissions of a side that the page shows; cells.csv has all."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One cell as shown. `colour_step` is its position on the colour scale; `tooltip` describes it in words."""

    state: Literal["played", "pending", "absent"]
    tooltip: str
    colour_step: int = 0
    accuracy: str = ""
    is_loss: bool = False
    delta: str = ""


@dataclass(frozen=True, slots=True)
class HeaderGroup:
    """Adjacent rows or columns of one kind: the organizers' baselines, or the teams' submissions."""

    title: str
    members: tuple[SubmissionPart, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """The matrix in display order: a row for each attack, its cells in the order of `column_groups`.

    `clean` is the first row, for clean pictures; it belongs to no group.
    """

    column_groups: tuple[HeaderGroup, ...]
    clean: tuple[MatrixCell, ...]
    row_groups: tuple[tuple[HeaderGroup, tuple[tuple[SubmissionPart, tuple[MatrixCell, ...]], ...]], ...]
    column_count: int
    pending: int
    left_out: str


def matrix_of(results: Results) -> Matrix:
    """Returns the matrix. A cell that is not in the results is pending until the round is complete, then absent."""
    cells = {(cell.attack, cell.defence): cell for cell in results.cells}
    columns = _header_groups(results, Side.DEFENCE)
    defences = [part.id for group in columns for part in group.members]

    def cells_of(attack: str | None) -> tuple[MatrixCell, ...]:
        return tuple(_cell(cells.get((attack, defence)), attack, defence, results) for defence in defences)

    clean = cells_of(None)
    groups = tuple(
        (group, tuple((part, cells_of(part.id)) for part in group.members))
        for group in _header_groups(results, Side.ATTACK)
    )
    rows = (clean, *(row for _, members in groups for _, row in members))
    pending = sum(cell.state == "pending" for row in rows for cell in row)
    left_out = row_limit.left_out_note(results, MAX_SUBMISSIONS)
    return Matrix(columns, clean, groups, len(defences) + 1, pending, left_out)


def _header_groups(results: Results, side: Side) -> tuple[HeaderGroup, ...]:
    members = sorted(row_limit.limited_members(results, side, MAX_SUBMISSIONS)[0], key=lambda s: not s.baseline)
    return tuple(
        HeaderGroup("baselines" if baseline else "submissions", tuple(group))
        for baseline, group in groupby(members, key=lambda s: s.baseline)
    )


def _cell(cell: CellPart | None, attack: str | None, defence: str, results: Results) -> MatrixCell:
    against = "clean pictures" if attack is None else attack
    if cell is not None:
        return _played_cell(cell, against)
    if results.complete:
        return MatrixCell("absent", f"{defence} against {against}: not part of this round")
    return MatrixCell("pending", f"{defence} against {against}: not played yet")


def _played_cell(cell: CellPart, against: str) -> MatrixCell:
    credited = 0 if cell.not_played else cell.held
    accuracy = formatting.percent(credited, cell.total)
    description = (
        f"{cell.defence} against {against}: {accuracy} correct, {credited:,} of "
        f"{formatting.counted_noun(cell.total, 'picture')}; "
        f"held {cell.held:,}, fooled {cell.fooled:,}, abstained {cell.abstained:,}; "
        f"forfeits {cell.forfeits:,}, faults {cell.faults:,}"
    )
    if cell.not_played:
        description += f"; {cell.not_played:,} not played, so that nothing counts as correct (A7)"
    fell = False
    delta = ""
    if cell.delta is not None:
        delta = f"{abs(cell.delta):.1f}"
        fell = cell.delta > 0 and float(delta) > 0
        description += f"; delta {formatting.signed(cell.delta, 2)} points"
    return MatrixCell(
        "played", description, colours.step(credited / cell.total if cell.total else 0.0), accuracy, fell, delta
    )
