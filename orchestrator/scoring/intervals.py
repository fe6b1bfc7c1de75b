"""The uncertainty of a round's numbers (X5): intervals of cells and scores, and the ranks that cannot be excluded.

All are computed from one array for each cell: which pictures held. A score is a weighted sum of accuracies
(`Row.score_terms`), so one picture's contribution to it is the same sum over whether it held, 0 or 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.leaderboard import Leaderboard, ScoreTerms
from orchestrator.domain.plan import Cell
from orchestrator.measures import uncertainty
from orchestrator.scoring.picture_bits import PictureBits

DIGITS = 6
"""Decimals of an interval's limits."""


@dataclass(frozen=True, slots=True)
class RowIntervals:
    """The uncertainty of one row of a leaderboard: its score's interval, and its possible ranks if it is ranked."""

    interval: tuple[float, float] | None = None
    ranks: tuple[int, int] | None = None
    values: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The intervals of the other columns, by name, if they have one."""


@dataclass(frozen=True, slots=True)
class CellIntervals:
    """The intervals of one cell: of its accuracy, 0 to 1, and of its delta in points, None without an attack."""

    accuracy: tuple[float, float]
    delta: tuple[float, float] | None = None


def leaderboard_intervals(board: Leaderboard, correct: PictureBits) -> dict[str, RowIntervals]:
    """Returns the intervals of each row of a leaderboard, by submission."""
    scored = [row for row in board.rows if row.score_terms]
    ranked = [row for row in scored if row.rank is not None]
    largest = largest_points([row.score_terms for row in scored])
    by_row = {row.submission: contributions(row.score_terms, correct.stack(row.score_terms)) for row in scored}
    ranges: dict[str, tuple[int, int]] = {}
    if ranked:
        parts = np.stack([by_row[row.submission] for row in ranked])
        compared = uncertainty.compare_rows(parts, more_is_better=board.more_is_better, largest=largest)
        ranges = {row.submission: (r.best, r.worst) for row, r in zip(ranked, compared.ranges, strict=True)}
    values = _value_intervals(board, correct)
    sure = {}
    for row in board.rows:
        interval = _interval(by_row[row.submission], largest) if row.score_terms else row.interval
        sure[row.submission] = RowIntervals(interval, ranges.get(row.submission), values.get(row.submission, {}))
    return sure


def _value_intervals(board: Leaderboard, correct: PictureBits) -> dict[str, dict[str, tuple[float, float]]]:
    """Returns the intervals of the columns besides the score, by submission and column."""
    intervals: dict[str, dict[str, tuple[float, float]]] = {}
    for column in board.columns:
        values = {row.submission: row.values[column.name] for row in board.rows if column.name in row.values}
        largest = largest_points(value.terms for value in values.values())
        for submission, value in values.items():
            interval = value.interval
            if value.terms:
                interval = _interval(contributions(value.terms, correct.stack(value.terms)), largest)
            if interval is not None:
                intervals.setdefault(submission, {})[column.name] = interval
    return intervals


def _interval(parts: NDArray[np.float64], largest: float) -> tuple[float, float]:
    return rounded_limits(uncertainty.score_intervals(parts, largest=largest))


def rounded_limits(limits: uncertainty.Intervals) -> tuple[float, float]:
    """Returns the rounded limits of one interval."""
    return round(float(limits.low), DIGITS), round(float(limits.high), DIGITS)


def largest_points(every: Iterable[ScoreTerms]) -> float:
    """Returns the largest contribution of one picture to any of these numbers, in points."""
    largest = max((_largest_contribution(terms) for terms in every if terms), default=1.0)
    return uncertainty.MAX_DELTA_POINTS * (largest or 1.0)


def cell_intervals(
    cells: Iterable[Cell], correct: PictureBits, attacked: Mapping[Cell, NDArray[np.bool_]]
) -> dict[Cell, CellIntervals]:
    """Returns the intervals of each cell. `attacked` has the pictures [n] of cells that do not have all of them."""
    intervals: dict[Cell, CellIntervals] = {}
    same_pictures: dict[tuple[str, bytes], list[Cell]] = {}
    for cell in cells:
        pictures = attacked[cell].tobytes() if cell in attacked else b""
        same_pictures.setdefault((cell.defence, pictures), []).append(cell)
    for (defence, _), group in same_pictures.items():
        mask = attacked.get(group[0], slice(None))
        held = correct.stack(group)[:, mask]
        accuracies = _rounded_pairs(uncertainty.accuracy_intervals(np.count_nonzero(held, axis=1), held.shape[1]))
        changes: Sequence[tuple[float, float] | None] = [None] * len(group)
        if (clean := Cell(defence)) in correct:
            changes = _rounded_pairs(uncertainty.delta_intervals(correct[clean][mask], held))
        for cell, accuracy, change in zip(group, accuracies, changes, strict=True):
            intervals[cell] = CellIntervals(accuracy, change if cell.attack is not None else None)
    return intervals


def _largest_contribution(terms: ScoreTerms) -> float:
    """Returns the largest contribution of one picture to a number, up or down, as a share of 100 points."""
    weights = _float_weights(terms)
    up = sum(weight for weight in weights if weight > 0)
    down = -sum(weight for weight in weights if weight < 0)
    return max(up, down)


def _float_weights(terms: ScoreTerms) -> list[float]:
    """Returns the weights of terms as floats, in their order. It converts each Fraction once, since this is slow."""
    different = {id(weight): weight for weight in terms.values()}
    floats = {name: float(weight) for name, weight in different.items()}
    return [floats[id(weight)] for weight in terms.values()]


def contributions(terms: ScoreTerms, correct: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Returns the contribution of each picture to a number, in points [n]; the number is their mean.

    `correct` says which pictures held in the cells of `terms`, in their order [m, n].
    """
    points: NDArray[np.float64] = np.einsum("m,mn->n", _float_weights(terms), correct)
    return uncertainty.MAX_DELTA_POINTS * points


def _rounded_pairs(limits: uncertainty.Intervals) -> list[tuple[float, float]]:
    """Returns the rounded limits of several intervals [m]."""
    pairs = zip(limits.low.tolist(), limits.high.tolist(), strict=True)
    return [(round(low, DIGITS), round(high, DIGITS)) for low, high in pairs]
