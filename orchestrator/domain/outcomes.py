"""One picture decided. Everything here works on whole cells or several, one array element a picture."""

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
"""A score for each class, larger for likelier ones [n, classes]; infinite ones included, NaN where there are none."""
Answers = NDArray[np.int32]
"""A label, or one of the five negative values below."""

ABSTAINED = -1
FAULTED = -2
"""The defence was asked and gave no valid answer (rule A7)."""
NOT_ASKED = -3
"""The candidate was forfeited and the rules do not ask the defence (rule A8)."""
NOT_PLAYED = -4
"""Nobody asked, because faults of the defence had used up what they may cost (rule A7)."""
NOT_ATTACKED = -5
"""The picture is no part of the cell: its attack plays fewer pictures than the task has (rule B2)."""


def answer_text(answer: int, classes: Sequence[str]) -> str:
    """Returns an answer in words: a class's name, or what stands where there is no label."""
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
    """Floating-point values that are not even finite."""
    BUDGET = 5
    """Farther from its picture than the budget (rule A14)."""

    @property
    def reason(self) -> str:
        """What it is called in results: `not_finite`."""
        return self.name.lower()


MALFORMED_FORFEITS = (Forfeit.TYPE, Forfeit.SHAPE, Forfeit.NOT_FINITE)
"""Forfeits of what was delivered and is no picture like the one that was asked about."""


class PictureOutcome(IntEnum):
    """What became of one picture."""

    CORRECT = 0
    MISCLASSIFIED = 1
    ABSTAINED = 2
    NOT_PLAYED = 3
    NOT_ATTACKED = 4


class OnMissing(StrEnum):
    """What becomes of a picture that an attack does not deliver (rule A8)."""

    HELD = "held"
    ASK = "ask"
    CLEAN = "clean"


class OnViolation(StrEnum):
    """What becomes of a candidate beyond the budget (rule A14)."""

    FORFEIT = "forfeit"
    CLIP = "clip"
    DISQUALIFY = "disqualify"


@dataclass(frozen=True, slots=True)
class Tally:
    """A cell counted. `held + fooled + abstained + not_played == total`: all pictures of the task that are attacked.

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
        """How many pictures count as classified correctly: those held, and none where not every picture was played.

        Which pictures were played before faults had used up their time is decided by the secret order, and a score must
        not depend on that: so the defence gets the worst case for the whole cell (rule A7).
        """
        return self.held if self.complete else 0

    @property
    def accuracy(self) -> Fraction:
        """The share of all pictures that count as classified correctly, exactly."""
        return _exact_share(self.credited, self.total)


@functools.lru_cache(4096)
def _exact_share(count: int, total: int) -> Fraction:
    """Returns a share exactly: making a fraction takes long, and the cells of a round have few different ones."""
    return Fraction(count, total)


def count_by_reason(forfeits: NDArray[np.uint8]) -> dict[str, int]:
    """Returns how many candidates do not count for each reason that there is among them."""
    reasons = (forfeit for forfeit in Forfeit if forfeit is not Forfeit.NONE)
    counts = {forfeit.reason: int((forfeits == forfeit).sum()) for forfeit in reasons}
    return {reason: count for reason, count in counts.items() if count}


def decide_outcomes(labels: Labels, answers: Answers) -> NDArray[np.int8]:
    """Returns one `PictureOutcome` per picture [n] of each of the cells whose answers are given [..., n].

    A picture that was not asked is held (A8). An abstention is its own call, and so is a picture that was not played
    (A7), or is no part of the cell. Every other answer than the true label, and every fault of the defence (A7), is
    fooled.
    """
    calls = np.full(answers.shape, PictureOutcome.MISCLASSIFIED, np.int8)
    calls[answers == labels] = PictureOutcome.CORRECT
    calls[answers == NOT_ASKED] = PictureOutcome.CORRECT
    calls[answers == ABSTAINED] = PictureOutcome.ABSTAINED
    calls[answers == NOT_PLAYED] = PictureOutcome.NOT_PLAYED
    calls[answers == NOT_ATTACKED] = PictureOutcome.NOT_ATTACKED
    return calls


def credited_pictures(outcomes: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Returns which pictures of cells [..., n] count as classified correctly: those of `Tally.credited`."""
    incomplete = (outcomes == PictureOutcome.NOT_PLAYED).any(axis=-1, keepdims=True)
    credited: NDArray[np.bool_] = (outcomes == PictureOutcome.CORRECT) & ~incomplete
    return credited


class ForfeitCounts(NamedTuple):
    """How many candidates of an attack do not count, and how many of them for being beyond the budget."""

    forfeits: int = 0
    violations: int = 0


def count_forfeits(forfeits: NDArray[np.uint8]) -> ForfeitCounts:
    """Returns the counts of what an attack made; `forfeits` holds a `Forfeit` per picture."""
    lost, beyond = (int(np.count_nonzero(found)) for found in (forfeits != Forfeit.NONE, forfeits == Forfeit.BUDGET))
    return ForfeitCounts(lost, beyond)


def tally_cells(outcomes: NDArray[np.int8], answers: Answers, forfeits: Sequence[ForfeitCounts]) -> list[Tally]:
    """Returns the counts of m cells on n pictures.

    Args:
        outcomes: one `PictureOutcome` per cell and picture [m, n].
        answers: what they were decided from [m, n].
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

    It is the float that is nearest to the exact number: Python divides integers so.
    """
    lost = before.numerator * after.denominator - after.numerator * before.denominator
    return 100 * lost / (before.denominator * after.denominator)
