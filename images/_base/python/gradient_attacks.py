"""FGSM, BIM and PGD within an Linf ball: one loop, a few lines each.

Each step follows the sign of the gradient of the cross-entropy with respect to the picture, then returns to the ball
and to [0, 1]. All in float32; the result is uint8 and keeps the budget exactly (rule A14).

- FGSM, one step: Goodfellow, Shlens, Szegedy 2015, arXiv:1412.6572.
- BIM, several smaller steps: Kurakin, Goodfellow, Bengio 2017, arXiv:1607.02533.
- PGD, the same from a random start: Madry et al. 2018, arXiv:1706.06083.

`epsilon` is in steps of 1/255, pixels are uint8 [n, c, h, w], labels int [n], or None where the contest hides them:
then the network's own predictions stand in.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from sparring_models import device, loss_gradient, pictures
from torch import nn

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]


def fgsm(network: nn.Module, pixels: Pixels, labels: Labels | None, epsilon: float) -> Pixels:
    """Returns the pixels after one step of size epsilon."""
    return _climb(network, pixels, labels, epsilon, step=epsilon, steps=1)


def bim(network: nn.Module, pixels: Pixels, labels: Labels | None, epsilon: float, steps: int = 10) -> Pixels:
    """Returns the pixels after `steps` steps of size epsilon / 4."""
    return _climb(network, pixels, labels, epsilon, step=epsilon / 4, steps=steps)


def pgd(
    network: nn.Module,
    pixels: Pixels,
    labels: Labels | None,
    epsilon: float,
    *,
    rng: np.random.Generator,
    steps: int = 20,
) -> Pixels:
    """Returns the pixels after `steps` steps of size epsilon / 4 from a start drawn uniformly from the ball."""
    start = rng.uniform(-epsilon, epsilon, pixels.shape)
    return _climb(network, pixels, labels, epsilon, step=epsilon / 4, steps=steps, start=start)


def _climb(
    network: nn.Module,
    pixels: Pixels,
    labels: Labels | None,
    epsilon: float,
    *,
    step: float,
    steps: int,
    start: NDArray[np.float64] | None = None,
) -> Pixels:
    centre = pictures(pixels)
    low, high = (centre - epsilon / 255).clamp(min=0), (centre + epsilon / 255).clamp(max=1)
    target = network(centre).argmax(1) if labels is None else torch.from_numpy(labels).to(device())
    x = centre
    if start is not None:
        x = (x + torch.from_numpy(start / 255).to(device()).float()).clamp(low, high)
    for _ in range(steps):
        x = (x + step / 255 * loss_gradient(network, x, target).sign()).clamp(low, high)
    rounded = (x * 255).round().cpu().numpy().astype(np.int16)
    # Where epsilon is no whole number, rounding could leave the ball by half a step.
    reach = int(epsilon)
    return np.clip(rounded, pixels.astype(np.int16) - reach, pixels.astype(np.int16) + reach).astype(np.uint8)
