"""The uncertainty of numbers that were measured on n pictures: intervals, comparisons, rank ranges (feature X5).

The sample is the pictures: they are drawn independently, and every submission gets all of them, so all comparisons are
paired by picture. Every score of a leaderboard is a mean over pictures of each picture's contribution. Correlations
between cells (a hard picture, a common defence) are in the contributions, so no model of them is needed. Methods,
references and measured coverage: docs/statistics.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

CONFIDENCE_LEVEL = 0.95
"""The probability that an interval covers the true value, and that a whole leaderboard has no wrong comparison."""
MAX_DELTA_POINTS = 100.0
"""The largest contribution of one picture to a delta, in percentage points, up or down."""
_ROUNDING_TOLERANCE = 1e-9
"""How much rounding may add to a contribution, relative to the largest."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Confidence intervals, in the unit of the estimated value.

    Args:
        low: lower limits, f64 [...].
        high: upper limits, of the same shape; never below `low`.
    """

    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class RankRange:
    """The ranks of one row that the pictures cannot exclude, both included; 1 is the first."""

    best: int
    worst: int


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The comparisons of every two rows of a leaderboard, in the order in which the rows were given.

    Args:
        p_values: f64 [m, m], adjusted for all comparisons of the leaderboard; symmetric, 1 on the diagonal.
        better: bool [m, m]; `better[i, j]` says that row i is significantly better than row j.
        ranges: one for each row; with the probability of the level all of them contain the true ranks.
    """

    p_values: Floats
    better: NDArray[np.bool_]
    ranges: tuple[RankRange, ...]


def accuracy_intervals(held: ArrayLike, total: int, *, level: float = CONFIDENCE_LEVEL) -> Intervals:
    """Returns Wilson's intervals of accuracies, 0 to 1.

    Args:
        held: how many pictures were classified correctly, integers [...].
        total: the number of pictures.
        level: the probability that such an interval covers the accuracy.

    Raises:
        ValueError: `held` is not between 0 and `total`, or `total` is not positive.

    Wilson 1927; recommended by Newcombe 1998 and by Brown, Cai and DasGupta 2001.
    """
    from scipy.special import ndtri  # noqa: PLC0415  takes a quarter of a second to import

    counts = np.asarray(held)
    if total < 1 or (counts < 0).any() or (counts > total).any():
        raise ValueError(f"{counts.tolist()} held of {total} pictures")
    share, square = counts / total, ndtri((1 + level) / 2) ** 2
    middle = (share + square / (2 * total)) / (1 + square / total)
    spread = np.sqrt((share * (1 - share) + square / (4 * total)) * square / total) / (1 + square / total)
    low, high = np.where(counts == 0, 0.0, middle - spread), np.where(counts == total, 1.0, middle + spread)
    return Intervals(low, high)


def delta_intervals(clean: ArrayLike, attacked: ArrayLike, *, level: float = CONFIDENCE_LEVEL) -> Intervals:
    """Returns the intervals of deltas in percentage points, paired on the same pictures.

    Args:
        clean: whether each clean picture was held, bool [..., n].
        attacked: whether the same picture was held after the attack, bool [..., n].
        level: the probability that such an interval covers the delta.

    Raises:
        ValueError: the arrays are not boolean, differ in the number of pictures, or have none.

    Bonett and Price 2012, with Student's t instead of the normal distribution; the same as `score_intervals` of the
    contributions.
    """
    before, after = np.asarray(clean), np.asarray(attacked)
    if before.dtype != np.bool_ or after.dtype != np.bool_:
        raise ValueError(f"clean is {before.dtype} and attacked is {after.dtype}: both must be bool")
    if before.shape[-1:] != after.shape[-1:]:
        raise ValueError(f"clean pictures of shape {before.shape}, attacked ones of shape {after.shape}")
    lost = (before & ~after).sum(axis=-1, dtype=np.float64)
    won = (~before & after).sum(axis=-1, dtype=np.float64)
    sums = _Sums(_count_pictures(before), lost - won, lost + won, lost + won)
    return sums.intervals(MAX_DELTA_POINTS, level)


def score_intervals(
    contributions: ArrayLike, *, largest: float = MAX_DELTA_POINTS, level: float = CONFIDENCE_LEVEL
) -> Intervals:
    """Returns the intervals of scores, in the unit of the contributions.

    Args:
        contributions: the contribution of each picture, [..., n]; the score is the mean over the last axis.
        largest: the most that a picture can contribute, up or down.
        level: the probability that such an interval covers the score.

    Raises:
        ValueError: there are no pictures, or a contribution is not a number within `largest`.

    Student's t of the contributions and of two added pictures that cancel each other out. If all contributions are 0 or
    `largest`, this is the method of Bonett and Price 2012; docs/statistics.md says how large the added pictures are
    otherwise, and why.
    """
    parts = _scaled_contributions(contributions, largest)
    return _Sums.from_contributions(parts).intervals(largest, level)


