"""The smallest pieces of a job: one question to an attack, a run of questions to a defence.

Each function plays one step with the player at hand and returns what came of it. A submission's fault is part of the
outcome; an infrastructure fault is raised and the whole step is played again with its full limit (rules A15, X1).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orchestrator.arena.casting import Casting
from orchestrator.arena.gate import Gate
from orchestrator.arena.setting import Clock
from orchestrator.domain.assignment import HalfStep
from orchestrator.domain.events import FaultRecord
from orchestrator.domain.rulings import ABSTAINED, FAULTED, Forfeit
from orchestrator.domain.samples import Candidates, Labels, Pixels
from orchestrator.domain.tasks import Limits
from orchestrator.domain.text import printable
from orchestrator.errors import DeadlinePassed, GaveUp, ProtocolFault, SubmissionFault
from orchestrator.stores.base import Blobs, get_array, put_array

_ARRAYS = ("answers", "margins", "at", "refused")


@dataclass(frozen=True)
class Questions:
    """How a run of questions is asked: its limits, the pictures in one, and silence before some of them.

    `fresh` gives every question a sandbox of its own (isolation `picture`).
    """

    limits: Limits
    batch: int
    pauses: Mapping[int, float] = field(default_factory=dict)
    sleep: Callable[[float], object] = time.sleep
    fresh: bool = False

    def wait(self, position: int) -> None:
        """Keeps silent before the question at a position, where that is wanted."""
        if seconds := self.pauses.get(position):
            self.sleep(seconds)


@dataclass(eq=False)
class Asked:
    """What a run of questions to a defence gave: see replay.sessions.Said; its faults, and its seconds of work.

    `asked` is how many pictures have an outcome: the first ones.
    """

    answers: NDArray[np.int32]
    margins: NDArray[np.float32]
    at: NDArray[np.float64]
    refused: NDArray[np.bool_]
    faults: list[FaultRecord] = field(default_factory=list)
    seconds: float = 0.0
    asked: int = 0

    @classmethod
    def nothing(cls, count: int) -> "Asked":
        """Returns a run in which nothing was answered."""
        nan = np.full(count, np.nan)
        return cls(np.full(count, FAULTED, np.int32), nan.astype(np.float32), nan, np.zeros(count, bool))

    @property
    def elapsed(self) -> float:
        """Seconds from the first player's being ready to the latest answer; 0 where nothing was answered."""
        return float(np.nanmax(self.at, initial=0.0))

    def keep(self, blobs: Blobs) -> dict[str, str]:
        """Keeps what was asked so far as blobs; `taken_up` is the way back."""
        return {name: put_array(blobs, getattr(self, name)) for name in _ARRAYS}

    @classmethod
    def taken_up(cls, half: HalfStep, blobs: Blobs) -> "Asked":
        """Returns a run that another process began. Raises StoreFault when its arrays cannot be read."""
        arrays = {name: get_array(blobs, half.blobs[name]) for name in _ARRAYS}
        return cls(**arrays, faults=list(half.faults), seconds=half.seconds, asked=half.asked)


@dataclass(eq=False)
class Perturbed:
    """What one question to an attack gave."""

    candidates: Candidates
    faults: list[FaultRecord] = field(default_factory=list)
    seconds: float = 0.0


def perturb(
    casting: Casting, gate: Gate, limits: Limits, pixels: Pixels, labels: Labels | None, clock: Clock
) -> Perturbed:
    """Asks the attack at hand for candidates for `pixels` [n, c, h, w]; what arrives in time counts (A15)."""
    step = Perturbed(gate.nothing(pixels))
    truth = None if labels is None else [int(label) for label in labels]
    began = clock()
    try:
        player = casting.player()
        began = clock()
        for delivered in player.perturb(pixels, truth, limits):
            gate.admit(step.candidates, pixels, delivered.index, delivered.pixels)
    except SubmissionFault as fault:
        step.seconds = clock() - began
        casting.replace(fault)
        missing = int((step.candidates.forfeits == Forfeit.MISSING).sum())
        step.faults.append(record(fault, missing))
    else:
        step.seconds = clock() - began
    return step


def ask(casting: Casting, questions: Questions, pictures: Sequence[Pixels], clock: Clock, outcome: Asked) -> None:
    """Asks the defence at hand about each picture [c, h, w], a batch at a time, and notes its answers in `outcome`.

    What `outcome` holds already is not asked again. Where an infrastructure fault is raised, it holds what was asked.
    """
    limits, size = questions.limits, questions.batch
    ready: float | None = None
    for start in range(outcome.asked, len(pictures), size):
        batch = np.stack(pictures[start : start + size])
        part = slice(start, start + len(batch))
        began = clock()
        try:
            player = casting.player()
            ready = clock() - outcome.elapsed if ready is None else ready
            questions.wait(start)  # a silence that the player lives through: its clock is what is looked at
            if questions.fresh and start + len(batch) < len(pictures):
                casting.prepare()
            began = clock()
            answered = player.classify(batch, limits)
        except SubmissionFault as fault:
            outcome.seconds += clock() - began
            casting.replace(fault)
            outcome.faults.append(record(fault, len(batch)))
            outcome.refused[part] = not isinstance(fault, DeadlinePassed | GaveUp)
            outcome.asked += len(batch)
            continue
        outcome.seconds += clock() - began
        outcome.at[part] = clock() - ready
        outcome.answers[part] = [ABSTAINED if label is None else label for label in answered.labels]
        if answered.scores is not None:
            outcome.margins[part] = margins(answered.scores)
        outcome.asked += len(batch)
        if questions.fresh:
            casting.retire()


def margins(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns, per row of scores [n, classes], the two highest's difference over the largest absolute score.

    Where scores are not finite, or all zero, there is no margin: NaN.
    """
    with np.errstate(all="ignore"):
        highest = np.sort(scores.astype(np.float64), axis=1)[:, -2:]
        found = (highest[:, -1] - highest[:, 0]) / np.abs(scores).max(axis=1)
    return np.where(np.isfinite(found), found, np.nan).astype(np.float32)


def record(fault: SubmissionFault, pictures: int) -> FaultRecord:
    """Returns a submission's fault as the ledger keeps it."""
    reason = fault.reason if isinstance(fault, ProtocolFault) else ""
    return FaultRecord(code=fault.code, reason=reason, message=printable(str(fault)), pictures=pictures)
