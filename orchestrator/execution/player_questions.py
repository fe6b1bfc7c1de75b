"""Asks players: one question to an attack, or a run of questions to a defence.

Each function asks the pool's active player and writes the result into its argument `output` or `outcome`. A fault of
the submission is part of the result; an infrastructure fault is raised, and the whole step is played again with its
full limit (rules A15, X1).

In play a fault is charged to a picture only if it is the picture's own: at the first question of a fresh sandbox, with
no other picture in the question. After any other fault each picture of the question is asked alone, in a sandbox of its
own. So the outcome of a picture is the same in whatever order and company pictures were asked (rule A7, decision 0026).
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.events import FaultRecord
from orchestrator.domain.outcomes import ABSTAINED, FAULTED, NOT_ASKED, NOT_PLAYED, Forfeit, Scores
from orchestrator.domain.samples import AdversarialExamples, Labels, Pixels
from orchestrator.domain.tasks import Limits
from orchestrator.errors import DeadlinePassed, GaveUp, OutputFlood, ProtocolFault, SubmissionFault
from orchestrator.execution.attack_output_gate import Gate
from orchestrator.execution.player import Player, QueryAnswer
from orchestrator.execution.player_pool import PlayerPool, fault_record
from orchestrator.execution.round_context import Clock
from orchestrator.ledger.stores.base import Blobs, get_array, put_array
from orchestrator.protocol.session import AnswersReply

_ARRAYS = ("answers", "margins", "answer_times", "refused", "late", "sandbox", "scores")


@dataclass(frozen=True)
class QuestionPlan:
    """How a run of questions is asked: limits, pictures per question, and seconds of silence before some pictures.

    `fresh_sandbox_each` gives every question a sandbox of its own (isolation `picture`). `scored` says that these are
    questions of play: a fault is charged to a picture only if it is the picture's own. The questions of a determinism
    check are asked once, whatever happens. `seeds` has one seed for each picture if a defence may use randomness (U13).
    """

    limits: Limits
    batch: int
    pauses: Mapping[int, float] = field(default_factory=dict)
    sleep: Callable[[float], object] = time.sleep
    fresh_sandbox_each: bool = False
    scored: bool = False
    seeds: Sequence[int] | None = None

    def pause_before(self, position: int) -> None:
        """Sleeps before the question at a position, if a pause is planned there."""
        if seconds := self.pauses.get(position):
            self.sleep(seconds)


@dataclass(eq=False)
class DefenceAnswers:
    """The answers of a defence to a run of questions, with its faults and its seconds of work.

    The arrays are those of `integrity.replay_session.SessionAnswers`; questions of play leave `margins` NaN.
    `scores` has a column for each class, or none if scores are not kept; it is NaN where the defence gave none.
    The first `completed` pictures have an outcome. The next `singles_left` pictures are to be asked alone, because a
    question with all of them ended with a fault. `sandbox` has the number of the sandbox, from 0 in this run, to which
    each picture was put; `sandbox_count` is how many there were. `fault_seconds` is what faults cost (FaultBudget).
    """

    answers: NDArray[np.int32]
    margins: NDArray[np.float32]
    answer_times: NDArray[np.float64]
    refused: NDArray[np.bool_]
    late: NDArray[np.bool_]
    sandbox: NDArray[np.int32]
    scores: Scores
    faults: list[FaultRecord] = field(default_factory=list)
    seconds: float = 0.0
    completed: int = 0
    singles_left: int = 0
    sandbox_count: int = 0
    fault_seconds: float = 0.0

    @classmethod
    def empty(cls, count: int, score_columns: int = 0) -> "DefenceAnswers":
        """Returns a run without answers yet; `score_columns` is how many scores of each picture are kept."""
        nan = np.full(count, np.nan)
        none, faulted = np.zeros(count, bool), np.full(count, FAULTED, np.int32)
        first = np.zeros(count, np.int32)
        scores = np.full((count, score_columns), np.nan, np.float32)
        return cls(faulted, nan.astype(np.float32), nan, none, none.copy(), first, scores)

    @property
    def elapsed(self) -> float:
        """Seconds from when the first player was ready to the latest answer; 0 without answers."""
        return float(np.nanmax(self.answer_times, initial=0.0))

    def save(self, blobs: Blobs) -> dict[str, str]:
        """Stores the arrays as blobs and returns their digests by name; `resume` restores them."""
        return {name: put_array(blobs, getattr(self, name)) for name in _ARRAYS}

    @classmethod
    def resume(cls, partial_step: PartialStep, blobs: Blobs) -> "DefenceAnswers":
        """Returns a run that another process began. Raises StoreFault if its arrays cannot be read."""
        answers = cls(**{name: get_array(blobs, partial_step.blobs[name]) for name in _ARRAYS})  # type: ignore[arg-type]
        answers.faults = list(partial_step.faults)
        answers.completed, answers.singles_left, answers.sandbox_count = (
            partial_step.completed,
            partial_step.singles_left,
            partial_step.sandbox_count,
        )
        answers.seconds, answers.fault_seconds = partial_step.seconds, partial_step.fault_seconds
        return answers


@dataclass(eq=False)
class AttackOutput:
    """The result of one question to an attack; `restarted`: whether the question was put again, to a fresh sandbox."""

    examples: AdversarialExamples
    faults: list[FaultRecord] = field(default_factory=list)
    seconds: float = 0.0
    restarted: bool = False


def ask_attack(
    pool: PlayerPool,
    gate: Gate,
    limits: Limits,
    pixels: Pixels,
    labels: Labels | None,
    clock: Clock,
    output: AttackOutput,
    answer: QueryAnswer | None = None,
) -> None:
    """Asks the active attack for candidates for `pixels` [n, c, h, w]; candidates that arrive in time count (A15).

    `answer` answers its queries, if it may make any; its own time is paused meanwhile. If a player that answered before
    sends something malformed first, it may have written that after its last reply: then a fresh player is asked.
    """
    truth = None if labels is None else [int(label) for label in labels]
    started_at, fresh, player, paused = clock(), not pool.has_active_player, None, 0.0
    try:
        player = pool.acquire_player()
        started_at, paused = clock(), player.paused_seconds
        for delivered in player.perturb(pixels, truth, limits, answer):
            gate.admit(output.examples, pixels, delivered.index, delivered.pixels)
        output.seconds += clock() - started_at - (player.paused_seconds - paused)
    except SubmissionFault as fault:
        output.seconds += clock() - started_at - ((player.paused_seconds if player else 0.0) - paused)
        pool.discard_faulty_player(fault)
        missing = int((output.examples.forfeits == Forfeit.MISSING).sum())
        if not fresh and missing == len(pixels) and isinstance(fault, OutputFlood | ProtocolFault):
            output.faults.append(fault_record(fault, asked=len(pixels)))
            output.restarted = True
            ask_attack(pool, gate, limits, pixels, labels, clock, output, answer)
        else:
            output.faults.append(fault_record(fault, missing, len(pixels)))


def ask_defence(
    pool: PlayerPool, questions: QuestionPlan, pictures: Sequence[Pixels], clock: Clock, outcome: DefenceAnswers
) -> None:
    """Asks the active defence about each picture [c, h, w], a batch at a time, and writes its answers into `outcome`.

    Pictures that `outcome` has completed are not asked again. After an infrastructure fault it has the answers so far.
    """
    _ClassifyRun(pool, questions, pictures, clock, outcome).ask_all()


def ask_gradients(
    pool: PlayerPool,
    questions: QuestionPlan,
    pictures: Sequence[Pixels],
    labels: Labels,
    clock: Clock,
    outcome: DefenceAnswers,
) -> None:
    """Asks the active defence for the gradient of the loss for `labels` [k] at each picture; see `ask_defence`.

    Gradients take the place of scores: `outcome.scores` is f32 [k, c * h * w]. The answer of a picture whose gradient
    arrived is `NOT_ASKED`, as is that of every picture if the defence gives no gradients: then it is not asked.
    """
    _GradientRun(pool, questions, pictures, clock, outcome, labels=labels).ask_all()


_Reply = TypeVar("_Reply")


@dataclass(eq=False)
class _QuestionRun(ABC, Generic[_Reply]):
    """A run of questions in progress; `ready_at` is the clock's time when its first player was ready."""

    pool: PlayerPool
    questions: QuestionPlan
    pictures: Sequence[Pixels]
    clock: Clock
    outcome: DefenceAnswers
    ready_at: float | None = None

    @abstractmethod
    def _ask(self, player: Player, part: slice) -> _Reply:
        """Asks one question about a part of the pictures. Raises SubmissionFault, InfrastructureFault."""

    @abstractmethod
    def _write_reply(self, reply: _Reply, part: slice) -> None:
        """Writes the reply about a part of the pictures into `outcome`."""

    def ask_all(self) -> None:
        """Asks all remaining questions."""
        while self.outcome.completed < len(self.pictures):
            self.ask_next()

    def ask_next(self) -> None:
        """Asks the next question and writes its result into `outcome`."""
        outcome, pool = self.outcome, self.pool
        size = 1 if outcome.singles_left else self.questions.batch
        part = slice(outcome.completed, min(outcome.completed + size, len(self.pictures)))
        fresh, replacing, started_at = not pool.has_active_player, pool.replacement_due, self.clock()
        try:
            player = pool.acquire_player()
            if fresh or not outcome.sandbox_count:  # the first may have been started in the previous step
                outcome.sandbox_count += 1
            if replacing:
                self._charge_time(started_at)
            started_at = self._prepare_question(part)
            reply = self._ask(player, part)
        except GaveUp as fault:
            self._give_up(fault)
        except SubmissionFault as fault:
            outcome.seconds += self.clock() - started_at if pool.has_active_player else 0.0
            self._charge_time(started_at)
            self._record_fault(fault, part, fresh=fresh)
        else:
            outcome.seconds += self.clock() - started_at
            self._record_reply(reply, part)

    def _prepare_question(self, part: slice) -> float:
        """Pauses before a question, prestarts the next sandbox if each question has its own, and returns the time."""
        self.ready_at = self.clock() - self.outcome.elapsed if self.ready_at is None else self.ready_at
        # The player runs during the pause, which tests whether its answers depend on time.
        self.questions.pause_before(part.start)
        if self.questions.fresh_sandbox_each and part.stop < len(self.pictures):
            self.pool.prestart()
        return self.clock()

    def _charge_time(self, since: float) -> None:
        """In play, counts the time since `since` as time that faults cost."""
        if self.questions.scored:
            seconds = self.clock() - since
            self.outcome.fault_seconds += seconds
            self.pool.budget.spend(seconds)

    def _record_reply(self, reply: _Reply, part: slice) -> None:
        outcome = self.outcome
        outcome.answer_times[part] = self.clock() - (self.ready_at or 0.0)
        self._write_reply(reply, part)
        alone = outcome.singles_left > 0
        self._mark_completed(part)
        if self.questions.fresh_sandbox_each or (alone and self.questions.batch > 1):
            outcome.faults += self.pool.retire_player(replacement_due=alone)

    def _record_fault(self, fault: SubmissionFault, part: slice, *, fresh: bool) -> None:
        outcome, size = self.outcome, part.stop - part.start
        loaded = self.pool.has_active_player
        self.pool.discard_faulty_player(fault)
        attributable = loaded and fresh and size == 1
        charged = size if attributable or not self.questions.scored else 0
        outcome.faults.append(fault_record(fault, charged, size))
        if not charged:
            outcome.singles_left = size if loaded else outcome.singles_left
            return
        outcome.refused[part] = not isinstance(fault, DeadlinePassed)
        outcome.late[part] = isinstance(fault, DeadlinePassed)
        self._mark_completed(part)

    def _mark_completed(self, part: slice) -> None:
        """Marks pictures as having an outcome, from the sandbox that was started last."""
        outcome = self.outcome
        outcome.sandbox[part] = max(0, outcome.sandbox_count - 1)
        outcome.completed = part.stop
        outcome.singles_left = max(0, outcome.singles_left - 1)

    def _give_up(self, fault: GaveUp) -> None:
        """Ends the run: in play, the remaining pictures get the answer `NOT_PLAYED`."""
        outcome = self.outcome
        remaining = slice(outcome.completed, len(self.pictures))
        outcome.faults.append(fault_record(fault, remaining.stop - remaining.start))
        if self.questions.scored:
            outcome.answers[remaining] = NOT_PLAYED
        outcome.sandbox[remaining] = max(0, outcome.sandbox_count - 1)
        outcome.completed, outcome.singles_left = remaining.stop, 0


