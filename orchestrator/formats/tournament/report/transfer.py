"""The transfer of attacks between defences: the deltas as a grid of marks, and as rows of dots.

Neither uses a scale of colours: the area of a mark is the loss, its shape the direction, and it is filled if the
interval excludes zero. So they can be read in print and by people who see colours differently.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt
from typing import Final

from orchestrator.domain.submissions import Side
from orchestrator.domain.text import printable
from orchestrator.formats.tournament.report import row_limit
from orchestrator.reports import formatting
from orchestrator.scoring.results_file import CellPart, Results, SubmissionPart

MAX_SUBMISSIONS: Final = 40
"""The largest number of submissions of a side that are drawn."""
MARK_SPACING: Final = 22
"""Pixels from one mark of the grid to the next."""
MAX_MARK_SIZE: Final = 18.0
"""The side, in pixels, of the square of the largest delta."""
MAX_LABEL_LENGTH: Final = 22
"""The longest label, in characters, and below it the pixels of a character."""
LETTER_WIDTH: Final = 7.3
GAP: Final = 12
WIDTH, MARGIN = 520, 12
"""The pixels of a row of dots, and of the margin at each end."""
_TICKS = (1, 2, 5, 10, 20, 25, 50)
_MAX_TICKS = 8


@dataclass(frozen=True, slots=True)
class Mark:
    """One cell in the grid; `size` is its side in pixels, `is_significant` whether its interval excludes zero."""

    x: float
    y: float
    size: float
    is_gain: bool
    is_significant: bool
    tooltip: str


@dataclass(frozen=True, slots=True)
class Label:
    """The label of a row or a column of the grid; `middle` is the centre of the row or column, in pixels."""

    text: str
    tooltip: str
    middle: float


@dataclass(frozen=True, slots=True)
class MarkGrid:
    """Rows are defences, the least hurt first; columns are attacks, the strongest first."""

    left: int
    top: int
    width: int
    height: int
    columns: tuple[Label, ...]
    rows: tuple[Label, ...]
    marks: tuple[Mark, ...]
    largest: str


@dataclass(frozen=True, slots=True)
class Dot:
    """One delta in a row of dots."""

    x: float
    is_significant: bool
    tooltip: str


@dataclass(frozen=True, slots=True)
class DotRow:
    """The deltas of one submission.

    `largest` is the largest, `limits` its interval; `significant_losses` counts losses whose interval excludes zero.
    """

    submission: SubmissionPart
    dots: tuple[Dot, ...]
    mean: str
    mean_x: float
    largest: str
    limits: str
    opponent: str
    significant_losses: int
    total: int


@dataclass(frozen=True, slots=True)
class DotPlot:
    """The rows of dots of one side, in the order of their means."""

    side: str
    other: str
    rows: tuple[DotRow, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Everything that is drawn. `ticks` are the positions, in pixels and in percent, and labels of the dots' axis."""

    grid: MarkGrid
    sides: tuple[DotPlot, ...]
    ticks: tuple[tuple[float, float, str], ...]
    zero_x: float
    width: int
    notes: tuple[str, ...]


def transfer_of(results: Results) -> Transfer | None:
    """Returns the plots, None if no attack met a defence whose clean accuracy is known.

    An attack that forfeited every picture says nothing about defences: its cells are left out (A8, A14).
    """
    every = [cell for cell in results.cells if cell.attack is not None and cell.delta is not None]
    cells = [cell for cell in every if cell.forfeits < cell.total]
    members = {side: row_limit.limited_members(results, side, MAX_SUBMISSIONS)[0] for side in Side}
    met = {side: _cells_by_side(side, cells) for side in Side}
    attacks = sorted(_with_cells(members[Side.ATTACK], met[Side.ATTACK]), key=lambda s: -_mean(met[Side.ATTACK][s.id]))
    defences = sorted(
        _with_cells(members[Side.DEFENCE], met[Side.DEFENCE]), key=lambda s: _mean(met[Side.DEFENCE][s.id])
    )
    if not attacks or not defences:
        return None
    low, high, tick = _axis_scale(_delta(cell) for cell in cells)

    def place(delta: float) -> float:
        return round(MARGIN + (WIDTH - 2 * MARGIN) * (delta - low) / (high - low), 1)

    drawn = frozenset(part.id for part in (*attacks, *defences))
    return Transfer(
        grid=_mark_grid(attacks, defences, cells),
        sides=(
            DotPlot("attack", "defence", tuple(_dot_row(a, met[Side.ATTACK][a.id], place, drawn) for a in attacks)),
            DotPlot("defence", "attack", tuple(_dot_row(d, met[Side.DEFENCE][d.id], place, drawn) for d in defences)),
        ),
        ticks=tuple(
            (place(delta), round(100 * place(delta) / WIDTH, 2), formatting.signed(delta, 0))
            for delta in (low + tick * number for number in range(round((high - low) / tick) + 1))
        ),
        zero_x=place(0.0),
        width=WIDTH,
        notes=tuple(_notes(results, every, met)),
    )


