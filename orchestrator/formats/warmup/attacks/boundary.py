"""The boundary attack: a walk along the decision boundary towards the picture, from labels alone.

Brendel, Rauber and Bethge 2017, "Decision-Based Adversarial Attacks", arXiv:1712.04248, with the rules of foolbox 1.5,
which the warm-up of 2018 ran. That code draws random numbers in several threads and tunes its batches by the clock, so
only the distribution of its results can be compared; here a picture's random numbers determine the result.
"""

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orchestrator.formats.warmup.attacks.base import (
    Attack,
    AttackResult,
    AttackSteps,
    Floats,
    Scores,
    predicted_classes,
    to_pixels,
)

Walk = NDArray[np.float64]
_FIRST_STEP = 0.01
_ADAPTATION = 1.5
_TOO_EASY, _TOO_HARD = 0.5, 0.2
"""The steps grow above the first of these success rates, and shrink below the second."""
_CONVERGED, _NEARLY_CONVERGED = 1e-7, 2e-7
_CONFIRMATIONS = 100
"""How many further steps have to find it converged, after its steps were reset at the first convergence."""
_SPHERE_CHECKED_EVERY = 10
_STEPS_BACK = 1001
"""How many points between a result and its picture are tried, until one is within the distance in bytes."""
_SINGLE_PRECISION = 1e-4
"""The most that single precision moves a byte, in steps of 1/255."""


@dataclass(frozen=True, slots=True)
class Boundary(Attack):
    """Starts at a random picture of the other class and walks towards the picture while it stays misclassified.

    It stops once it is within `distance`. If it does not get there, its result is moved onto the sphere of that radius,
    and the picture on the sphere is judged, misclassified or not.

    Args:
        distance: the largest Euclidean length of the change, on values from 0 to 1.
        starts: the pictures [n, c, h, w] of class 0 and of class 1 to start from.
        iterations: the largest number of steps.
        directions: the largest number of random directions that a step tries.
        directions_per_question: how many of them the defence is asked about at a time.
        in_bytes: whether the defence is asked about bytes, and the result is judged in bytes. Then distances are those
            of the rounded pictures: rounding alone makes the change of a large picture longer.
    """

    distance: float
    starts: tuple[Floats, Floats]
    iterations: int = 5000
    directions: int = 25
    directions_per_question: int = 5
    in_bytes: bool = False

    def attack(self, picture: Floats, label: int, rng: np.random.Generator) -> AttackSteps:
        """See `Attack.attack`."""
        others = self.starts[1 - label]
        if not len(others):
            return AttackResult(picture, "there is no picture of the other class")
        start = others[rng.integers(len(others))]
        classes = predicted_classes((yield np.stack([picture, start])))
        if classes[0] != label:
            return AttackResult(picture)  # misclassified as it is
        if classes[1] == label:
            return AttackResult(picture, "the start picture is misclassified")
        walk = _Walk(
            picture.astype(np.float64), label, self.distance, rng, start.astype(np.float64), in_bytes=self.in_bytes
        )
        yield from walk.steps(self.iterations, self.directions, self.directions_per_question)
        onto_sphere = _onto_sphere_in_bytes if self.in_bytes else _onto_sphere
        return AttackResult(onto_sphere(walk.original, walk.best, self.distance).astype(np.float32))


def _onto_sphere(original: Walk, found: Walk, distance: float) -> Walk:
    """Returns `found`, moved straight towards the picture until it is within the distance."""
    length = np.linalg.norm(found - original)
    return found if length <= distance else original + (found - original) * (distance / length)


def _onto_sphere_in_bytes(original: Walk, found: Walk, distance: float) -> Walk:
    """Returns `found`, moved towards the picture until it is within the distance after it was rounded.

    A picture that was moved before lies between bytes. If rounding alone takes it too far, it is returned rounded.
    """
    change = _onto_sphere(original, found, distance) - original
    steps_back = (_rounded(original + share * change) for share in np.linspace(1, 0, _STEPS_BACK))
    return next((each for each in steps_back if _length_in_bytes(original, each) <= distance), _rounded(original))


def _length(original: Walk, found: Walk) -> float:
    return float(np.linalg.norm(found - original))


def _rounded(picture: Walk) -> Walk:
    """Returns the nearest picture of bytes, on values from 0 to 1."""
    return to_pixels(picture.astype(np.float32)) / 255


def _length_in_bytes(original: Walk, rounded: Walk) -> float:
    """Returns the length of a change to a picture of bytes: exactly, if the original is one of bytes too."""
    steps = original * 255
    steps = np.where(np.abs(steps - np.rint(steps)) < _SINGLE_PRECISION, np.rint(steps), steps)
    return float(np.linalg.norm(np.rint(rounded * 255) - steps)) / 255


@dataclass(eq=False)
class _StepSizes:
    """The sizes of a step along the sphere around the picture, and of one towards it; both adapt to success."""

    sphere: float = _FIRST_STEP
    towards: float = _FIRST_STEP
    sphere_successes: deque[bool] = field(default_factory=lambda: deque(maxlen=100))
    step_successes: deque[bool] = field(default_factory=lambda: deque(maxlen=30))

    def adapt(self) -> None:
        """Changes the sizes if there were enough attempts since the last change."""
        factor = _factor(self.sphere_successes)
        self.sphere, self.towards = self.sphere * factor, self.towards * factor
        if factor != 1:
            self.sphere_successes.clear()
        factor = _factor(self.step_successes)
        self.towards *= factor
        if factor != 1:
            self.step_successes.clear()