class _ClassifyRun(_QuestionRun[AnswersReply]):
    """Questions for labels and scores."""

    def _ask(self, player: Player, part: slice) -> AnswersReply:
        seeds = None if self.questions.seeds is None else list(self.questions.seeds[part])
        return player.classify(_batch(self.pictures[part]), self.questions.limits, seeds)

    def _write_reply(self, reply: AnswersReply, part: slice) -> None:
        outcome = self.outcome
        outcome.answers[part] = [ABSTAINED if label is None else label for label in reply.labels]
        if reply.scores is not None:
            if not self.questions.scored:  # only a determinism check uses margins
                outcome.margins[part] = relative_margins(reply.scores)
            outcome.scores[part] = reply.scores[:, : outcome.scores.shape[1]]


@dataclass(eq=False, kw_only=True)
class _GradientRun(_QuestionRun["NDArray[np.float32] | None"]):
    """Questions for gradients."""

    labels: Labels

    def _ask(self, player: Player, part: slice) -> NDArray[np.float32] | None:
        if not player.gives_gradients:
            return None
        return player.gradient(
            _batch(self.pictures[part]), [int(label) for label in self.labels[part]], self.questions.limits
        )

    def _write_reply(self, reply: NDArray[np.float32] | None, part: slice) -> None:
        self.outcome.answers[part] = NOT_ASKED
        if reply is not None:
            self.outcome.scores[part] = reply.reshape(len(reply), -1)


def _batch(pictures: Sequence[Pixels]) -> Pixels:
    """Returns pictures [n, c, h, w]; one alone is not copied."""
    return pictures[0][np.newaxis] if len(pictures) == 1 else np.stack(pictures)


def relative_margins(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns, for each row of scores [n, classes], the highest minus the second, over the largest absolute score.

    The margin is NaN if scores of the row are not finite, or all are zero.
    """
    values = np.sort(scores.astype(np.float64), axis=1)
    with np.errstate(all="ignore"):
        margins = (values[:, -1] - values[:, -2:][:, 0]) / np.maximum(values[:, -1], -values[:, 0])
    return np.where(np.isfinite(margins), margins, np.nan).astype(np.float32)
