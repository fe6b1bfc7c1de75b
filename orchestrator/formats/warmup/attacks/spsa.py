"""SPSA: Adam with gradients that are estimated from scores alone, within an Linf ball around the picture.

Uesato, O'Donoghue, van den Oord and Kohli 2018, "Adversarial Risk and the Dangers of Evaluating Against Weak Attacks",
arXiv:1802.05666, with the sizes of the warm-up of 2018.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from orchestrator.formats.warmup.attacks.base import Attack, AttackResult, AttackSteps, Floats, margins

_FIRST_DECAY, _SECOND_DECAY, _TINY = 0.9, 0.999, 1e-9
"""The constants of Adam, as in the reference."""


class StopReading(StrEnum):
    """Which picture an early stop returns: that of one more step, as coded in 2018, or the one that stopped it."""

    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Spsa(Attack):
    """Decreases the margin of a picture's class, with gradients estimated from pairs of mirrored questions.

    Args:
        epsilon: the largest change of any value, on a scale from 0 to 1.
        steps: the largest number of steps.
        samples: the number of pictures that estimate one gradient, even: random signs and their mirror images.
        delta: the distance of these from the picture; they may lie outside the ball and outside 0 to 1.
        learning_rate: Adam's step size.
        stop_margin: it stops once the margin is below minus this.
        stop: which picture is judged if it stops early.
    """

    epsilon: float
    steps: int = 200
    samples: int = 64
    delta: float = 0.01
    learning_rate: float = 0.01
    stop_margin: float = 1.0
    stop: StopReading = StopReading.BEFORE

    def __post_init__(self) -> None:
        """Raises ValueError if `samples` is not a positive even number."""
        if self.samples < 2 or self.samples % 2:  # noqa: PLR2004  a pair
            raise ValueError(f"samples is {self.samples}; an even number of at least 2 is needed")

    def attack(self, picture: Floats, label: int, rng: np.random.Generator) -> AttackSteps:
        """See `Attack.attack`."""
        start = picture.astype(np.float64)
        change = self._project(start, rng.uniform(-self.epsilon, self.epsilon, picture.shape))
        adam = _Adam(change.shape)
        for _ in range(self.steps):
            signs = np.sign(rng.uniform(-1, 1, (self.samples // 2, *picture.shape)))
            signs = np.concatenate([signs, -signs])
            asked = np.concatenate([start + change + self.delta * signs, (start + change)[None]])
            losses = margins((yield asked.astype(np.float32)), label)
            stops = losses[-1] < -self.stop_margin
            if stops and self.stop is StopReading.BEFORE:
                break
            gradient = np.tensordot(losses[:-1], signs, 1) / self.samples
            change = self._project(start, change - self.learning_rate * adam.direction(gradient))
            if stops:
                break
        return AttackResult((start + change).astype(np.float32))

    def _project(self, start: NDArray[np.float64], change: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the change, clipped so that it is in the ball and the changed picture is within 0 to 1."""
        return np.clip(start + np.clip(change, -self.epsilon, self.epsilon), 0, 1) - start


class _Adam:
    """Kingma and Ba 2014, arXiv:1412.6980."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._steps = 0
        self._first, self._second = np.zeros(shape), np.zeros(shape)

    def direction(self, gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the step of each value for this gradient, in units of the learning rate."""
        self._steps += 1
        self._first = _FIRST_DECAY * self._first + (1 - _FIRST_DECAY) * gradient
        self._second = _SECOND_DECAY * self._second + (1 - _SECOND_DECAY) * gradient * gradient
        first = self._first / (1 - _FIRST_DECAY**self._steps)
        second = self._second / (1 - _SECOND_DECAY**self._steps)
        moved: NDArray[np.float64] = first / (np.sqrt(second) + _TINY)
        return moved
