"""Attacks of the organizers' own, which a contest format brings (rule B2).

They are trusted code, so they need no sandbox: the process that starts a defence's sandbox plays them, and asks the
defence what they want to know.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.outcomes import Answers, Scores
from orchestrator.domain.samples import Labels, Pixels, Samples
from orchestrator.domain.tasks import Budget

ORGANIZERS = "organizers"
"""The team of the attacks that have no image."""


@dataclass(frozen=True, slots=True, eq=False)
class DefenceReplies:
    """What a defence said of k pictures: answers [k], and scores [k, classes], NaN where it gave none."""

    answers: Answers
    scores: Scores


@dataclass(frozen=True, slots=True, eq=False)
class GradientReplies:
    """What a defence said of k pictures: f32 [k, c, h, w], NaN where it gave no gradient.

    `answers` [k] are no labels: `FAULTED` and `NOT_PLAYED` as in play, else `NOT_ASKED`.
    """

    answers: Answers
    gradients: NDArray[np.float32]


class QueriedDefence(Protocol):
    """The defence that an attack asks."""

    def ask(self, pixels: Pixels, pictures: NDArray[np.int32], price: int = 1) -> DefenceReplies:
        """Asks about pictures u8 [k, c, h, w], each on behalf of a picture of the task [k], at a price each."""

    def ask_gradients(
        self, pixels: Pixels, labels: Labels, pictures: NDArray[np.int32], price: int = 1
    ) -> GradientReplies:
        """Asks for the gradient of the loss for `labels` [k]; the other arguments are those of `ask`."""


@dataclass(frozen=True, slots=True, eq=False)
class AttackedPicture:
    """What an attack made of one picture of the task: the picture that is judged, u8 [c, h, w], and what it took.

    `give_up_reason` says why the attack could not be played on this picture; empty where it was.
    """

    picture: int
    pixels: Pixels
    queries: int
    give_up_reason: str = ""


class OrganizerAttack(ABC):
    """One attack with its settings; a work of the contest format, and in the roster like a submission without an image.

    What becomes of a picture follows from the picture, the defence's replies and the picture's random numbers alone.
    """

    name: str
    queries_per_picture: int
    """How many queries it needs for a picture, at most."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A digest of everything that its pictures follow from: what was played with another one is played again."""

    @abstractmethod
    def pictures(self, count: int) -> int:
        """Returns how many of a task's `count` pictures it attacks: the first so many, at least one."""

    @abstractmethod
    def play(
        self,
        samples: Samples,
        pictures: Sequence[int],
        generators: Sequence[np.random.Generator],
        defence: QueriedDefence,
        budget: Budget | None,
    ) -> Iterator[AttackedPicture]:
        """Yields what becomes of some of a task's pictures, in any order.

        Args:
            samples: the task's pictures.
            pictures: which of them are attacked.
            generators: the random numbers for each of these.
            defence: the defence that is asked.
            budget: the task's budget, if it has one.
        """
