"""How sure the numbers of a round are (X5): intervals of cells and scores, and the ranks that cannot be excluded.

Everything comes from one array a cell: which pictures held. A score is a weighted sum of accuracies (`Row.terms`), so
one picture's contribution to it is the same sum of what held and what did not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.leaderboard import Leaderboard, Row
from orchestrator.domain.plan import Cell
from orchestrator.measures import uncertainty

CorrectPictures = Mapping[Cell, NDArray[np.bool_]]
"""Which pictures held [n], by cell."""
DIGITS = 6
"""Decimals of an interval's limits on record."""


@dataclass(frozen=True, slots=True)
class RowIntervals:
    """How sure one row of a board is: its score's interval, and its possible ranks where it is ranked."""

    interval: tuple[float, float] | None = None
    ranks: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class CellIntervals:
    """How sure one cell is: the limits of its accuracy, 0 to 1, and of its delta in points where it has an attack."""

    accuracy: tuple[float, float]
    delta: tuple[float, float] | None = None


def leaderboard_intervals(board: Leaderboard, held: CorrectPictures) -> dict[str, RowIntervals]:
    """Returns, by submission, how sure each row of a board is."""
    scored = [row for row in board.rows if row.terms]
    ranked = [row for row in scored if row.rank is not None]
    largest = uncertainty.MAX_DELTA_POINTS * max((_largest_contribution(row) for row in scored), default=1.0)
    ranges: dict[str, tuple[int, int]] = {}
    if ranked:
        parts = np.stack([_contributions(row, held) for row in ranked])
        compared = uncertainty.compare_rows(parts, more_is_better=board.more_is_better, largest=largest)
        ranges = {row.submission: (r.best, r.worst) for row, r in zip(ranked, compared.ranges, strict=True)}
    sure = {}
    for row in scored:
        limits = uncertainty.score_intervals(_contributions(row, held), largest=largest)
        sure[row.submission] = RowIntervals(_rounded_pair(limits.low, limits.high), ranges.get(row.submission))
    return sure


def cell_intervals(cells: list[Cell], held: CorrectPictures) -> dict[Cell, CellIntervals]:
    """Returns how sure each cell is."""
    if not cells:
        return {}
    total = len(held[cells[0]])
    counts = np.array([int(held[cell].sum()) for cell in cells])
    accuracies = uncertainty.accuracy_intervals(counts, total)
    changes = _delta_intervals(cells, held)
    return {
        cell: CellIntervals(_rounded_pair(low, high), changes.get(cell))
        for cell, low, high in zip(cells, accuracies.low, accuracies.high, strict=True)
    }


def _delta_intervals(cells: list[Cell], held: CorrectPictures) -> dict[Cell, tuple[float, float]]:
    """Returns the limits of the deltas of the cells that have one, a defence at a time."""
    found: dict[Cell, tuple[float, float]] = {}
    for defence, group in groupby(sorted(cells, key=_defence_of), key=_defence_of):
        attacked = [cell for cell in group if cell.attack is not None]
        clean = held.get(Cell(defence))
        if clean is not None and attacked:
            limits = uncertainty.delta_intervals(clean, np.stack([held[cell] for cell in attacked]))
            found |= {
                c: _rounded_pair(low, high) for c, low, high in zip(attacked, limits.low, limits.high, strict=True)
            }
    return found


def _defence_of(cell: Cell) -> str:
    return cell.defence


def _largest_contribution(row: Row) -> float:
    """Returns the most that one picture can contribute to a row, up or down, as a share of 100 points."""
    up = sum(float(weight) for weight in row.terms.values() if weight > 0)
    down = -sum(float(weight) for weight in row.terms.values() if weight < 0)
    return max(up, down)


def _contributions(row: Row, held: CorrectPictures) -> NDArray[np.float64]:
    total = np.zeros(len(next(iter(held.values()))))
    for cell, weight in row.terms.items():
        total += float(weight) * held[cell]
    contributions: NDArray[np.float64] = uncertainty.MAX_DELTA_POINTS * total
    return contributions


def _rounded_pair(low: object, high: object) -> tuple[float, float]:
    return round(float(np.asarray(low)), DIGITS), round(float(np.asarray(high)), DIGITS)
