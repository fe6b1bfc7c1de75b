"""Anchors: originals that the software distorts so much that every attentive rater sees it."""

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.samples import Pixels

NOISE = 64.0
"""Standard deviation of strong noise, in steps of 1/255."""
LIGHT_NOISE = 24.0
"""Standard deviation of the noise on coarse pixels; without it, those of a uniform picture would not differ from it."""
COARSE_SIDES = 8
"""The intended number of coarse pixels along the shorter side of a picture."""


def distort(original: Pixels, rng: np.random.Generator) -> Pixels:
    """Returns an anchor u8 [c, h, w]: with equal probability strong noise, or coarse pixels with some noise."""
    if rng.integers(2):
        return _noisy(original.astype(np.float64), NOISE, rng)
    return _noisy(_coarse(original), LIGHT_NOISE, rng)


def _coarse(original: Pixels) -> NDArray[np.float64]:
    """Returns the picture with every block of pixels replaced by its mean, f64 [c, h, w]."""
    _, height, width = original.shape
    block = max(2, min(height, width) // COARSE_SIDES)
    rows, columns = np.arange(height) // block, np.arange(width) // block
    down = np.add.reduceat(original.astype(np.float64), np.arange(0, height, block), axis=1)
    sums = np.add.reduceat(down, np.arange(0, width, block), axis=2)
    sizes = np.outer(np.bincount(rows), np.bincount(columns))
    means: NDArray[np.float64] = (sums / sizes)[:, rows[:, None], columns[None, :]]
    return means


def _noisy(values: NDArray[np.float64], deviation: float, rng: np.random.Generator) -> Pixels:
    noisy = values + rng.normal(0, deviation, values.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
