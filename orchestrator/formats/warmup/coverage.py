"""Accuracy at 80 % coverage: a defence abstains on the pictures that it is least sure of (rule B3)."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.samples import Labels
from orchestrator.formats.warmup.attacks.base import Scores, predicted_classes

COVERAGE = Fraction(4, 5)


class CoverageReading(StrEnum):
    """How covered pictures are counted: exactly ceil(0.8 n) of them, or as in the code of 2018."""

    EXACT = "exact"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True, eq=False)
class CoveredAccuracy:
    """Which pictures a defence is judged by, and which it classified correctly.

    Args:
        covered: which pictures it is judged by, bool [n].
        correct: which pictures are classified correctly, bool [n].
    """

    covered: NDArray[np.bool_]
    correct: NDArray[np.bool_]

    @property
    def total(self) -> int:
        """How many pictures are covered."""
        return int(self.covered.sum())

    @property
    def held(self) -> int:
        """How many of the covered pictures are classified correctly."""
        return int((self.covered & self.correct).sum())

    @property
    def accuracy(self) -> Fraction:
        """The share of the covered pictures that are classified correctly, exactly."""
        return Fraction(self.held, self.total)


def accuracy_at_coverage(
    scores: Scores, labels: Labels, *, reading: CoverageReading = CoverageReading.EXACT
) -> CoveredAccuracy:
    """Returns the accuracy on the most confident pictures; confidence is the larger of the two scores.

    A picture without two valid scores is always covered, and wrong. With `EXACT`, ceil(0.8 n) pictures are covered, of
    equal confidences the earlier ones, so that equal confidences gain nothing. With `REFERENCE`, as in 2018, the
    confidence of picture number floor(0.8 n) is the threshold, and all that reach it are covered.

    Args:
        scores: two for each picture, f64 [n, 2], NaN where they are missing.
        labels: the true classes [n], 0 or 1.
        reading: how covered pictures are counted.

    Raises:
        ValueError: there are no pictures, or their number is not that of the labels.
    """
    count = len(scores)
    if not count or scores.shape != (len(labels), 2):
        raise ValueError(f"scores of shape {scores.shape} for {len(labels)} labels; two are needed for each picture")
    missing = np.isnan(scores).any(axis=1)
    confidence = np.where(missing, np.inf, scores.max(axis=1))
    # Missing scores first, then the most confident; the sort is stable, so equal ones keep their order.
    ranking = np.lexsort((-confidence, ~missing))
    if reading is CoverageReading.EXACT:
        covered = np.zeros(count, np.bool_)
        covered[ranking[: ceil(COVERAGE * count)]] = True
    else:
        # If the number is 0, the code of 2018 reads the last of the list.
        threshold = confidence[ranking[int(COVERAGE * count) - 1]]
        covered = confidence >= threshold
    return CoveredAccuracy(covered, predicted_classes(scores) == labels)
