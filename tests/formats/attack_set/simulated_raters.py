"""Simulated raters: each has a bias and noise; some click at random.

An honest grade is the picture's quality plus the rater's bias plus normal noise, rounded and cut to 1..5. Biases are
normal with a standard deviation of 0.3 to 0.5 and noise has one of 0.7 or 1.0, which covers what studies with
untrained raters find.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from orchestrator.formats.attack_set.grading.plan import GradingPlan, ItemKind, PlannedItem
from orchestrator.formats.attack_set.grading.sheets import Answer, AnswerFile, GradingTask

ORIGINAL_QUALITY = 4.8
"""The quality of an unchanged picture: some raters see a difference where there is none."""
ANCHOR_QUALITY = 1.5


@dataclass(frozen=True)
class Rater:
    """How a rater grades."""

    bias: float = 0.0
    noise: float = 0.7
    random: bool = False
    wrong: float = 0.05
    """The probability that the rater gives a valid picture a wrong class."""


def draw_raters(count: int, clickers: int, noise: float, rng: np.random.Generator) -> list[Rater]:
    """Returns `count` raters, the last `clickers` of whom click at random."""
    biases = rng.normal(0, rng.uniform(0.3, 0.5), count)
    return [Rater(bias, noise, place >= count - clickers) for place, bias in enumerate(biases)]


def grade(quality: float, rater: Rater, rng: np.random.Generator) -> int:
    """Returns a grade, 1 to 5."""
    if rater.random:
        return int(rng.integers(1, 6))
    return min(max(round(quality + rater.bias + rng.normal(0, rater.noise)), 1), 5)


def answer(item: PlannedItem, quality: float, label: int, rater: Rater, rng: np.random.Generator) -> Answer:
    """Returns a rater's answer about an item, given in 0.6 to 9 seconds."""
    milliseconds = int(600 + 8400 * rng.beta(2, 8))
    if item.task is GradingTask.QUALITY:
        given = {"grade": grade(quality, rater, rng)}
    elif rater.random:
        given = {"class_index": int(rng.integers(2)), "proper": bool(rng.integers(2))}
    else:
        wrong = rng.random() < rater.wrong
        given = {"class_index": 1 - label if wrong else label, "proper": True}
    return Answer.model_construct(token=item.token, milliseconds=milliseconds, **given)


def answer_files(
    plan: GradingPlan,
    raters: list[Rater],
    labels: tuple[int, ...],
    quality_of: Callable[[str, int], float],
    rng: np.random.Generator,
) -> list[AnswerFile]:
    """Returns the files that the raters of a plan return, one each, for two classes."""
    fixed = {ItemKind.ORIGINAL: ORIGINAL_QUALITY, ItemKind.ANCHOR: ANCHOR_QUALITY}
    files = []
    for name, rater in zip(plan.raters, raters, strict=True):
        answers = [
            answer(
                item,
                fixed.get(item.kind) or quality_of(item.submission, item.position),
                labels[item.position],
                rater,
                rng,
            )
            for item in plan.items_of(name)
        ]
        files.append(AnswerFile.model_construct(plan=plan.digest, rater=name, answers=answers))
    return files
