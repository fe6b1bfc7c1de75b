"""Distances between 8-bit pictures, exactly (rule A14).

All arithmetic is on integers: there is no tolerance, so a candidate is within the budget or it is not. It uses the
narrowest type that holds every result, because pictures are large and most of the time is spent on moving memory.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.samples import Pixels
from orchestrator.domain.tasks import Budget, Norm

_SHRINK_FACTOR = 1 - 2.0**-40
"""This factor shrinks by more than the rounding errors of a length and of its quotient can lengthen together."""


def within_budget(originals: Pixels, candidates: Pixels, budget: Budget) -> NDArray[np.bool_]:
    """Returns for each picture [n, ...] whether its candidate keeps the budget, exactly."""
    return judge_candidates(originals, candidates, budget)[0]


def judge_candidates(
    originals: Pixels, candidates: Pixels, budget: Budget
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Returns the result of `within_budget`, and each distance in steps of 1/255, rounded, for display only."""
    if budget.norm is Norm.LINF:
        largest = linf_distance(originals, candidates)
        return largest <= math.floor(budget.epsilon), largest.astype(np.float64)
    squared = l2_distance_squared(originals, candidates)
    return squared <= math.floor(budget.epsilon**2), np.sqrt(squared.astype(np.float64))


def linf_distance(originals: Pixels, candidates: Pixels) -> NDArray[np.int64]:
    """Returns the largest change of any value, per picture, in steps of 1/255."""
    largest: NDArray[np.uint8] = _difference(originals, candidates).max(axis=1, initial=0)
    return largest.astype(np.int64)


def l2_distance_squared(originals: Pixels, candidates: Pixels) -> NDArray[np.int64]:
    """Returns the squared Euclidean length of the change, per picture, in steps of 1/255."""
    difference = _difference(originals, candidates).astype(np.uint16)
    squares: NDArray[np.int64] = (difference * difference).sum(axis=1, dtype=np.int64)  # 255 * 255 fits 16 bits
    return squares


def project_to_budget(originals: Pixels, candidates: Pixels, budget: Budget) -> Pixels:
    """Returns the candidates projected into the budget: clipped per value for Linf, shrunk towards the picture for L2.

    For L2 the values are rounded towards the picture, so that the result is within the budget exactly.
    """
    _require_same_shape(originals, candidates)
    if budget.norm is Norm.LINF:
        epsilon = np.uint8(min(math.floor(budget.epsilon), 255))
        lowest = originals - np.minimum(originals, epsilon)
        highest = originals + np.minimum(~originals, epsilon)  # ~ is 255 minus
        return np.clip(candidates, lowest, highest)
    change = candidates.astype(np.int64) - originals
    one_each = (len(change), *[1] * (change.ndim - 1))
    length = np.sqrt(l2_distance_squared(originals, candidates).astype(np.float64)).reshape(one_each)
    inside = within_budget(originals, candidates, budget).reshape(one_each)
    scale = np.where(inside, 1.0, float(budget.epsilon) / np.maximum(length, 1e-9))
    shrunk = _apply_change(originals, np.fix(change * scale))
    still_inside = within_budget(originals, shrunk, budget).reshape(one_each)
    return _apply_change(originals, np.fix(change * np.where(still_inside, scale, scale * _SHRINK_FACTOR)))


def _apply_change(originals: Pixels, change: NDArray[np.signedinteger[Any]] | NDArray[np.floating[Any]]) -> Pixels:
    moved: Pixels = (originals + change).astype(np.uint8)
    return moved


def _difference(originals: Pixels, candidates: Pixels) -> NDArray[np.uint8]:
    """Returns how much each value changed, [n, values]."""
    _require_same_shape(originals, candidates)
    difference = np.maximum(originals, candidates)
    difference -= np.minimum(originals, candidates)
    return difference.reshape(len(originals), math.prod(originals.shape[1:]))


def _require_same_shape(originals: Pixels, candidates: Pixels) -> None:
    if originals.shape != candidates.shape:
        raise ValueError(f"pictures of shape {originals.shape}, candidates of shape {candidates.shape}")
