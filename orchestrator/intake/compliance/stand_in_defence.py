"""Answers an attack's queries when it plays without a defence: in a trial match and in a debug session (rule X6)."""

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.organizer_attacks import DefenceReplies, GradientReplies
from orchestrator.domain.outcomes import NOT_ASKED
from orchestrator.domain.samples import Labels, Pixels
from orchestrator.execution.query_broker import Broker
from orchestrator.execution.round_context import RoundContext


class StandInDefence:
    """Answers with the true label always, so that an attack needs all its queries and reaches the end of its budget.

    Scores are 1 for the true class and 0 for the others; gradients are 0.

    Args:
        labels: the true labels of the question's pictures [n].
        classes: the number of the task's classes.
    """

    def __init__(self, labels: Labels, classes: int) -> None:
        self._labels, self._classes = labels, classes

    def ask(self, pixels: Pixels, pictures: NDArray[np.int32], price: int = 1) -> DefenceReplies:
        """Returns the true labels of the given pictures [k], whatever `pixels` show."""
        del pixels, price
        answers = self._labels[pictures]
        return DefenceReplies(answers.astype(np.int32), np.eye(self._classes, dtype=np.float32)[answers])

    def ask_gradients(
        self, pixels: Pixels, labels: Labels, pictures: NDArray[np.int32], price: int = 1
    ) -> GradientReplies:
        """Returns gradients of 0, as of a defence whose answers no change of a picture affects."""
        del labels, pictures, price
        return GradientReplies(np.full(len(pixels), NOT_ASKED, np.int32), np.zeros(pixels.shape, np.float32))


def stand_in_broker(context: RoundContext, pixels: Pixels, labels: Labels) -> Broker | None:
    """Returns a broker for the queries of one question about these pictures; None if the contest allows no queries.

    The budget and the visible part of scores are the contest's.
    """
    if not context.access.allows_queries:
        return None
    defence = StandInDefence(labels, len(context.task.classes))
    return Broker(
        context.access,
        context.gate().budget,
        defence,
        0,
        pixels,
        labels,
        context.clock,
        context.cancelled.wait,
    )