def _factor(successes: deque[bool]) -> float:
    if len(successes) != successes.maxlen:
        return 1.0
    share = sum(successes) / len(successes)
    if share > _TOO_EASY:
        return _ADAPTATION
    return 1 / _ADAPTATION if share < _TOO_HARD else 1.0


class _Convergence:
    """Decides when the walk has converged: twice, with a reset of the steps in between, and for a number of steps."""

    def __init__(self) -> None:
        self.began_anew = False
        self._left = _CONFIRMATIONS

    def is_final(self, sizes: _StepSizes) -> bool:
        """Returns whether the walk is over. Called once per step; it resets the steps at the first convergence."""
        limit = _CONVERGED if self._left == _CONFIRMATIONS else _NEARLY_CONVERGED
        if sizes.towards < limit:
            if self.began_anew:
                self._left -= 1
            else:
                self.began_anew = True
                sizes.sphere = sizes.towards = _FIRST_STEP
        elif self._left < _CONFIRMATIONS:
            self._left, self.began_anew = _CONFIRMATIONS, False
        return self._left == 0


class _Walk:
    """The walk on one picture: its position, and the nearest misclassified picture so far.

    Args:
        original: the picture [c, h, w].
        label: its class.
        distance: the distance at which it is near enough.
        rng: its random numbers.
        start: a picture that is misclassified.
        in_bytes: whether distances are those of the rounded pictures.
    """

    def __init__(
        self,
        original: Walk,
        label: int,
        distance: float,
        rng: np.random.Generator,
        start: Walk,
        *,
        in_bytes: bool = False,
    ) -> None:
        self.original, self.best = original, start
        self._in_bytes = in_bytes
        self._label, self._distance, self._rng = label, distance, rng
        self._place = start
        self._best_length = float(np.linalg.norm(start - original))
        self._sizes, self._convergence = _StepSizes(), _Convergence()

    def steps(self, iterations: int, directions: int, at_a_time: int) -> Generator[Floats, Scores, None]:
        """Walks until it is near enough, has converged, or has used up its iterations."""
        for number in range(1, iterations + 1):
            if self._is_near_enough() or self._convergence.is_final(self._sizes):
                return
            check_sphere = number % _SPHERE_CHECKED_EVERY == 0 or self._convergence.began_anew
            for tried in range(0, directions, at_a_time):
                candidates = [self._candidate() for _ in range(min(at_a_time, directions - tried))]
                if check_sphere:
                    found = yield from self._try_sphere_first(candidates)
                else:
                    found = yield from self._try([towards for towards, _ in candidates], first_only=True)
                if self._is_near_enough():
                    return
                if found is not None:
                    if np.linalg.norm(found - self.original) < np.linalg.norm(self._place - self.original):
                        self._place = found
                    break
            self._sizes.adapt()

    def _is_near_enough(self) -> bool:
        return self._best_length <= self._distance

    def _candidate(self) -> tuple[Walk, Walk]:
        """Returns a random step: its end, and the point on the sphere around the picture on the way there."""
        sizes, back = self._sizes, self.original - self._place
        length = float(np.linalg.norm(back))
        unit = back / length
        sideways = self._rng.standard_normal(back.shape)
        sideways -= np.vdot(sideways, unit) * unit
        sideways *= sizes.sphere * length / np.linalg.norm(sideways)
        on_sphere = np.clip(self.original + (sideways - back) / np.sqrt(sizes.sphere**2 + 1), 0, 1)
        remaining = self.original - on_sphere
        remaining_length = float(np.linalg.norm(remaining))
        # Clipping to 0 and 1 moved it off the sphere: correct the distance to the picture.
        nearer = max(0.0, sizes.towards * length + remaining_length - length)
        return np.clip(on_sphere + nearer / remaining_length * remaining, 0, 1), on_sphere

    def _try_sphere_first(self, candidates: Sequence[tuple[Walk, Walk]]) -> Generator[Floats, Scores, Walk | None]:
        """Asks about points on the sphere, then about the ends of the steps whose points are misclassified."""
        misclassified = yield from self._ask([on_sphere for _, on_sphere in candidates])
        for success in misclassified:
            self._sizes.sphere_successes.append(success)
        ends = [towards for (towards, _), good in zip(candidates, misclassified, strict=True) if good]
        if not ends or self._is_near_enough():
            return None
        return (yield from self._try(ends, first_only=False))

    def _try(self, ends: list[Walk], *, first_only: bool) -> Generator[Floats, Scores, Walk | None]:
        """Asks about the ends of steps; returns the first misclassified one. `first_only`: ignores later answers."""
        misclassified = yield from self._ask(ends, first_only=first_only)
        if not first_only:
            for success in misclassified:
                self._sizes.step_successes.append(success)
        return next((end for end, good in zip(ends, misclassified, strict=True) if good), None)

    def _ask(self, pictures: list[Walk], *, first_only: bool = False) -> Generator[Floats, Scores, list[bool]]:
        """Returns which pictures are misclassified, and keeps the nearest of them in `best`."""
        asked = np.stack(pictures).astype(np.float32)
        misclassified = [bool(each) for each in predicted_classes((yield asked)) != self._label]
        for picture, good in zip(pictures, misclassified, strict=True):
            if good:
                self._note_misclassified(picture)
                if first_only:
                    break
        return misclassified

    def _note_misclassified(self, picture: Walk) -> None:
        """Keeps a misclassified picture if it is the nearest so far, as the defence was shown it."""
        shown = _rounded(picture) if self._in_bytes else picture
        measure = _length_in_bytes if self._in_bytes else _length
        if (length := measure(self.original, shown)) < self._best_length:
            self.best, self._best_length = shown, length
