"""Structural similarity of 8-bit pictures: SSIM in the readings of rule C4.

Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli: "Image quality assessment: from error visibility to structural
similarity", IEEE Transactions on Image Processing 13(4), 2004, with K1 = 0.01, K2 = 0.03 and L = 255. The readings
differ in the values over which a mean and a variance are taken, and are not interchangeable.
"""

from collections.abc import Callable
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.samples import Pixels

C1 = (0.01 * 255) ** 2
C2 = (0.03 * 255) ** 2
_GAUSSIAN_RADIUS, _GAUSSIAN_SIGMA = 5, 1.5
_UNIFORM_SIDE = 7
_CHUNK_VALUES = 2**20
"""How many values of pictures are processed at a time: a dozen arrays of this size are in memory."""
_Values = NDArray[np.float64]


class Similarity(StrEnum):
    """The values over which a mean, variance and covariance are taken."""

    GLOBAL = "global"
    """All values of a picture, with N - 1."""
    CHANNEL = "channel"
    """All values of a channel, with N - 1; then the mean over the channels."""
    WINDOWED = "windowed"
    """A Gaussian window of 11 x 11, sigma 1.5, at every position where it fits; then the mean over all of them."""
    DEEPSEC = "deepsec"
    """A uniform window of 7 x 7 with N - 1, the default of scikit-image; otherwise as `WINDOWED`.

    It is the window of DEEPSEC's program, whose results differ: it passes values 0..255 as floats, for which
    scikit-image then assumed L = 2.
    """


SMALLEST_SIDE = {Similarity.WINDOWED: 2 * _GAUSSIAN_RADIUS + 1, Similarity.DEEPSEC: _UNIFORM_SIDE}
"""The least height and width of pictures for a reading: the side of its window."""


def structural_similarity(originals: Pixels, candidates: Pixels, reading: Similarity) -> NDArray[np.float64]:
    """Returns the SSIM of each picture and its candidate, f64 [n], from -1 to 1; 1 for equal pictures.

    Args:
        originals: u8 [n, c, h, w].
        candidates: u8 [n, c, h, w].
        reading: the values over which means and variances are taken (C4).

    Raises:
        ValueError: the shapes differ, or pictures are smaller than the window or have a single value.
    """
    if originals.shape != candidates.shape:
        raise ValueError(f"pictures of shape {originals.shape}, candidates of shape {candidates.shape}")
    if problem := size_problem(originals.shape[1:], reading):
        raise ValueError(problem)
    chunk = max(1, _CHUNK_VALUES // originals[0].size) if len(originals) else 1
    found = np.empty(len(originals))
    for begin in range(0, len(originals), chunk):
        part = slice(begin, begin + chunk)
        found[part] = _MEASURES[reading](originals[part].astype(np.float64), candidates[part].astype(np.float64))
    return found


def size_problem(shape: tuple[int, ...], reading: Similarity) -> str:
    """Returns why pictures of shape (c, h, w) have no SSIM in a reading, "" if they have one."""
    _, height, width = shape
    side = SMALLEST_SIDE.get(reading, 1)
    if min(height, width) < side:
        return f"pictures of {width} x {height} are smaller than the window of {side} x {side} of {reading} SSIM"
    if reading is Similarity.CHANNEL and height * width < 2:  # noqa: PLR2004  N - 1
        return f"channels of one value have no variance, which {reading} SSIM needs"
    if np.prod(shape) < 2:  # noqa: PLR2004
        return f"pictures of one value have no variance, which {reading} SSIM needs"
    return ""


def _global(x: _Values, y: _Values) -> _Values:
    return _ssim_of_rows(x.reshape(len(x), -1), y.reshape(len(y), -1))


def _per_channel(x: _Values, y: _Values) -> _Values:
    per_channel = _ssim_of_rows(x.reshape(*x.shape[:2], -1), y.reshape(*y.shape[:2], -1))
    return np.asarray(per_channel.mean(axis=1))


def _ssim_of_rows(x: _Values, y: _Values) -> _Values:
    """Returns the SSIM over the last axis of [..., N]."""
    mean_x, mean_y = x.mean(axis=-1), y.mean(axis=-1)
    x, y = x - mean_x[..., np.newaxis], y - mean_y[..., np.newaxis]
    free = x.shape[-1] - 1
    return _formula(
        mean_x, mean_y, (x * x).sum(axis=-1) / free, (y * y).sum(axis=-1) / free, (x * y).sum(axis=-1) / free
    )


def _windowed(x: _Values, y: _Values) -> _Values:
    places = np.arange(-_GAUSSIAN_RADIUS, _GAUSSIAN_RADIUS + 1)
    weights = np.exp(-0.5 * (places / _GAUSSIAN_SIGMA) ** 2)
    return _ssim_of_windows(x, y, weights / weights.sum(), 1.0)


def _uniform(x: _Values, y: _Values) -> _Values:
    count = _UNIFORM_SIDE**2
    return _ssim_of_windows(x, y, np.full(_UNIFORM_SIDE, 1 / _UNIFORM_SIDE), count / (count - 1))


def _ssim_of_windows(x: _Values, y: _Values, weights: _Values, correction: float) -> _Values:
    """Returns the mean SSIM over all windows inside [n, c, h, w], whose variances are multiplied by a correction."""
    mean_x, mean_y = _window_means(x, weights), _window_means(y, weights)
    variance_x = correction * (_window_means(x * x, weights) - mean_x * mean_x)
    variance_y = correction * (_window_means(y * y, weights) - mean_y * mean_y)
    covariance = correction * (_window_means(x * y, weights) - mean_x * mean_y)
    return np.asarray(_formula(mean_x, mean_y, variance_x, variance_y, covariance).mean(axis=(1, 2, 3)))


def _window_means(values: _Values, weights: _Values) -> _Values:
    """Returns the weighted means of [..., h, w] over all square windows inside, [..., h - k + 1, w - k + 1]."""
    rows, columns = values.shape[-2] - len(weights) + 1, values.shape[-1] - len(weights) + 1
    down: _Values = sum(
        (weight * values[..., at : at + rows, :] for at, weight in enumerate(weights)), start=np.zeros(())
    )
    across: _Values = sum(
        (weight * down[..., at : at + columns] for at, weight in enumerate(weights)), start=np.zeros(())
    )
    return across


def _formula(
    mean_x: _Values, mean_y: _Values, variance_x: _Values, variance_y: _Values, covariance: _Values
) -> _Values:
    alike = (2 * mean_x * mean_y + C1) * (2 * covariance + C2)
    return alike / ((mean_x**2 + mean_y**2 + C1) * (variance_x + variance_y + C2))


_MEASURES: dict[Similarity, Callable[[_Values, _Values], _Values]] = {
    Similarity.GLOBAL: _global,
    Similarity.CHANNEL: _per_channel,
    Similarity.WINDOWED: _windowed,
    Similarity.DEEPSEC: _uniform,
}
