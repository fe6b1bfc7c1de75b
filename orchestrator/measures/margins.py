"""The confidence of a model in its predictions: the noise tolerance of rule C5 for single pictures.

X. Ling et al.: "DEEPSEC: A Uniform Platform for Security Analysis of Deep Learning Model", IEEE S&P 2019, noise
tolerance estimation (NTE), after B. Luo et al., "Towards Imperceptible and Robust Adversarial Example Attacks against
Neural Networks", AAAI 2018.
"""

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SUM_TOLERANCE = 1e-3
"""The largest deviation from 1 of the sum of 32-bit probabilities."""


class Probabilities(StrEnum):
    """How scores become probabilities."""

    SOFTMAX = "softmax"
    """The scores are logits."""
    GIVEN = "given"
    """The scores are probabilities."""


def prediction_margins(
    scores: NDArray[np.floating[Any]], predicted: NDArray[np.integer[Any]], probabilities: Probabilities
) -> NDArray[np.float64]:
    """Returns the probability of the predicted class minus the largest other one, f64 [n], from -1 to 1.

    It is negative if the predicted class does not have the largest score, and NaN if a score is NaN. Infinite logits
    are taken as limits: the classes with the largest one share the probability 1.

    Args:
        scores: floats [n, k] of k >= 2 classes.
        predicted: integers [n], the predicted class of each picture.
        probabilities: whether the scores are logits or probabilities.

    Raises:
        ValueError: the shapes do not match, a class does not exist, or scores given as probabilities are not.
    """
    if scores.ndim != 2 or scores.shape[1] < 2 or predicted.shape != scores.shape[:1]:  # noqa: PLR2004
        raise ValueError(f"scores of shape {scores.shape}, predictions of shape {predicted.shape}")
    if len(predicted) and not 0 <= predicted.min() <= predicted.max() < scores.shape[1]:
        raise ValueError(f"predictions from {predicted.min()} to {predicted.max()} of {scores.shape[1]} classes")
    values = scores.astype(np.float64)
    if probabilities is Probabilities.SOFTMAX:
        values = _softmax(values)
    else:
        _check_probabilities(values)
    rows = np.arange(len(values))
    of_predicted = values[rows, predicted]
    values[rows, predicted] = -1
    margins: NDArray[np.float64] = of_predicted - values.max(axis=1)
    return margins


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns probabilities [n, k]; rows with a NaN are NaN."""
    if not logits.size:
        return logits
    largest = logits.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf, whose result is not used, and -1e308 - 1e308
        powers = np.where(logits == largest, 1.0, np.exp(logits - largest))
    shares: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _check_probabilities(values: NDArray[np.float64]) -> None:
    sums = values.sum(axis=1)
    wrong = (values < 0).any(axis=1) | (values > 1).any(axis=1) | (np.abs(sums - 1) > _SUM_TOLERANCE)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"the scores of picture {row} are no probabilities: their sum is {sums[row]:g}; use softmax")
