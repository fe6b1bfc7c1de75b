"""The smallest pieces of a job: one question to an attack, a run of questions to a defence.

Each function plays one step with the player at hand and returns what came of it. A submission's fault is part of the
outcome; an infrastructure fault is raised and the whole step is played again with its full limit (rules A15, X1).

In play a fault is charged to a picture only where it is the picture's own: the first question of a fresh sandbox, with
no other picture in it. After any other fault each picture of the question is asked alone, in a sandbox of its own. So
what becomes of a picture is the same in whatever order and company pictures were asked (rule A7, decision 0026).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.events import FaultRecord
from orchestrator.domain.outcomes import ABSTAINED, FAULTED, NOT_PLAYED, Forfeit
from orchestrator.domain.samples import AdversarialExamples, Labels, Pixels
from orchestrator.domain.tasks import Limits
from orchestrator.errors import DeadlinePassed, GaveUp, OutputFlood, ProtocolFault, SubmissionFault
from orchestrator.execution.gate import Gate
from orchestrator.execution.player_pool import PlayerPool, fault_record
from orchestrator.execution.round_context import Clock
from orchestrator.ledger.stores.base import Blobs, get_array, put_array
from orchestrator.protocol.session import AnswersReply

_ARRAYS = ("answers", "margins", "at", "refused", "late", "sandbox")


@dataclass(frozen=True)
class QuestionPlan:
    """How a run of questions is asked: its limits, the pictures in one, and silence before some of them.

    `fresh` gives every question a sandbox of its own (isolation `picture`). `scored` says that these are questions of
    the play: a fault is charged to a picture only where it is the picture's own. Those of a determinism check are asked
    once, whatever comes.
    """

    limits: Limits
    batch: int
    pauses: Mapping[int, float] = field(default_factory=dict)
    sleep: Callable[[float], object] = time.sleep
    fresh: bool = False
    scored: bool = False

    def wait(self, position: int) -> None:
        """Keeps silent before the question at a position, where that is wanted."""
        if seconds := self.pauses.get(position):
            self.sleep(seconds)


@dataclass(eq=False)
class DefenceAnswers:
    """What a run of questions to a defence gave, with its faults and its seconds of work.

    The arrays are those of `integrity.replay_session.SessionAnswers`.
    `asked` is how many pictures have an outcome: the first ones. The next `alone` are to be asked alone, because a
    question with all of them ended with a fault. `sandbox` says which sandbox of the run each picture was put to,
    counted from 0; `opened` is how many there were. `fault_seconds` is what faults cost (FaultBudget).
    """

    answers: NDArray[np.int32]
    margins: NDArray[np.float32]
    at: NDArray[np.float64]
    refused: NDArray[np.bool_]
    late: NDArray[np.bool_]
    sandbox: NDArray[np.int32]
    faults: list[FaultRecord] = field(default_factory=list)
    seconds: float = 0.0
    asked: int = 0
    alone: int = 0
    opened: int = 0
    fault_seconds: float = 0.0

    @classmethod
    def nothing(cls, count: int) -> "DefenceAnswers":
        """Returns a run in which nothing was answered."""
        nan = np.full(count, np.nan)
        none, faulted = np.zeros(count, bool), np.full(count, FAULTED, np.int32)
        first = np.zeros(count, np.int32)
        return cls(faulted, nan.astype(np.float32), nan, none, none.copy(), first)

    @property
    def elapsed(self) -> float:
        """Seconds from the first player's being ready to the latest answer; 0 where nothing was answered."""
        return float(np.nanmax(self.at, initial=0.0))

    def keep(self, blobs: Blobs) -> dict[str, str]:
        """Keeps what was asked so far as blobs; `taken_up` is the way back."""
        return {name: put_array(blobs, getattr(self, name)) for name in _ARRAYS}

    @classmethod
    def taken_up(cls, half: PartialStep, blobs: Blobs) -> "DefenceAnswers":
        """Returns a run that another process began. Raises StoreFault when its arrays cannot be read."""
        taken = cls(**{name: get_array(blobs, half.blobs[name]) for name in _ARRAYS})  # type: ignore[arg-type]
        taken.faults = list(half.faults)
        taken.asked, taken.alone, taken.opened = half.asked, half.alone, half.opened
        taken.seconds, taken.fault_seconds = half.seconds, half.fault_seconds
        return taken


@dataclass(eq=False)
class AttackOutput:
    """What one question to an attack gave; `renewed` says that it was put to a fresh sandbox in the end."""

    candidates: AdversarialExamples
    faults: list[FaultRecord] = field(default_factory=list)
    seconds: float = 0.0
    renewed: bool = False


def ask_attack(
    casting: PlayerPool,
    gate: Gate,
    limits: Limits,
    pixels: Pixels,
    labels: Labels | None,
    clock: Clock,
    step: AttackOutput,
) -> None:
    """Asks the attack at hand for candidates for `pixels` [n, c, h, w]; what arrives in time counts (A15).

    What is no reply may be what a player wrote after its last one, if it answered before: then a fresh one is asked.
    """
    truth = None if labels is None else [int(label) for label in labels]
    began, fresh = clock(), not casting.at_work
    try:
        player = casting.player()
        began = clock()
        for delivered in player.perturb(pixels, truth, limits):
            gate.admit(step.candidates, pixels, delivered.index, delivered.pixels)
        step.seconds += clock() - began
    except SubmissionFault as fault:
        step.seconds += clock() - began
        casting.replace(fault)
        missing = int((step.candidates.forfeits == Forfeit.MISSING).sum())
        if not fresh and missing == len(pixels) and isinstance(fault, OutputFlood | ProtocolFault):
            step.faults.append(fault_record(fault, asked=len(pixels)))
            step.renewed = True
            ask_attack(casting, gate, limits, pixels, labels, clock, step)
        else:
            step.faults.append(fault_record(fault, missing, len(pixels)))


