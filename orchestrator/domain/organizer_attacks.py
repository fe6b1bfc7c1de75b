"""The organizers' own attacks, which are part of a contest format (rule B2).

They are trusted code, so they need no sandbox: the process that starts a defence's sandbox runs them, and sends their
queries to the defence.
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
    """A defence's replies about k pictures: answers [k], and scores [k, classes], NaN where it gave none."""

    answers: Answers
    scores: Scores


@dataclass(frozen=True, slots=True, eq=False)
class GradientReplies:
    """A defence's gradients for k pictures, f32 [k, c, h, w], NaN where it gave none.

    `answers` [k] have no labels: `FAULTED` and `NOT_PLAYED` as in play, else `NOT_ASKED`.
    """

    answers: Answers
    gradients: NDArray[np.float32]


class QueriedDefence(Protocol):
    """The defence that an attack queries."""

    def ask(self, pixels: Pixels, pictures: NDArray[np.int32], price: int = 1) -> DefenceReplies:
        """Asks about pictures u8 [k, c, h, w], each on behalf of one of the task's `pictures` [k], at `price` each."""

    def ask_gradients(
        self, pixels: Pixels, labels: Labels, pictures: NDArray[np.int32], price: int = 1
    ) -> GradientReplies:
        """Asks for the gradient of the loss for `labels` [k]; the other arguments are those of `ask`."""


@dataclass(frozen=True, slots=True, eq=False)
class AttackedPicture:
    """An attack's result for one picture of the task: the picture that is judged, u8 [c, h, w], and its queries.

    `give_up_reason` says why the attack could not be played on this picture; empty if it was played.
    """

    picture: int
    pixels: Pixels
    queries: int
    give_up_reason: str = ""


class OrganizerAttack(ABC):
    """One attack with its settings: part of the contest format, and in the roster as a submission without an image.

    Its result for a picture depends only on the picture, the defence's replies and the picture's random numbers.
    """

    name: str
    queries_per_picture: int
    """The largest number of queries that it needs for a picture."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A digest of everything that its pictures depend on. If it changes, the attack is played again."""

    @abstractmethod
    def pictures(self, count: int) -> int:
        """Returns how many of a task's `count` pictures it attacks, counted from the first; at least one."""

    @abstractmethod
    def play(
        self,
        samples: Samples,
        pictures: Sequence[int],
        generators: Sequence[np.random.Generator],
        defence: QueriedDefence,
        budget: Budget | None,
    ) -> Iterator[AttackedPicture]:
        """Yields the results for some of a task's pictures, in any order.

        Args:
            samples: the task's pictures.
            pictures: which of them are attacked.
            generators: the source of random numbers for each of these.
            defence: the defence that is asked.
            budget: the task's budget, if it has one.
        """
