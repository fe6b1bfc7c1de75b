"""The agreement of raters: Krippendorff's alpha, and the share of equal pairs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Scale = Literal["nominal", "ordinal", "interval"]

TENTATIVE_ALPHA = 0.667
GOOD_ALPHA = 0.8


class AgreementLevel(StrEnum):
    """The quality of an alpha, by Krippendorff's own limits."""

    LOW = "low"
    """Under 0.667: the board carries a warning."""
    TENTATIVE = "tentative"
    GOOD = "good"


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of the raters of the same pictures.

    Args:
        alpha: Krippendorff's alpha; 1 is perfect, 0 is chance. None if all answers are equal or no picture has two.
        raw: the share of pairs of raters of one picture who give the same answer. It explains a low alpha if nearly all
            answers are the same: then alpha is low by construction.
        level: the quality of alpha, None without one.
    """

    alpha: float | None
    raw: float | None
    level: AgreementLevel | None


def measure_agreement(answers: NDArray[np.float64], scale: Scale) -> Agreement:
    """Returns the agreement of answers f64 [pictures, raters], NaN for a missing answer."""
    values = np.unique(answers[np.isfinite(answers)])
    counts = np.array([(answers == value).sum(axis=1) for value in values], np.float64).T
    compared = counts[counts.sum(axis=1) > 1] if len(values) else np.zeros((0, 0))
    if not len(compared):
        return Agreement(None, None, None)
    totals = compared.sum(axis=1)
    raw = float((compared * (compared - 1)).sum() / (totals * (totals - 1)).sum())
    alpha = _alpha(compared, values, scale)
    if alpha is None:
        return Agreement(None, raw, None)
    tentative = AgreementLevel.TENTATIVE if alpha >= TENTATIVE_ALPHA else AgreementLevel.LOW
    return Agreement(alpha, raw, AgreementLevel.GOOD if alpha >= GOOD_ALPHA else tentative)


def _alpha(counts: NDArray[np.float64], values: NDArray[np.float64], scale: Scale) -> float | None:
    """Returns alpha = 1 - observed / expected disagreement, None if all answers are equal.

    Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011, section E.

    Args:
        counts: how often each value was given to each picture, f64 [pictures, values], two in each row at least.
        values: the values, ascending.
        scale: how the distance of two values is defined.
    """
    pairs = np.einsum("uc,uk->uck", counts, counts) - counts[:, :, None] * np.eye(len(values))
    coincidences = (pairs / (counts.sum(axis=1) - 1)[:, None, None]).sum(axis=0)
    frequencies = coincidences.sum(axis=0)
    expected = np.outer(frequencies, frequencies) / (frequencies.sum() - 1)
    if scale == "nominal":
        distances = 1 - np.eye(len(values))
    else:
        # On the ordinal scale a value lies in the middle of the answers that share it.
        middles = values if scale == "interval" else np.cumsum(frequencies) - frequencies / 2
        distances = (middles[:, None] - middles[None, :]) ** 2
    disagreement = float((expected * distances).sum())
    return 1 - float((coincidences * distances).sum()) / disagreement if disagreement else None
