"""Assigns pictures to raters in balanced incomplete blocks.

A rater's own level (strict or lenient) is the largest error of a mean grade, and more pictures do not reduce it. If
every rater grades equally many pictures of every submission, the error is the same for all submissions and cancels out
in differences.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

Seat = tuple[str, str, int]
"""Rater, submission, position: one picture that one rater grades."""


def draw_positions(picture_count: int, wanted: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Returns `wanted` random positions of a task, ascending."""
    return tuple(sorted(int(position) for position in rng.permutation(picture_count)[:wanted]))


def assign_raters(
    submissions: Sequence[str],
    positions: Sequence[int],
    raters: Sequence[str],
    raters_per_picture: int,
    rng: np.random.Generator,
) -> list[Seat]:
    """Returns who grades which picture of which submission, in random order.

    Every picture of every submission gets `raters_per_picture` different raters. A rater gets the same number of
    pictures of every submission; the numbers of two raters differ by at most one. The pictures change from submission
    to submission, so that a rater gets each position about equally often, and together with different raters.
    """
    places = np.arange(len(raters))
    each, left_over = divmod(len(positions) * raters_per_picture, len(raters))
    quota = each + (rng.permutation(len(raters)) < left_over)
    met = np.zeros((max(positions) + 1, len(raters)), np.int64)
    seats: list[Seat] = []
    for submission in rng.permutation(len(submissions)):
        left = quota.copy()
        for rest, position in zip(range(len(positions), 0, -1), rng.permutation(positions), strict=True):
            # A rater with as many seats left as pictures has to take each, or would get one twice at the end.
            order = np.lexsort((rng.permutation(places), -left, met[position], left == 0, left < rest))
            chosen = order[:raters_per_picture]
            left[chosen] -= 1
            met[position, chosen] += 1
            seats += [(raters[rater], submissions[submission], int(position)) for rater in chosen]
    return seats


def draw_least_seen(positions: Sequence[int], count: int, seen: Counter[int], rng: np.random.Generator) -> list[int]:
    """Returns `count` of the positions that were seen least, and adds them to `seen`; none twice before all are."""
    drawn: list[int] = []
    while len(drawn) < count:
        mixed = [int(position) for position in rng.permutation(positions)]
        fewest = sorted(mixed, key=lambda position: seen[position])[: count - len(drawn)]
        seen.update(fewest)
        drawn += fewest
    return drawn
