"""What came of asking a defence while pictures were made for it."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.outcomes import FAULTED, NOT_ASKED, NOT_ATTACKED, NOT_PLAYED, Answers


class QueryFailure(IntEnum):
    """Whether a defence left a query about a picture without an answer."""

    NONE = 0
    FAULTED = 1
    """It gave no valid answer to a query that counts (rule A7): any of an organizers' attack, one within the budget of
    a submission's."""
    NOT_PLAYED = 2
    """It was not asked any more, because its faults had used up what they may cost (rule A7)."""


@dataclass(eq=False)
class QueryRecord:
    """What an attack asked one defence, for each of a task's n pictures.

    Attributes:
        attacked: bool [n], whether the attack played the picture at all.
        queries: i32 [n], about how many pictures the defence was asked for this one.
        fooled_at: i32 [n], the number of the first query within the budget that the defence misread; 0 for none, and
            for the organizers' attacks, which have no common budget.
        failures: u8 [n], a `QueryFailure` each.
        given_up: bool [n], whether the attack could not be played on the picture.
        seconds: for how long the defence had the move.
    """

    attacked: NDArray[np.bool_]
    queries: NDArray[np.int32]
    fooled_at: NDArray[np.int32]
    failures: NDArray[np.uint8]
    given_up: NDArray[np.bool_]
    seconds: float = 0.0

    @classmethod
    def empty(cls, count: int) -> "QueryRecord":
        """Returns the record of an attack that played no picture yet."""
        return cls(
            attacked=np.zeros(count, np.bool_),
            queries=np.zeros(count, np.int32),
            fooled_at=np.zeros(count, np.int32),
            failures=np.zeros(count, np.uint8),
            given_up=np.zeros(count, np.bool_),
        )

    def settled_answers(self) -> Answers:
        """Returns what is known of each picture [n] before the candidates are judged; `NOT_ASKED` where nothing is.

        A defence that faults on a query that counts has lost the picture, as it had if the same picture had been
        delivered (rule A7): otherwise it could hide by faulting.
        """
        answers = np.full(len(self.attacked), NOT_ASKED, np.int32)
        answers[self.failures == QueryFailure.FAULTED] = FAULTED
        answers[self.failures == QueryFailure.NOT_PLAYED] = NOT_PLAYED
        answers[~self.attacked] = NOT_ATTACKED
        return answers