def ask_defence(
    casting: PlayerPool, questions: QuestionPlan, pictures: Sequence[Pixels], clock: Clock, outcome: DefenceAnswers
) -> None:
    """Asks the defence at hand about each picture [c, h, w], a batch at a time, and notes its answers in `outcome`.

    What `outcome` holds already is not asked again. Where an infrastructure fault is raised, it holds what was asked.
    """
    run = _QuestionRun(casting, questions, pictures, clock, outcome)
    while outcome.asked < len(pictures):
        run.ask_next()


@dataclass(eq=False)
class _QuestionRun:
    """A run of questions under way; `ready` is when its first player was, by the clock."""

    casting: PlayerPool
    questions: QuestionPlan
    pictures: Sequence[Pixels]
    clock: Clock
    outcome: DefenceAnswers
    ready: float | None = None

    def ask_next(self) -> None:
        """Puts the next question, and notes what came of it."""
        outcome, casting = self.outcome, self.casting
        size = 1 if outcome.alone else self.questions.batch
        part = slice(outcome.asked, min(outcome.asked + size, len(self.pictures)))
        fresh, replacing, began = not casting.at_work, casting.replacing, self.clock()
        try:
            player = casting.player()
            if fresh or not outcome.opened:  # the first may have been opened in the step before
                outcome.opened += 1
            if replacing:
                self._spend(began)
            began = self._about_to_ask(part)
            answered = player.classify(np.stack(self.pictures[part]), self.questions.limits)
        except GaveUp as fault:
            self._give_up(fault)
        except SubmissionFault as fault:
            outcome.seconds += self.clock() - began if casting.at_work else 0.0
            self._spend(began)
            self._fault(fault, part, fresh=fresh)
        else:
            outcome.seconds += self.clock() - began
            self._answer(answered, part)

    def _about_to_ask(self, part: slice) -> float:
        """Keeps the silence before a question, starts the next sandbox where each has one; returns the time."""
        self.ready = self.clock() - self.outcome.elapsed if self.ready is None else self.ready
        self.questions.wait(part.start)  # a silence that the player lives through: its clock is what is looked at
        if self.questions.fresh and part.stop < len(self.pictures):
            self.casting.prepare()
        return self.clock()

    def _spend(self, since: float) -> None:
        """Counts the time since then as what faults cost, in play."""
        if self.questions.scored:
            seconds = self.clock() - since
            self.outcome.fault_seconds += seconds
            self.casting.budget.spend(seconds)

    def _answer(self, answered: AnswersReply, part: slice) -> None:
        outcome = self.outcome
        outcome.at[part] = self.clock() - (self.ready or 0.0)
        outcome.answers[part] = [ABSTAINED if label is None else label for label in answered.labels]
        if answered.scores is not None:
            outcome.margins[part] = relative_margins(answered.scores)
        alone = outcome.alone > 0
        self._done(part)
        if self.questions.fresh or (alone and self.questions.batch > 1):
            outcome.faults += self.casting.retire(replacing=alone)

    def _fault(self, fault: SubmissionFault, part: slice, *, fresh: bool) -> None:
        outcome, size = self.outcome, part.stop - part.start
        loaded = self.casting.at_work
        self.casting.replace(fault)
        own = loaded and fresh and size == 1
        charged = size if own or not self.questions.scored else 0
        outcome.faults.append(fault_record(fault, charged, size))
        if not charged:
            outcome.alone = size if loaded else outcome.alone
            return
        outcome.refused[part] = not isinstance(fault, DeadlinePassed)
        outcome.late[part] = isinstance(fault, DeadlinePassed)
        self._done(part)

    def _done(self, part: slice) -> None:
        """Notes that pictures have an outcome, from the sandbox opened last."""
        outcome = self.outcome
        outcome.sandbox[part] = max(0, outcome.opened - 1)
        outcome.asked = part.stop
        outcome.alone = max(0, outcome.alone - 1)

    def _give_up(self, fault: GaveUp) -> None:
        """Asks nothing more: in play the pictures that are left are not played."""
        outcome = self.outcome
        left = slice(outcome.asked, len(self.pictures))
        outcome.faults.append(fault_record(fault, left.stop - left.start))
        if self.questions.scored:
            outcome.answers[left] = NOT_PLAYED
        outcome.sandbox[left] = max(0, outcome.opened - 1)
        outcome.asked, outcome.alone = left.stop, 0


def relative_margins(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns, per row of scores [n, classes], the two highest's difference over the largest absolute score.

    Where scores are not finite, or all zero, there is no margin: NaN.
    """
    with np.errstate(all="ignore"):
        highest = np.sort(scores.astype(np.float64), axis=1)[:, -2:]
        found = (highest[:, -1] - highest[:, 0]) / np.abs(scores).max(axis=1)
    return np.where(np.isfinite(found), found, np.nan).astype(np.float32)
