"""Spatial attacks: the worst of a grid of rotations and translations, and a random movement before other attacks.

Engstrom, Tran, Tsipras, Schmidt and Madry 2017, "A Rotation and a Translation Suffice", arXiv:1712.02779, as the
warm-up of 2018 coded it. Where that code differs from the rules in words, a setting has both readings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

import numpy as np
from numpy.typing import NDArray

from orchestrator.formats.warmup.attacks.base import (
    Attack,
    AttackResult,
    AttackSteps,
    Floats,
    Scores,
    margins,
    predicted_classes,
)
from orchestrator.formats.warmup.attacks.transforms import Movement, Transform

PICTURES_PER_QUESTION = 32
_INK_SHARE = np.float32(0.1)
"""The share of its ink that a digit may gain or lose when it is rotated and moved."""
_WORSE_THAN_ALL = np.float32(1e9)


class Reading(StrEnum):
    """How a rule is read if the code of 2018 differs from its words: as coded, or as meant."""

    REFERENCE = "reference"
    INTENDED = "intended"


@dataclass(frozen=True, slots=True)
class MovementLimits:
    """How far pictures are moved, in pixels, and rotated, in degrees, to either side."""

    dx: float
    dy: float
    angle: float


@dataclass(frozen=True, slots=True)
class Grid:
    """The movements that are tried: up to `limits` to either side, with the given number of steps for each axis.

    With `axes` as in the reference, the three axes are mixed up: the angle has the limit and steps of `dx`, `dx` those
    of `dy`, and `dy` those of the angle.
    """

    limits: MovementLimits
    dx_steps: int
    dy_steps: int
    angle_steps: int
    axes: Reading = Reading.INTENDED

    def movements(self) -> Iterator[Movement]:
        """Yields the movements in the order in which they are tried."""
        across = np.linspace(-self.limits.dx, self.limits.dx, self.dx_steps)
        down = np.linspace(-self.limits.dy, self.limits.dy, self.dy_steps)
        turns = np.linspace(-self.limits.angle, self.limits.angle, self.angle_steps)
        for first, second, third in product(across, down, turns):
            if self.axes is Reading.REFERENCE:
                yield Movement(angle=first, dx=second, dy=third)
            else:
                yield Movement(angle=third, dx=first, dy=second)


def keeps_ink(before: Floats, after: Floats) -> bool:
    """Returns whether a moved digit [c, h, w] has nearly as much ink as before, so was not pushed off the picture."""
    amount = np.abs(before).sum(dtype=np.float32)
    change = np.abs(np.abs(after).sum(dtype=np.float32) - amount)
    return bool(change < amount * _INK_SHARE or change == 0)


@dataclass(frozen=True, slots=True)
class SpatialGrid(Attack):
    """Tries every movement of a grid. The one with the largest margin for the wrong class is judged, fooled or not."""

    grid: Grid
    transform: Transform

    def attack(self, picture: Floats, label: int, rng: np.random.Generator) -> AttackSteps:
        """See `Attack.attack`. It draws nothing at random."""
        del rng
        worst, worst_loss = picture, -np.inf
        for movements in _parts([*self.grid.movements()], PICTURES_PER_QUESTION):
            moved = self.transform.apply(picture, movements)
            losses = -margins((yield moved), label)
            place = int(losses.argmax())
            if losses[place] > worst_loss:
                worst, worst_loss = moved[place], losses[place]
        return AttackResult(worst)


@dataclass(frozen=True, slots=True)
class InkCheckedGrid(Attack):
    """Tries every movement of a grid on a digit. Movements that push too much of it off the picture are invalid.

    The misclassified picture with the largest loss is judged, or if there is none, the picture with the largest loss.
    The reference (`ink_check: reference`) subtracts a huge amount from the loss of the valid pictures instead of the
    invalid ones. So if no valid picture fools the defence, the worst invalid one is judged.
    """

    grid: Grid
    transform: Transform
    ink_check: Reading = Reading.INTENDED

    def attack(self, picture: Floats, label: int, rng: np.random.Generator) -> AttackSteps:
        """See `Attack.attack`. It draws nothing at random."""
        del rng
        (before,) = self.transform.apply(picture, [Movement()])
        worst, largest, all_correct = picture, np.float32(0), True
        for movements in _parts([*self.grid.movements()], PICTURES_PER_QUESTION):
            moved = self.transform.apply(picture, movements)
            scores = yield moved
            valid = np.array([keeps_ink(before, after) for after in moved])
            penalised = valid if self.ink_check is Reading.REFERENCE else ~valid
            losses = cross_entropy(scores, label) - penalised * _WORSE_THAN_ALL
            correct = (predicted_classes(scores) == label) | ~valid
            for each, loss, is_correct in zip(moved, losses, correct, strict=True):
                if (loss > largest and is_correct == all_correct) or is_correct < all_correct:
                    worst = each
                largest, all_correct = max(loss, largest), bool(is_correct and all_correct)
        return AttackResult(worst)


def cross_entropy(scores: Scores, label: int) -> NDArray[np.float32]:
    """Returns the cross-entropy of each picture [k] in single precision; huge if a score is missing.

    Single precision matters: with a margin of 17 or more the loss is exactly 0, the value that the search starts from.
    """
    behind = (-margins(scores, label)).astype(np.float32)
    larger, smaller = np.maximum(behind, 0), np.minimum(behind, 0)
    # The larger exponent is factored out, as in any softmax that does not overflow.
    losses: NDArray[np.float32] = larger + np.log(np.exp(-larger) + np.exp(smaller))
    return losses


def random_movement(
    picture: Floats, limits: MovementLimits, transform: Transform, rng: np.random.Generator, *, check_ink: bool
) -> Floats:
    """Returns a picture rotated and moved at random. With `check_ink` it draws until the picture keeps its ink."""
    while True:
        dx, dy, angle = (rng.uniform(-limit, limit) for limit in (limits.dx, limits.dy, limits.angle))
        before, moved = transform.apply(picture, [Movement(), Movement(angle=angle, dx=dx, dy=dy)])
        if not check_ink or keeps_ink(before, moved):
            found: Floats = moved
            return found


@dataclass(frozen=True, slots=True)
class AfterMovement(Attack):
    """Another attack on a picture that is first rotated and moved at random."""

    attack_after: Attack
    limits: MovementLimits
    transform: Transform
    check_ink: bool = False

    def attack(self, picture: Floats, label: int, rng: np.random.Generator) -> AttackSteps:
        """See `Attack.attack`."""
        moved = random_movement(picture, self.limits, self.transform, rng, check_ink=self.check_ink)
        return (yield from self.attack_after.attack(moved, label, rng))


def _parts(movements: Sequence[Movement], size: int) -> Iterator[Sequence[Movement]]:
    for start in range(0, len(movements), size):
        yield movements[start : start + size]
