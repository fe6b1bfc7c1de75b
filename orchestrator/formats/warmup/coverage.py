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
    """Which pictures are covered: exactly ceil(0.8 n) of them, or as the code of 2018 counted."""

    EXACT = "exact"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True, eq=False)
class CoveredAccuracy:
    """What a defence got right among the pictures that it is judged by.

    Args:
        covered: which pictures these are, bool [n].
        correct: which of all pictures are classified correctly, bool [n].
    """

    covered: NDArray[np.bool_]
    correct: NDArray[np.bool_]

    @property
    def accuracy(self) -> Fraction:
        """The share of the covered pictures that are classified correctly, exactly."""
        return Fraction(int((self.covered & self.correct).sum()), int(self.covered.sum()))

    @property
    def full_accuracy(self) -> Fraction:
        """The share of all pictures that are classified correctly."""
        return Fraction(int(self.correct.sum()), len(self.correct))


def accuracy_at_coverage(
    scores: Scores, labels: Labels, *, reading: CoverageReading = CoverageReading.EXACT, coverage: Fraction = COVERAGE
) -> CoveredAccuracy:
    """Returns the accuracy on the most confident pictures; confidence is the larger of the two scores.

    A picture without two valid scores is always covered, and wrong. Exactly, ceil(coverage x n) pictures are covered,
    and among equal confidences the earlier ones, so that equal confidences gain nothing. In the reading of 2018 the
    confidence of picture number floor(coverage x n) is the threshold, and all that reach it are covered.

    Args:
        scores: two for each picture, f64 [n, 2], NaN where they are missing.
        labels: the true classes [n], 0 or 1.
        reading: which of the two.
        coverage: the share that is covered.

    Raises:
        ValueError: there are no pictures, or not as many labels.
    """
    count = len(scores)
    if not count or scores.shape != (len(labels), 2):
        raise ValueError(f"scores of shape {scores.shape} for {len(labels)} labels; two are needed for each picture")
    missing = np.isnan(scores).any(axis=1)
    confidence = np.where(missing, np.inf, scores.max(axis=1))
    # Missing ones first, then the most confident; the sort is stable, so that equal ones keep their order.
    ranking = np.lexsort((-confidence, ~missing))
    if reading is CoverageReading.EXACT:
        covered = np.zeros(count, np.bool_)
        covered[ranking[: ceil(coverage * count)]] = True
    else:
        # The code of 2018 reads the last of the list where the number is 0.
        threshold = confidence[ranking[int(coverage * count) - 1]]
        covered = confidence >= threshold
    return CoveredAccuracy(covered, predicted_classes(scores) == labels)
