"""The outcome of each picture. All functions work on arrays of whole cells, with one element for each picture."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.samples import Labels

Scores = NDArray[np.float32]
"""Scores [n, classes], larger for likelier classes. They may be infinite, and are NaN if the defence gave none."""
Answers = NDArray[np.int32]
"""Labels, or the five negative values below."""

ABSTAINED = -1
FAULTED = -2
"""The defence was asked and gave no valid answer (rule A7)."""
NOT_ASKED = -3
"""The candidate was forfeited and the rules do not ask the defence (rule A8)."""
NOT_PLAYED = -4
"""The defence was not asked, because its faults had used up their time, `limits.fault_seconds` (rule A7)."""
NOT_ATTACKED = -5
"""The picture is not in the cell: its attack plays fewer pictures than the task has (rule B2)."""


def answer_text(answer: int, classes: Sequence[str]) -> str:
    """Returns an answer in words: the name of a class, or words such as `no answer`."""
    if 0 <= answer < len(classes):
        return classes[answer]
    names = {ABSTAINED: "abstained", FAULTED: "no answer", NOT_ASKED: "not asked", NOT_PLAYED: "not played"}
    return (names | {NOT_ATTACKED: "not attacked"}).get(answer, str(answer))


class Forfeit(IntEnum):
    """Why a candidate does not count as delivered."""

    NONE = 0
    MISSING = 1
    """Not delivered: error, crash, deadline, malformed reply (rule A8)."""
    TYPE = 2
    """Not unsigned 8-bit values."""
    SHAPE = 3
    """Not the shape of its picture."""
    NOT_FINITE = 4
    """Floating-point values, some of them not finite."""
    BUDGET = 5
    """Farther from its picture than the budget (rule A14)."""

    @property
    def reason(self) -> str:
        """Its name in results, such as `not_finite`."""
        return self.name.lower()


MALFORMED_FORFEITS = (Forfeit.TYPE, Forfeit.SHAPE, Forfeit.NOT_FINITE)
"""Forfeits of arrays that were delivered but do not have the form of the original picture."""


class PictureOutcome(IntEnum):
    """The outcome of one picture."""

    CORRECT = 0
    MISCLASSIFIED = 1
    ABSTAINED = 2
    NOT_PLAYED = 3
    NOT_ATTACKED = 4


class OnMissing(StrEnum):
    """How a picture that an attack does not deliver is judged (rule A8)."""

    HELD = "held"
    ASK = "ask"
    CLEAN = "clean"


class OnViolation(StrEnum):
    """How a candidate beyond the budget is treated (rule A14)."""

    FORFEIT = "forfeit"
    CLIP = "clip"
    DISQUALIFY = "disqualify"


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of a cell. `held + fooled + abstained + not_played == total`: all pictures that are attacked.

    `forfeits` are the attack's (rules A8 and A14) and `violations` those of them beyond the budget; `faults` are the
    defence's (rule A7), and are among `fooled`.
    """

    total: int
    held: int
    fooled: int
    abstained: int
    forfeits: int = 0
    violations: int = 0
    faults: int = 0
    not_played: int = 0

    @property
    def complete(self) -> bool:
        """Whether every picture was played."""
        return not self.not_played

    @property
    def credited(self) -> int:
        """How many pictures count as classified correctly: those held, but none if a picture was not played.

        The secret order decides which pictures were played before faults had used up their time, and a score must not
        depend on that order. So the defence gets the worst case for the whole cell (rule A7).
        """
        return self.held if self.complete else 0

    @property
    def accuracy(self) -> Fraction:
        """The share of all pictures that count as classified correctly, exactly."""
        return _exact_share(self.credited, self.total)


@functools.lru_cache(4096)
def _exact_share(count: int, total: int) -> Fraction:
    """Returns an exact share. It is cached: making a fraction takes long, and a round has few different ones."""
    return Fraction(count, total)


def count_by_reason(forfeits: NDArray[np.uint8]) -> dict[str, int]:
    """Returns how many candidates are forfeited for each reason, without the reasons that do not occur."""
    reasons = (forfeit for forfeit in Forfeit if forfeit is not Forfeit.NONE)
    counts = {forfeit.reason: int((forfeits == forfeit).sum()) for forfeit in reasons}
    return {reason: count for reason, count in counts.items() if count}


def decide_outcomes(labels: Labels, answers: Answers) -> NDArray[np.int8]:
    """Returns the `PictureOutcome` of each answer, i8 [..., n].

    `answers` are those of one or more cells, [..., n]. A picture that the defence was not asked about is CORRECT (A8).
    Abstentions, pictures that were not played (A7) and pictures that are not in the cell have outcomes of their own.
    Every other answer than the true label, and every fault of the defence (A7), is MISCLASSIFIED.
    """
    right = answers == labels.astype(answers.dtype)  # comparing two types takes seven times as long
    calls = np.where(right, np.int8(PictureOutcome.CORRECT), np.int8(PictureOutcome.MISCLASSIFIED))
    calls[answers == NOT_ASKED] = PictureOutcome.CORRECT
    calls[answers == ABSTAINED] = PictureOutcome.ABSTAINED
    calls[answers == NOT_PLAYED] = PictureOutcome.NOT_PLAYED
    calls[answers == NOT_ATTACKED] = PictureOutcome.NOT_ATTACKED
    return calls


def credited_pictures(outcomes: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Returns which pictures of cells [..., n] count as classified correctly: those that `Tally.credited` counts."""
    incomplete = (outcomes == PictureOutcome.NOT_PLAYED).any(axis=-1, keepdims=True)
    credited: NDArray[np.bool_] = (outcomes == PictureOutcome.CORRECT) & ~incomplete
    return credited


class ForfeitCounts(NamedTuple):
    """How many candidates of an attack are forfeited, and how many of these because they are beyond the budget."""

    forfeits: int = 0
    violations: int = 0


def count_forfeits(forfeits: NDArray[np.uint8]) -> ForfeitCounts:
    """Returns the counts of an attack's forfeits. `forfeits` holds a `Forfeit` per picture [n]."""
    lost, beyond = (int(np.count_nonzero(found)) for found in (forfeits != Forfeit.NONE, forfeits == Forfeit.BUDGET))
    return ForfeitCounts(lost, beyond)


def tally_cells(outcomes: NDArray[np.int8], answers: Answers, forfeits: Sequence[ForfeitCounts]) -> list[Tally]:
    """Returns the counts of m cells on n pictures.

    Args:
        outcomes: one `PictureOutcome` per cell and picture [m, n].
        answers: the answers from which the outcomes were decided [m, n].
        forfeits: the counts of each cell's attack [m], zero for clean pictures.
    """
    counts = [np.count_nonzero(outcomes == outcome, axis=1).tolist() for outcome in PictureOutcome]
    faults = np.count_nonzero(answers == FAULTED, axis=1).tolist()
    return [
        Tally(
            total=outcomes.shape[1] - not_attacked,
            held=held,
            fooled=fooled,
            abstained=abstained,
            forfeits=lost.forfeits,
            violations=lost.violations,
            faults=failed,
            not_played=not_played,
        )
        for held, fooled, abstained, not_played, not_attacked, failed, lost in zip(
            *counts, faults, forfeits, strict=True
        )
    ]


def accuracy_drop(before: Fraction, after: Fraction) -> float:
    """Returns delta, the decrease in accuracy in percentage points: 80 % to 60 % is 20 (rule A11).

    It is the float that is nearest to the exact number, since Python rounds the quotient of two integers correctly.
    """
    lost = before.numerator * after.denominator - after.numerator * before.denominator
    return 100 * lost / (before.denominator * after.denominator)
