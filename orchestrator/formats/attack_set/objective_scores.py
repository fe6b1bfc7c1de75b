"""The scores that need no raters: attack success rate, similarity and noise tolerance (rules C3 to C6)."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.outcomes import Answers
from orchestrator.domain.samples import Labels
from orchestrator.formats.attack_set.grading.intervals import Interval, interval_of
from orchestrator.formats.attack_set.rules import CountReading, NteReading

PERCENT = 100
DECIMALS = 6
"""Decimals of a mean of real numbers."""
DRAWS = 2000
"""Bootstrap samples for an interval."""
BOOTSTRAP_SEED = 20240004
"""The seed of the bootstrap of measured and of human scores, so that everybody computes the same."""


@dataclass(frozen=True, slots=True, eq=False)
class PictureScores:
    """The measures of each picture of one submission; all arrays [n].

    Attributes:
        counted: which pictures count (C3).
        fooled: which pictures the hidden model misclassifies.
        similarity: the SSIM of original and submitted picture.
        margin: the probability of the predicted class less the largest other one.
        nte: the contest's reading of the noise tolerance (C5).
    """

    counted: NDArray[np.bool_]
    fooled: NDArray[np.bool_]
    similarity: NDArray[np.float64]
    margin: NDArray[np.float64]
    nte: NteReading

    @property
    def successful(self) -> NDArray[np.bool_]:
        """Which pictures are successes [n]."""
        return self.counted & self.fooled

    @property
    def success_rate(self) -> Fraction:
        """ASR (C3), exactly; 0 if no picture counts."""
        return Fraction(int(self.successful.sum()), int(self.counted.sum()) or 1)

    @property
    def mean_similarity(self) -> float | None:
        """Mean SSIM of the successful pictures (C4), None without a success."""
        return _mean(self.similarity, self.successful)

    @property
    def noise_tolerance(self) -> float | None:
        """NTE (C5) by the contest's reading, None if it is a mean over no picture."""
        return _mean(self.margin, self.tolerance_pictures)

    @property
    def fooled_tolerance(self) -> float | None:
        """The mean margin of the successful pictures."""
        return _mean(self.margin, self.successful)

    @property
    def unfooled_tolerance(self) -> float | None:
        """The mean margin of the counted pictures that do not fool the hidden model."""
        return _mean(self.margin, self.counted & ~self.fooled)

    @property
    def score(self) -> float:
        """Score_M = 100 x ASR x SSIM x NTE (C6); 0 without a success (C3)."""
        similarity, tolerance = self.mean_similarity, self.noise_tolerance
        return (
            0.0 if similarity is None or tolerance is None else 100 * float(self.success_rate) * similarity * tolerance
        )

    @property
    def tolerance_pictures(self) -> NDArray[np.bool_]:
        """Which pictures the noise tolerance is a mean over [n]."""
        return self.successful if self.nte is NteReading.SUCCESSFUL else self.counted


@dataclass(frozen=True, slots=True)
class ScoreIntervals:
    """95 % intervals, by a bootstrap over pictures; None if there is nothing to draw from."""

    success_rate: Interval | None
    similarity: Interval | None
    noise_tolerance: Interval | None
    score: Interval | None


def picture_scores(
    answers: Answers,
    labels: Labels,
    clean_answers: Answers | None,
    margins: NDArray[np.float64],
    similarity: NDArray[np.float64],
    *,
    count: CountReading,
    nte: NteReading,
) -> PictureScores:
    """Returns the measures of each picture.

    A picture that the hidden model gives no answer on counts as fooled, with the margin 0.

    Args:
        answers: the hidden model's answers on the submitted pictures [n].
        labels: the true classes [n].
        clean_answers: the hidden model's answers on the originals [n]; needed only for `CountReading.CORRECT`.
        margins: the margins of the hidden model's probabilities [n], NaN where it gave none.
        similarity: SSIM [n].
        count: which pictures count.
        nte: which pictures the noise tolerance is a mean over.

    Raises:
        ValueError: answers on the originals are needed, and missing.
    """
    counted = np.ones(len(labels), np.bool_)
    if count is CountReading.CORRECT:
        if clean_answers is None:
            raise ValueError("which pictures were classified correctly before is not known")
        counted = clean_answers == labels
    return PictureScores(counted, answers != labels, similarity, np.nan_to_num(margins, nan=0.0), nte)


def bootstrap_intervals(scores: PictureScores) -> ScoreIntervals:
    """Returns the intervals of the scores under resampling of pictures. Every caller draws the same samples."""
    count = len(scores.counted)
    drawn = np.random.default_rng(BOOTSTRAP_SEED).integers(0, count, (DRAWS, count))
    counted, successful = scores.counted[drawn].sum(axis=1), scores.successful[drawn].sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = successful / counted
        similarity = np.where(scores.successful, scores.similarity, 0.0)[drawn].sum(axis=1) / successful
        rated = scores.tolerance_pictures
        tolerance = np.where(rated, scores.margin, 0.0)[drawn].sum(axis=1) / rated[drawn].sum(axis=1)
        total = np.where(successful == 0, 0.0, 100 * rate * similarity * tolerance)
    return ScoreIntervals(*(interval_of(values) for values in (rate, similarity, tolerance, total)))


def _mean(values: NDArray[np.float64], chosen: NDArray[np.bool_]) -> float | None:
    return float(values[chosen].mean()) if chosen.any() else None


def rounded(number: float | None) -> Fraction | None:
    """Returns a mean rounded to `DECIMALS` decimals, as leaderboards have it."""
    return None if number is None else Fraction(f"{number:.{DECIMALS}f}")


def percent_limits(limits: Interval | None) -> Interval | None:
    """Returns an interval of a share in percent. Rounding removes what the product adds to the limits' digits."""
    return None if limits is None else (round(PERCENT * limits[0], DECIMALS), round(PERCENT * limits[1], DECIMALS))