def _notes(
    results: Results, every: Sequence[CellPart], met: Mapping[Side, Mapping[str, Sequence[CellPart]]]
) -> Iterable[str]:
    if left_out := row_limit.left_out_note(results, MAX_SUBMISSIONS):
        yield left_out
    void = {cell.attack or "" for cell in every} - met[Side.ATTACK].keys()
    if void:
        yield f"Nothing of these attacks counts, so they are left out: {', '.join(sorted(void))}."
    if any(len({len(cells) for cells in side.values()}) > 1 for side in met.values()):
        yield "Not everybody met everybody in this round: means are over whom each met."


def _mark_grid(
    attacks: Sequence[SubmissionPart], defences: Sequence[SubmissionPart], cells: Iterable[CellPart]
) -> MarkGrid:
    left, top = (_label_width(parts) for parts in (defences, attacks))
    columns = {part.id: left + MARK_SPACING * (number + 0.5) for number, part in enumerate(attacks)}
    rows = {part.id: top + MARK_SPACING * (number + 0.5) for number, part in enumerate(defences)}
    drawn = [cell for cell in cells if cell.attack in columns and cell.defence in rows]
    largest = max((abs(_delta(cell)) for cell in drawn), default=0.0)
    marks = tuple(
        Mark(
            x=columns[cell.attack or ""],
            y=rows[cell.defence],
            size=round(max(MAX_MARK_SIZE * sqrt(abs(_delta(cell)) / largest), 2.0), 1) if _delta(cell) else 0.0,
            is_gain=_delta(cell) < 0,
            is_significant=_is_significant(cell),
            tooltip=_cell_tooltip(cell),
        )
        for cell in drawn
    )
    return MarkGrid(
        left=left,
        top=top,
        width=left + MARK_SPACING * len(columns) + 8,
        height=top + MARK_SPACING * len(rows) + 4,
        columns=tuple(_label(part, columns[part.id]) for part in attacks),
        rows=tuple(_label(part, rows[part.id]) for part in defences),
        marks=marks,
        largest=f"{largest:.1f}",
    )


def _dot_row(
    part: SubmissionPart, cells: Sequence[CellPart], place: Callable[[float], float], drawn: frozenset[str]
) -> DotRow:
    attacking = part.side is Side.ATTACK
    worst = max(cells, key=_delta)
    limits = worst.delta_interval
    dots = (
        Dot(place(_delta(cell)), _is_significant(cell), _cell_tooltip(cell))
        for cell in cells
        if (cell.defence if attacking else cell.attack) in drawn
    )
    return DotRow(
        submission=part,
        dots=tuple(dots),
        mean=formatting.signed(_mean(cells)),
        mean_x=place(_mean(cells)),
        largest=formatting.signed(_delta(worst)),
        limits="" if limits is None else f"{formatting.signed(limits[0])} to {formatting.signed(limits[1])}",
        opponent=worst.defence if attacking else worst.attack or "",
        significant_losses=sum(_is_significant(cell) and _delta(cell) > 0 for cell in cells),
        total=len(cells),
    )


def _axis_scale(deltas: Iterable[float]) -> tuple[float, float, float]:
    """Returns both ends of an axis that contains zero and every delta, at multiples of the tick, and the tick."""
    values = (0.0, *deltas)
    low, high = min(values), max(values)
    tick = float(next((t for t in _TICKS if (high - low) / t <= _MAX_TICKS), _TICKS[-1]))
    return tick * floor(low / tick), tick * max(ceil(high / tick), floor(low / tick) + 1), tick


def _cells_by_side(side: Side, cells: Iterable[CellPart]) -> dict[str, list[CellPart]]:
    found: dict[str, list[CellPart]] = {}
    for cell in cells:
        found.setdefault(cell.defence if side is Side.DEFENCE else cell.attack or "", []).append(cell)
    return found


def _with_cells(parts: Iterable[SubmissionPart], met: dict[str, list[CellPart]]) -> list[SubmissionPart]:
    return [part for part in parts if part.id in met]


def _label_width(parts: Iterable[SubmissionPart]) -> int:
    """Returns the pixels that the longest label needs."""
    return GAP + ceil(LETTER_WIDTH * max(len(_label_text(part)) for part in parts))


def _label_text(part: SubmissionPart) -> str:
    return printable(part.id, MAX_LABEL_LENGTH - 2) + " B" if part.baseline else printable(part.id, MAX_LABEL_LENGTH)


def _label(part: SubmissionPart, at: float) -> Label:
    return Label(_label_text(part), f"{part.id}, {part.team}" + (", baseline" if part.baseline else ""), at)


def _delta(cell: CellPart) -> float:
    return cell.delta or 0.0


def _mean(cells: Sequence[CellPart]) -> float:
    return sum(map(_delta, cells)) / len(cells)


def _is_significant(cell: CellPart) -> bool:
    """Returns whether the interval of a delta excludes zero."""
    return cell.delta_interval is not None and not cell.delta_interval[0] <= 0 <= cell.delta_interval[1]


def _cell_tooltip(cell: CellPart) -> str:
    change = (
        f"lost {formatting.signed(_delta(cell))}" if _delta(cell) >= 0 else f"gained {formatting.signed(-_delta(cell))}"
    )
    limits = cell.delta_interval
    sure = "" if limits is None else f", 95 % interval {formatting.signed(limits[0])} to {formatting.signed(limits[1])}"
    return f"{cell.defence} against {cell.attack}: {change} points{sure}"
