"""The record of an attack's queries to a defence."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.outcomes import FAULTED, NOT_ASKED, NOT_ATTACKED, NOT_PLAYED, Answers


class QueryFailure(IntEnum):
    """Whether a defence failed to answer a query about a picture."""

    NONE = 0
    FAULTED = 1
    """It gave no valid answer to a query that counts (rule A7): any query of an organizers' attack, or a query within
    the budget of a submission's attack."""
    NOT_PLAYED = 2
    """It was not asked any more, because its faults had used up their time (rule A7)."""


@dataclass(eq=False)
class QueryRecord:
    """An attack's queries to one defence, for each of a task's n pictures.

    Attributes:
        attacked: bool [n], whether the attack played the picture.
        queries: i32 [n], how many pictures the defence was asked about on behalf of this one.
        fooled_at: i32 [n], the number of the first query within the budget that the defence misread or abstained on; 0
            for none, and for the organizers' attacks, which have no common budget.
        failures: u8 [n], a `QueryFailure` each.
        given_up: bool [n], whether the attack could not attack the picture.
        seconds: how long the defence took to answer, in all.
        unplayed: how many of the queries were not put to the defence, because its faults had used up their time (A7).
    """

    attacked: NDArray[np.bool_]
    queries: NDArray[np.int32]
    fooled_at: NDArray[np.int32]
    failures: NDArray[np.uint8]
    given_up: NDArray[np.bool_]
    seconds: float = 0.0
    unplayed: int = 0

    @classmethod
    def empty(cls, count: int) -> "QueryRecord":
        """Returns the record of an attack that has played none of `count` pictures yet."""
        return cls(
            attacked=np.zeros(count, np.bool_),
            queries=np.zeros(count, np.int32),
            fooled_at=np.zeros(count, np.int32),
            failures=np.zeros(count, np.uint8),
            given_up=np.zeros(count, np.bool_),
        )

    def settled_answers(self) -> Answers:
        """Returns the answers [n] that the queries decide before the candidates are judged, else `NOT_ASKED`.

        A defence that faults on a query that counts loses the picture, as it would if the attack had delivered the
        query's picture (rule A7). Otherwise it could protect itself by faulting.
        """
        answers = np.full(len(self.attacked), NOT_ASKED, np.int32)
        answers[self.failures == QueryFailure.FAULTED] = FAULTED
        answers[self.failures == QueryFailure.NOT_PLAYED] = NOT_PLAYED
        answers[~self.attacked] = NOT_ATTACKED
        return answers
