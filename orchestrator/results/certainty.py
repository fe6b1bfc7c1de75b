"""How sure the numbers of a round are (X5): intervals of cells and scores, and the ranks that cannot be excluded.

Everything comes from one array a cell: which pictures held. A score is a weighted sum of accuracies (`Row.terms`), so
one picture's contribution to it is the same sum of what held and what did not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.plan import Cell
from orchestrator.domain.standings import Board, Row
from orchestrator.measures import uncertainty

Held = Mapping[Cell, NDArray[np.bool_]]
"""Which pictures held [n], by cell."""
DIGITS = 6
"""Decimals of an interval's limits on record."""


@dataclass(frozen=True, slots=True)
class OfRow:
    """How sure one row of a board is: its score's interval, and its possible ranks where it is ranked."""

    interval: tuple[float, float] | None = None
    ranks: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class OfCell:
    """How sure one cell is: the limits of its accuracy, 0 to 1, and of its delta in points where it has an attack."""

    accuracy: tuple[float, float]
    delta: tuple[float, float] | None = None


def of_board(board: Board, held: Held) -> dict[str, OfRow]:
    """Returns, by submission, how sure each row of a board is."""
    scored = [row for row in board.rows if row.terms]
    ranked = [row for row in scored if row.rank is not None]
    largest = uncertainty.POINTS * max((_most(row) for row in scored), default=1.0)
    ranges: dict[str, tuple[int, int]] = {}
    if ranked:
        parts = np.stack([_contributions(row, held) for row in ranked])
        compared = uncertainty.compare(parts, more_is_better=board.more_is_better, largest=largest)
        ranges = {row.submission: (r.best, r.worst) for row, r in zip(ranked, compared.ranges, strict=True)}
    sure = {}
    for row in scored:
        limits = uncertainty.score(_contributions(row, held), largest=largest)
        sure[row.submission] = OfRow(_pair(limits.low, limits.high), ranges.get(row.submission))
    return sure


def of_cells(cells: list[Cell], held: Held) -> dict[Cell, OfCell]:
    """Returns how sure each cell is."""
    if not cells:
        return {}
    total = len(held[cells[0]])
    counts = np.array([int(held[cell].sum()) for cell in cells])
    accuracies = uncertainty.accuracy(counts, total)
    changes = _changes(cells, held)
    return {
        cell: OfCell(_pair(low, high), changes.get(cell))
        for cell, low, high in zip(cells, accuracies.low, accuracies.high, strict=True)
    }


def _changes(cells: list[Cell], held: Held) -> dict[Cell, tuple[float, float]]:
    """Returns the limits of the deltas of the cells that have one, a defence at a time."""
    found: dict[Cell, tuple[float, float]] = {}
    for defence, group in groupby(sorted(cells, key=_defence), key=_defence):
        attacked = [cell for cell in group if cell.attack is not None]
        clean = held.get(Cell(defence))
        if clean is not None and attacked:
            limits = uncertainty.delta(clean, np.stack([held[cell] for cell in attacked]))
            found |= {c: _pair(low, high) for c, low, high in zip(attacked, limits.low, limits.high, strict=True)}
    return found


def _defence(cell: Cell) -> str:
    return cell.defence


def _most(row: Row) -> float:
    """Returns the most that one picture can contribute to a row, up or down, as a share of 100 points."""
    up = sum(float(weight) for weight in row.terms.values() if weight > 0)
    down = -sum(float(weight) for weight in row.terms.values() if weight < 0)
    return max(up, down)


def _contributions(row: Row, held: Held) -> NDArray[np.float64]:
    total = np.zeros(len(next(iter(held.values()))))
    for cell, weight in row.terms.items():
        total += float(weight) * held[cell]
    contributions: NDArray[np.float64] = uncertainty.POINTS * total
    return contributions


def _pair(low: object, high: object) -> tuple[float, float]:
    return round(float(np.asarray(low)), DIGITS), round(float(np.asarray(high)), DIGITS)
