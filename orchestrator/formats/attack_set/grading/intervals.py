"""Intervals of human scores (X5): a bootstrap that resamples both raters and pictures."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.formats.attack_set.grading.quality import BEST_GRADE, Grades

DRAWS = 10_000
QUANTILES = (0.025, 0.975)
DIGITS = 6
"""Decimals of an interval's limits."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreDraws:
    """The scores in each bootstrap draw of raters and pictures, f64 [draws, submissions]."""

    quality: NDArray[np.float64]
    human: NDArray[np.float64]


def draw_scores(grades: Grades, valid: NDArray[np.float64], rng: np.random.Generator, draws: int = DRAWS) -> ScoreDraws:
    """Returns Score_quality and Score_H of resampled rounds.

    Each draw takes as many raters and as many pictures as there are, with replacement, and the same ones for every
    submission, so that the intervals of differences benefit from common raters. A draw leaves out a picture if it has
    none of its raters. Whether a picture is valid stays as decided: resampled votes of three raters would change the
    decision more often than other raters would.

    Args:
        grades: f64 [submissions, pictures, raters].
        valid: 1, 0, or NaN for undecided, f64 [submissions, pictures].
        rng: the source of random numbers.
        draws: the number of draws.
    """
    _, pictures, raters = grades.shape
    rater_weights = rng.multinomial(raters, np.full(raters, 1 / raters), draws).astype(np.float64).T
    picture_weights = rng.multinomial(pictures, np.full(pictures, 1 / pictures), draws).astype(np.float64).T
    quality, human = np.empty((draws, len(grades))), np.empty((draws, len(grades)))
    for place, (own, decided) in enumerate(zip(grades, valid, strict=True)):
        present = np.isfinite(own).astype(np.float64)
        counts = present @ rater_weights
        sums = np.nan_to_num(own) @ rater_weights
        weights = picture_weights * (counts > 0)
        means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
        quality[:, place] = _ratio((weights * means).sum(axis=0), BEST_GRADE * weights.sum(axis=0))
        known = np.isfinite(decided).astype(np.float64)
        share = _ratio(np.nan_to_num(decided) @ picture_weights, known @ picture_weights)
        human[:, place] = quality[:, place] * share
    return ScoreDraws(quality, human)


def interval_of(values: NDArray[np.float64]) -> Interval | None:
    """Returns the central 95 % interval of draws, None if there are none."""
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    low, high = np.quantile(known, QUANTILES)
    return round(float(low), DIGITS), round(float(high), DIGITS)


def _ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    ratio: NDArray[np.float64] = np.full(len(above), np.nan)
    return np.divide(above, below, out=ratio, where=below > 0)
