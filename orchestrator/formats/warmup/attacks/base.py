"""The interface of an attack on one picture, and a function that plays several attacks at the same time."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.outcomes import FAULTED
from orchestrator.domain.samples import Pixels

Floats = NDArray[np.float32]
"""Pictures with values from 0 to 1. Values in a question may lie outside; `to_pixels` clips them."""
Scores = NDArray[np.float64]
"""Two scores for each picture [k, 2]. They may be infinite, and are NaN if the defence gave none (rule B1)."""
_LARGEST = 1e30
"""Replaces infinity in a sum: its square is still finite."""


@dataclass(frozen=True, slots=True)
class AttackResult:
    """An attack's result for one picture: the picture that is judged [c, h, w], and why it gave up, if it did."""

    picture: Floats
    give_up_reason: str = ""


AttackSteps = Generator[Floats, Scores, AttackResult]
"""An attack on one picture: yields pictures [k, c, h, w], receives their scores, returns the result."""


class Attack(ABC):
    """One of the organizers' attacks, with its settings."""

    @abstractmethod
    def attack(self, picture: Floats, label: int, rng: np.random.Generator) -> AttackSteps:
        """Returns the attack on one picture [c, h, w] of the class `label`, 0 or 1."""


def predicted_classes(scores: Scores) -> NDArray[np.int64]:
    """Returns the class with the larger score, class 0 for a tie, `FAULTED` if a score is missing (rule B1)."""
    classes = (scores[:, 0] < scores[:, 1]).astype(np.int64)
    return np.where(np.isnan(scores).any(axis=1), FAULTED, classes)


def margins(scores: Scores, label: int) -> NDArray[np.float64]:
    """Returns the score of the true class minus the other score. Infinities become large finite numbers.

    Two equal infinities are a tie, 0. A missing score gives the lowest margin, since a picture without scores is judged
    as misclassified.
    """
    finite = np.clip(scores, -_LARGEST, _LARGEST)
    return np.where(np.isnan(scores).any(axis=1), -2 * _LARGEST, finite[:, label] - finite[:, 1 - label])


@dataclass(frozen=True, slots=True)
class FinishedAttack:
    """One finished attack: its number, its result, and how many pictures the defence was asked about."""

    number: int
    result: AttackResult
    queries: int


def play_attacks(
    attacks: Iterable[AttackSteps], ask: Callable[[Floats, NDArray[np.int64]], Scores], at_a_time: int
) -> Iterator[FinishedAttack]:
    """Plays the attacks, `at_a_time` at once with their questions combined, and yields each one when it is finished.

    Args:
        attacks: one generator for each picture.
        ask: returns the scores of any number of pictures [k, c, h, w]; the second array [k] has the number of the
            attack that asks about each.
        at_a_time: how many attacks are played at once. The results do not depend on it.
    """
    waiting = enumerate(attacks)
    open_attacks: dict[int, _OpenAttack] = {}
    while True:
        for number, steps in islice(waiting, at_a_time - len(open_attacks)):
            open_attacks[number] = _OpenAttack(steps)
        if not open_attacks:
            return
        for number, each in [*open_attacks.items()]:
            if each.result is not None:
                yield FinishedAttack(number, each.result, each.queries)
                del open_attacks[number]
        if open_attacks:
            questions = [each.question for each in open_attacks.values()]
            sizes = [len(question) for question in questions]
            scores = ask(np.concatenate(questions), np.repeat([*open_attacks], sizes))
            ends = np.cumsum(sizes)[:-1]
            for each, part in zip(open_attacks.values(), np.split(scores, ends), strict=True):
                each.answer(part)


class _OpenAttack:
    """An attack that is played: it has an open question, or a result."""

    def __init__(self, steps: AttackSteps) -> None:
        self._steps = steps
        self.queries = 0
        self.question: Floats = np.empty((0,), np.float32)
        self.result: AttackResult | None = None
        self._advance(None)

    def answer(self, scores: Scores) -> None:
        """Answers the open question."""
        self.queries += len(scores)
        self._advance(scores)

    def _advance(self, scores: Scores | None) -> None:
        try:
            self.question = next(self._steps) if scores is None else self._steps.send(scores)
        except StopIteration as end:
            self.result = end.value


def to_floats(pixels: Pixels) -> Floats:
    """Returns bytes as values from 0 to 1."""
    return pixels.astype(np.float32) / np.float32(255)


def to_pixels(pictures: Floats) -> Pixels:
    """Returns values from 0 to 1 as the nearest bytes. Values outside are clipped."""
    return np.rint(np.clip(pictures, 0, 1) * 255).astype(np.uint8)
