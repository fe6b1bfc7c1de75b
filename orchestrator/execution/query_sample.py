"""Draws, in secret, some of the questions that a defence was asked as queries, to ask them again in fresh sandboxes.

A defence that recognises queries and answers them differently misleads the attack, and replays of the `classify` jobs
do not show it, because their sandboxes saw no query (rules A9, A10). Whole questions are kept, so that an honest
defence computes exactly the same when it is asked again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain import events
from orchestrator.domain.outcomes import Answers
from orchestrator.domain.samples import Pixels
from orchestrator.integrity.replay_session import is_decision
from orchestrator.ledger.stores.base import Blobs, get_array

CHECKED_DECISIONS, FEWEST_QUESTIONS = 8, 2
"""The fewest pictures of one query job that are asked again, and the fewest questions."""


def checked_questions(batch: int) -> int:
    """Returns how many questions of up to `batch` pictures are asked again, each in a sandbox of its own."""
    return max(FEWEST_QUESTIONS, ceil(CHECKED_DECISIONS / batch))


@dataclass(frozen=True, slots=True, eq=False)
class AskedQuestion:
    """One question to a defence: pixels u8 [k, c, h, w], the task's pictures they were made for [k], answers [k]."""

    pixels: Pixels
    pictures: NDArray[np.int32]
    answers: Answers


@dataclass(eq=False)
class QuestionSample:
    """Keeps `size` of all questions that are offered, each with the same probability (Vitter 1985, algorithm R)."""

    generator: np.random.Generator
    size: int
    kept: list[AskedQuestion] = field(default_factory=list)
    seen: int = 0

    def offer(self, question: AskedQuestion) -> None:
        """Offers a question to the sample, unless some picture of it got no decision that could be compared."""
        if not self.size or not all(is_decision(int(answer)) for answer in question.answers):
            return
        self.seen += 1
        if len(self.kept) < self.size:
            self.kept.append(_copy(question))
        elif (place := int(self.generator.integers(self.seen))) < self.size:
            self.kept[place] = _copy(question)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Returns the pictures kept, u8 [m, c, h, w], and rows of question, picture and answer, i32 [m, 3]; or `{}`."""
        if not self.kept:
            return {}
        pixels = np.concatenate([each.pixels for each in self.kept])
        return {"sampled_pixels": pixels, "sampled_rows": _rows(self.kept)}


def _rows(questions: Sequence[AskedQuestion]) -> NDArray[np.int32]:
    """Returns question, picture and answer [m, 3] of every picture that was asked about."""
    numbers = np.repeat(np.arange(len(questions)), [len(each.answers) for each in questions])
    pictures = np.concatenate([each.pictures for each in questions])
    answers = np.concatenate([each.answers for each in questions])
    return np.column_stack([numbers, pictures, answers]).astype(np.int32)


def sampled_questions(blobs: Blobs, step: events.StepFinished) -> list[AskedQuestion]:
    """Returns the questions that a step of a query job kept. Raises StoreFault if they cannot be read."""
    if "sampled_rows" not in step.blobs:
        return []
    pixels, rows = (get_array(blobs, step.blobs[name]) for name in ("sampled_pixels", "sampled_rows"))
    masks = (rows[:, 0] == number for number in np.unique(rows[:, 0]))
    return [AskedQuestion(pixels[mask], rows[mask, 1], rows[mask, 2]) for mask in masks]


def _copy(question: AskedQuestion) -> AskedQuestion:
    return AskedQuestion(question.pixels.copy(), question.pictures.copy(), question.answers.copy())
