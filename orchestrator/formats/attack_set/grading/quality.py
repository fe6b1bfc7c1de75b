"""Quality from grades (C7): the plain mean, which ranks, and estimates that account for raters' own levels.

Grades are f64 [submissions, pictures, raters], 1 to 5, NaN for a missing grade.
"""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Grades = NDArray[np.float64]

BEST_GRADE = 5
HUMAN_WEIGHT, MEASURED_WEIGHT = Fraction(3, 5), Fraction(2, 5)
"""The weights of Score_H and Score_M in Score (C8)."""
_ITERATIONS = 1000
_TOLERANCE = 1e-8
_SMALLEST_VARIANCE = 1e-8
_TIE_DIGITS = 9


def exact_quality(grades: Grades) -> Fraction | None:
    """Returns Score_quality of one submission's grades [pictures, raters], or None if there is no grade.

    A picture's quality is the mean of its grades. The score is the sum of these divided by 5 n, for n graded pictures.
    """
    means = [Fraction(int(np.nansum(row)), int(np.isfinite(row).sum())) for row in grades if np.isfinite(row).any()]
    return sum(means, Fraction(0)) / (BEST_GRADE * len(means)) if means else None


def mean_quality(grades: Grades) -> NDArray[np.float64]:
    """Returns `exact_quality` of each submission as f64 [submissions], NaN without a grade, for any real grades."""
    present = np.isfinite(grades)
    counts = present.sum(axis=2)
    sums = np.where(present, grades, 0.0).sum(axis=2)
    pictures = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    graded = (counts > 0).sum(axis=1)
    totals = pictures.sum(axis=1)
    scores = np.full(len(grades), np.nan)
    scores[graded > 0] = totals[graded > 0] / (BEST_GRADE * graded[graded > 0])
    return scores


def bias_corrected(grades: Grades, planned: NDArray[np.bool_]) -> Grades:
    """Returns the grades less each rater's mean plus the grand mean (in the manner of ITU-T P.913).

    Both means are over the grades that the round's plan asked for, since only in these every rater graded equally many
    pictures of every submission. Raters without such grades are not corrected.

    Args:
        grades: all grades.
        planned: which of them the round's plan asked for, of the same shape.
    """
    own = np.where(planned & np.isfinite(grades), grades, np.nan)
    counts = np.isfinite(own).sum(axis=(0, 1))
    if not counts.any():
        return grades
    grand = np.nanmean(own)
    means = np.divide(np.nansum(own, axis=(0, 1)), counts, out=np.full(len(counts), grand), where=counts > 0)
    corrected: Grades = grades - means + grand
    return corrected


def differential(grades: Grades, originals: NDArray[np.float64]) -> Grades:
    """Returns grade - the rater's mean grade of hidden originals [raters] + 5: the hidden-reference scale."""
    return grades - originals + BEST_GRADE


def project_alternately(grades: Grades) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Returns qualities [pictures], biases [raters] and inconsistencies [raters] of grades [pictures, raters].

    The maximum likelihood model of Li, Bampis, Krasula, Janowski and Katsavounidis (A simple model for subject
    behaviour in subjective experiments, 2020), solved by alternating projection as there: a grade is the picture's
    quality, plus the rater's bias, plus noise of the rater's inconsistency. Biases have mean 0. Every picture and
    every rater must have a grade.
    """
    present = np.isfinite(grades)
    known = np.where(present, grades, 0.0)
    per_rater = present.sum(axis=0)
    quality = known.sum(axis=1) / present.sum(axis=1)

    def residuals(of: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(present, known - of, 0.0)

    bias = residuals(quality[:, None]).sum(axis=0) / per_rater
    deviation = np.zeros_like(bias)
    for _ in range(_ITERATIONS):
        left = residuals(quality[:, None] + bias)
        centre = left.sum(axis=0) / per_rater
        deviation = np.sqrt(np.maximum(0.0, (left**2).sum(axis=0) / per_rater - centre**2))
        weights = present / (deviation**2 + _SMALLEST_VARIANCE)
        before, quality = quality, (weights * residuals(bias[None, :])).sum(axis=1) / weights.sum(axis=1)
        bias = residuals(quality[:, None]).sum(axis=0) / per_rater
        if np.linalg.norm(quality - before) < _TOLERANCE:
            break
    return quality + bias.mean(), bias - bias.mean(), deviation


def model_quality(grades: Grades) -> NDArray[np.float64]:
    """Returns Score_quality [submissions] from the qualities that the model estimates, NaN without a grade."""
    flat = grades.reshape(grades.shape[0] * grades.shape[1], grades.shape[2])
    rows, columns = np.isfinite(flat).any(axis=1), np.isfinite(flat).any(axis=0)
    qualities = np.full(len(flat), np.nan)
    if rows.any():
        qualities[rows] = project_alternately(flat[rows][:, columns])[0]
    return mean_quality(qualities.reshape(*grades.shape[:2], 1))


def ranks(scores: Mapping[str, float | Fraction]) -> dict[str, int]:
    """Returns the ranks, the best score first; equal scores share a rank."""
    rounded = {name: round(float(score), _TIE_DIGITS) for name, score in scores.items()}
    return {name: 1 + sum(other > score for other in rounded.values()) for name, score in rounded.items()}


def not_robust(*estimates: Mapping[str, float | Fraction]) -> frozenset[str]:
    """Returns the submissions whose rank differs between these estimates of their scores."""
    every = [ranks(scores) for scores in estimates]
    return frozenset(name for name in every[0] if len({ranking[name] for ranking in every}) > 1)


def total_score(human: Fraction, measured: Fraction, human_scale: int) -> Fraction:
    """Returns 0.6 x Score_H + 0.4 x Score_M (C8).

    Args:
        human: Score_H, 0 to 1.
        measured: Score_M, 0 to 100.
        human_scale: 100 for the same scale as Score_M; 1 for the formula as it is written.
    """
    return HUMAN_WEIGHT * human_scale * human + MEASURED_WEIGHT * measured