def compare_rows(
    contributions: ArrayLike,
    *,
    more_is_better: bool,
    largest: float = MAX_DELTA_POINTS,
    level: float = CONFIDENCE_LEVEL,
) -> Comparison:
    """Returns the comparisons of every two rows of a leaderboard, paired by picture.

    Args:
        contributions: the contribution of each picture to each row, [m, n]; the rows in board order.
        more_is_better: whether a larger mean is the better score.
        largest: the most that a picture can contribute, up or down.
        level: one minus the probability that any comparison of the leaderboard is decided wrongly.

    Raises:
        ValueError: the array has no pictures or not two axes, or a contribution is not a number within `largest`.

    The test of two rows is that of `score_intervals` on their differences. All pairs, each in both directions, are one
    family (Holm 1979), since the same pictures decide which rows are neighbours. A rank range excludes the ranks of
    rows that are significantly better or worse (Mogstad, Romano, Shaikh and Wilhelm 2024). No row is significantly
    better without a better score, so a rank by score is always inside its range.
    """
    from scipy.special import stdtr  # noqa: PLC0415  takes a quarter of a second to import

    parts = _scaled_contributions(contributions, largest)
    if parts.ndim != 2:  # noqa: PLR2004
        raise ValueError(f"contributions of shape {parts.shape}: rows and pictures are needed")
    rows = len(parts)
    first, second = np.triu_indices(rows, 1)
    # One row against all later rows at a time: all pairs at once would be m^2 n numbers.
    each = [_Sums.from_contributions(parts[row] - parts[row + 1 :]).statistics() for row in range(rows)]
    statistics = np.concatenate([*each, np.empty(0)])
    adjusted = _holm_adjusted(stdtr(_count_pictures(parts) + 1, -np.abs(statistics)))
    p_values = np.ones((rows, rows))
    p_values[first, second] = p_values[second, first] = adjusted
    ahead = np.zeros((rows, rows))
    ahead[first, second], ahead[second, first] = statistics, -statistics
    better = (p_values <= 1 - level) & (ahead > 0 if more_is_better else ahead < 0)
    ranges = [RankRange(1 + int(better[:, row].sum()), rows - int(better[row].sum())) for row in range(rows)]
    return Comparison(p_values, better, tuple(ranges))


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums of powers of the contributions of n pictures, as shares of the largest: all that Student's t needs."""

    pictures: int
    first: Floats
    squares: Floats
    fourths: Floats

    @classmethod
    def from_contributions(cls, parts: Floats) -> "_Sums":
        powers = parts * parts
        squares = powers.sum(axis=-1)
        powers *= powers
        return cls(_count_pictures(parts), parts.sum(axis=-1), squares, powers.sum(axis=-1))

    def statistics(self) -> Floats:
        """Returns Student's t against a mean of zero, with n + 1 degrees of freedom."""
        mean, error = self._regularised_mean_and_error()
        return mean / error

    def intervals(self, largest: float, level: float) -> Intervals:
        from scipy.special import stdtrit  # noqa: PLC0415  takes a quarter of a second to import

        mean, error = self._regularised_mean_and_error()
        width = stdtrit(self.pictures + 1, (1 + level) / 2) * error
        low, high = (
            np.asarray(np.clip(limit, -1.0, 1.0) * largest, np.float64) for limit in (mean - width, mean + width)
        )
        return Intervals(low, high)

    def _regularised_mean_and_error(self) -> tuple[Floats, Floats]:
        """Returns the mean and standard error over the pictures and two added ones, +size and -size.

        The added size is a typical size of contributions that vary, computed with one of the largest size among them:
        as long as there is little data, any contribution may follow.
        """
        size_squared = (self.fourths + 1) / (self.squares + 1)
        count = self.pictures + 2
        mean = self.first / count
        variance = (self.squares + 2 * size_squared - self.first * mean) / (count - 1)
        return mean, np.sqrt(variance / count)


def _holm_adjusted(one_sided_p_values: Floats) -> Floats:
    """Returns Holm's adjusted p-values of comparisons, each tested in both directions.

    Args:
        one_sided_p_values: the smaller of each comparison's two one-sided p-values, [k]. The other one is at least a
            half, comes after all of these, and is never rejected, but counts in the family of 2k.
    """
    permutation = np.argsort(one_sided_p_values, kind="stable")
    factors = 2 * len(one_sided_p_values) - np.arange(len(one_sided_p_values))
    adjusted = np.empty(len(one_sided_p_values))
    adjusted[permutation] = np.minimum(1.0, np.maximum.accumulate(factors * one_sided_p_values[permutation]))
    return adjusted


def _scaled_contributions(contributions: ArrayLike, largest: float) -> Floats:
    """Returns contributions as shares of the largest."""
    parts = np.asarray(contributions, np.float64) / largest
    _count_pictures(parts)
    if not (np.abs(parts) <= 1 + _ROUNDING_TOLERANCE).all():
        worst = float(parts.flat[np.argmax(np.abs(parts))]) * largest
        raise ValueError(f"a contribution of {worst}; the largest is {largest}")
    return parts


def _count_pictures(parts: NDArray[np.generic]) -> int:
    if parts.ndim == 0 or parts.shape[-1] == 0:
        raise ValueError(f"contributions of shape {parts.shape}: there are no pictures")
    return int(parts.shape[-1])
