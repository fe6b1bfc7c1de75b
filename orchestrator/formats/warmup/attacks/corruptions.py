"""Common corruptions: noise, blur, light and coarse pixels, each of the mildest severity.

Hendrycks and Dietterich 2019, "Benchmarking Neural Network Robustness to Common Corruptions and Perturbations",
arXiv:1903.12261. Of their corruptions these are the ones that need no pictures of frost or snow, no camera model and no
file format; the amounts are those of severity 1 for ImageNet.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from orchestrator.formats.warmup.attacks.base import Attack, AttackResult, AttackSteps, Floats, margins

_NOISE, _SPECKLE, _PHOTONS, _IMPULSES = 0.08, 0.15, 60.0, 0.03
_BLUR_PIXELS, _BRIGHTER, _CONTRAST, _COARSENESS = 1.0, 0.1, 0.4, 0.6
_HALF = 0.5

Corruption = Callable[[Floats, np.random.Generator], Floats]


def gaussian_noise(picture: Floats, rng: np.random.Generator) -> Floats:
    """Returns a picture [c, h, w] with normal noise on every value."""
    return _cut(picture + rng.normal(0, _NOISE, picture.shape))


def speckle_noise(picture: Floats, rng: np.random.Generator) -> Floats:
    """Returns a picture with noise that grows with the value."""
    return _cut(picture * (1 + rng.normal(0, _SPECKLE, picture.shape)))


def shot_noise(picture: Floats, rng: np.random.Generator) -> Floats:
    """Returns a picture with the Poisson noise of few photons."""
    return _cut(rng.poisson(np.clip(picture, 0, 1) * _PHOTONS) / _PHOTONS)


def impulse_noise(picture: Floats, rng: np.random.Generator) -> Floats:
    """Returns a picture in which some values are replaced by black or white."""
    struck, white = rng.random(picture.shape) < _IMPULSES, rng.random(picture.shape) < _HALF
    return _cut(np.where(struck, white, picture))


def gaussian_blur(picture: Floats, rng: np.random.Generator) -> Floats:
    """Returns a blurred picture; its edge values are repeated beyond the edge. Nothing is drawn at random."""
    del rng
    reach = int(4 * _BLUR_PIXELS)
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * _BLUR_PIXELS**2))
    weights /= weights.sum()
    blurred = np.pad(picture.astype(np.float64), ((0, 0), (reach, reach), (reach, reach)), mode="edge")
    for axis in (1, 2):
        length = blurred.shape[axis] - 2 * reach
        shifted = (np.take(blurred, range(at, at + length), axis) for at in range(len(weights)))
        blurred = sum(weight * part for weight, part in zip(weights, shifted, strict=True))
    return _cut(blurred)


def brightness(picture: Floats, rng: np.random.Generator) -> Floats:
    """Returns a brighter picture; nothing is drawn at random."""
    del rng
    return _cut(picture + _BRIGHTER)


def contrast(picture: Floats, rng: np.random.Generator) -> Floats:
    """Returns a picture whose values are nearer to the mean of their channel. Nothing is drawn at random."""
    del rng
    mean = picture.mean(axis=(1, 2), keepdims=True)
    return _cut((picture - mean) * _CONTRAST + mean)


def pixelate(picture: Floats, rng: np.random.Generator) -> Floats:
    """Returns a picture of fewer, larger pixels; nothing is drawn at random."""
    del rng
    _, height, width = picture.shape
    coarse = max(1, int(width * _COARSENESS)), max(1, int(height * _COARSENESS))
    channels = []
    for channel in picture:
        small = Image.fromarray(channel, "F").resize(coarse, Image.Resampling.BOX)
        channels.append(np.asarray(small.resize((width, height), Image.Resampling.NEAREST)))
    return _cut(np.stack(channels))


CORRUPTIONS: dict[str, Corruption] = {
    "gaussian_noise": gaussian_noise,
    "speckle_noise": speckle_noise,
    "shot_noise": shot_noise,
    "impulse_noise": impulse_noise,
    "gaussian_blur": gaussian_blur,
    "brightness": brightness,
    "contrast": contrast,
    "pixelate": pixelate,
}
"""The corruptions by name, in the order in which they are tried."""


class CommonCorruptions(Attack):
    """Tries every corruption. The one with the largest margin for the wrong class is judged, fooled or not."""

    def attack(self, picture: Floats, label: int, rng: np.random.Generator) -> AttackSteps:
        """See `Attack.attack`."""
        corrupted = np.stack([corrupt(picture, rng) for corrupt in CORRUPTIONS.values()])
        losses = -margins((yield corrupted), label)
        return AttackResult(corrupted[int(losses.argmax())])


def _cut(values: NDArray[np.floating]) -> Floats:
    cut: Floats = np.clip(values, 0, 1).astype(np.float32)
    return cut
