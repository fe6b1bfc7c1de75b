"""Queries to one defence: what an attack wants to know is asked, and what is on record of it is kept."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.events import FaultRecord
from orchestrator.domain.organizer_attacks import DefenceReplies, GradientReplies
from orchestrator.domain.outcomes import FAULTED, NOT_ASKED, NOT_PLAYED, Answers, Scores
from orchestrator.domain.samples import Labels, Pixels
from orchestrator.errors import GaveUp, SubmissionFault
from orchestrator.execution import interactions
from orchestrator.execution.interactions import DefenceAnswers, QuestionPlan
from orchestrator.execution.player_pool import PlayerPool, fault_record
from orchestrator.execution.query_sample import AskedQuestion, QuestionSample
from orchestrator.execution.round_context import RoundContext
from orchestrator.ledger.stores.base import get_array, put_array

_REPLY_COLUMNS = 2


class DefenceQueries:
    """The queries of one step of a query job.

    A query that the defence does not answer is handled as in play: the sandbox is replaced, and a fault is charged to a
    picture only where it is the picture's own (rule A7).

    Args:
        pool: the defence's players.
        context: the round.
        sample: keeps some of the questions.
        resumed: what another process asked of the same step. The step begins again, and a query that comes as it came
            there is answered from it. From the first one that differs, everything is asked.
        gradient_price: as so many queries a gradient counts.
        resumable: whether another process may go on with the step, which needs all scores. It cannot once gradients
            were asked for, which are not kept.
    """

    def __init__(
        self,
        pool: PlayerPool,
        context: RoundContext,
        sample: QuestionSample,
        resumed: PartialStep | None = None,
        *,
        gradient_price: int = 1,
        resumable: bool = False,
    ) -> None:
        self._pool, self._context, self.sample = pool, context, sample
        self.fresh = not pool.has_active_player if resumed is None else resumed.fresh
        """Whether a fresh sandbox met the first query."""
        self.faults: list[FaultRecord] = [] if resumed is None else list(resumed.faults)
        self.seconds = 0.0 if resumed is None else resumed.seconds
        self.fault_seconds = 0.0 if resumed is None else resumed.fault_seconds
        self._gradient_price = gradient_price
        self._chain = hashlib.sha256()
        self._pictures: list[NDArray[np.int32]] = []
        self._answers: list[Answers] = []
        self._scores: list[Scores] | None = [] if resumable else None
        """Of every query, where the step is resumable."""
        self._open: DefenceAnswers | None = None
        self._asked: list[bytes] = []
        """The digest of every query so far, the open one last."""
        self._resumed = resumed
        self._known: DefenceReplies | None = None
        """What the queries to come were answered with in another process; None once this one asks itself."""
        if resumed is not None and resumed.blobs:
            answers, scores, self._known_asked = (get_array(context.blobs, resumed.blobs[n]) for n in _PARTIAL_ARRAYS)
            self._known = DefenceReplies(answers, scores)

    @property
    def transcript(self) -> str:
        """The hash of the chain so far: over pictures, answers and scores of every query in order."""
        return "sha256:" + self._chain.hexdigest()

    def replies(self) -> NDArray[np.int32]:
        """Returns picture and answer of every query in order, i32 [q, 2]."""
        if not self._pictures:
            return np.empty((0, _REPLY_COLUMNS), np.int32)
        return np.column_stack([np.concatenate(self._pictures), np.concatenate(self._answers)]).astype(np.int32)

    def pictures_with(self, answer: int) -> NDArray[np.int32]:
        """Returns the pictures about which a query was answered so, in no order and perhaps several times."""
        replies = self.replies()
        found: NDArray[np.int32] = replies[replies[:, 1] == answer, 0]
        return found

    def ask(self, pixels: Pixels, pictures: NDArray[np.int32]) -> DefenceReplies:
        """Asks about pictures u8 [k, c, h, w], each on behalf of a picture of the task [k].

        Raises:
            InfrastructureFault: a fault of ours.
        """
        answers = self._start(pixels, pictures)
        try:
            limits = self._context.limits
            plan = QuestionPlan(limits, limits.classify_batch, scored=True)
            interactions.ask_defence(self._pool, plan, list(pixels), self._context.clock, answers)
        finally:
            self.faults += answers.faults
            self.seconds += answers.seconds
            self.fault_seconds += answers.fault_seconds
        self._open = None
        self._note(pixels, pictures, answers)
        return DefenceReplies(answers.answers, answers.scores)

    def ask_gradients(self, pixels: Pixels, labels: Labels, pictures: NDArray[np.int32]) -> GradientReplies:
        """Asks for the gradient of the loss for `labels` [k] at pictures u8 [k, c, h, w]; see `ask`.

        A defence that gives no gradients is not asked, and has no fault. No other process can go on with a step in
        which gradients were asked for: they are not carried over.
        """
        self._scores = None
        batch = self._context.limits.classify_batch
        parts = [slice(start, start + batch) for start in range(0, len(pixels), batch)]
        found = [self._gradients(pixels[part], labels[part]) for part in parts]
        replies = GradientReplies(
            np.concatenate([part.answers for part in found]), np.concatenate([part.gradients for part in found])
        )
        self._pictures.append(np.repeat(pictures, self._gradient_price))
        self._answers.append(np.repeat(replies.answers, self._gradient_price))
        self._link(pixels, replies.answers.astype("<i4"), replies.gradients.astype("<f4"))
        return replies

    def _gradients(self, pixels: Pixels, labels: Labels) -> GradientReplies:
        """Asks one question; after a fault each of its pictures alone, in a sandbox of its own, as in play (A7)."""
        context, pool, nothing = self._context, self._pool, np.full(pixels.shape, np.nan, np.float32)
        fresh, began = not pool.has_active_player, context.clock()
        try:
            player = pool.acquire_player()
            if not player.gives_gradients:
                return GradientReplies(np.full(len(pixels), NOT_ASKED, np.int32), nothing)
            began = context.clock()
            gradients = player.gradient(pixels, [int(label) for label in labels], context.limits)
        except GaveUp as fault:
            self.faults.append(fault_record(fault, len(pixels)))
            return GradientReplies(np.full(len(pixels), NOT_PLAYED, np.int32), nothing)
        except SubmissionFault as fault:
            loaded, took = pool.has_active_player, context.clock() - began
            self.fault_seconds += took
            pool.budget.spend(took)
            pool.discard_faulty_player(fault)
            own = loaded and fresh and len(pixels) == 1
            self.faults.append(fault_record(fault, len(pixels) if own else 0, len(pixels)))
            if own:
                return GradientReplies(np.full(1, FAULTED, np.int32), nothing)
            alone = [self._gradients(pixels[[place]], labels[[place]]) for place in range(len(pixels))]
            answers, values = ([getattr(each, name) for each in alone] for name in ("answers", "gradients"))
            return GradientReplies(np.concatenate(answers), np.concatenate(values))
        self.seconds += context.clock() - began
        return GradientReplies(np.full(len(pixels), NOT_ASKED, np.int32), gradients)

    def _start(self, pixels: Pixels, pictures: NDArray[np.int32]) -> DefenceAnswers:
        """Returns the run of questions of a query, with what another process asked of it."""
        count = len(pixels)
        answers = self._open = DefenceAnswers.empty(count, len(self._context.task.classes))
        self._asked.append(_query_digest(pixels, pictures))
        known, resumed = self._known, self._resumed
        if known is None or resumed is None:
            return answers
        place = len(self._asked) - 1
        if place >= len(self._known_asked) or self._known_asked[place].tobytes() != self._asked[place]:
            self._known = None
            self._pool.budget.divergences += resumed.replacement_due
            return answers
        done = min(count, len(known.answers))
        answers.answers[:done], answers.scores[:done] = known.answers[:done], known.scores[:done]
        answers.completed = done
        self._known = DefenceReplies(known.answers[done:], known.scores[done:])
        if done < count:
            answers.singles_left, answers.sandbox_count = resumed.singles_left, resumed.sandbox_count
            self._known = None
        return answers

    def _note(self, pixels: Pixels, pictures: NDArray[np.int32], answers: DefenceAnswers) -> None:
        self._pictures.append(pictures)
        self._answers.append(answers.answers)
        if self._scores is not None:
            self._scores.append(answers.scores)
        for start in range(0, len(pixels), self._context.limits.classify_batch):
            asked = slice(start, start + self._context.limits.classify_batch)
            self.sample.offer(AskedQuestion(pixels[asked], pictures[asked], answers.answers[asked]))
        self._link(pixels, answers.answers.astype("<i4"), answers.scores.astype("<f4"))

    def _link(self, *parts: NDArray[Any]) -> None:
        """Adds a query to the chain."""
        link = hashlib.sha256(self._chain.digest())
        for part in parts:
            link.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        self._chain = link

    def partial_step(self, number: int) -> PartialStep | None:
        """Returns what was asked so far, for another process; None where nothing was, or the step is not resumable."""
        if self._scores is None:
            return None
        if self._known is not None and self._resumed is not None:  # this process has asked nothing itself
            return self._resumed.model_copy(update={"faults": self.faults})
        parts = list(zip(self._answers, self._scores, strict=True))
        open_ = self._open
        if open_ is not None:
            parts.append((open_.answers[: open_.completed], open_.scores[: open_.completed]))
        completed = sum(len(answers) for answers, _ in parts)
        if not completed and not self.faults:
            return None
        nothing = DefenceAnswers.empty(0, len(self._context.task.classes))
        parts.append((nothing.answers, nothing.scores))
        answers, scores = (np.concatenate([part[place] for part in parts]) for place in range(2))
        asked = np.frombuffer(b"".join(self._asked), np.uint8).reshape(-1, hashlib.sha256().digest_size)
        return PartialStep(
            step=number,
            completed=completed,
            blobs={
                name: put_array(self._context.blobs, array)
                for name, array in zip(_PARTIAL_ARRAYS, (answers, scores, asked), strict=True)
            },
            faults=self.faults,
            seconds=self.seconds,
            singles_left=open_.singles_left if open_ else 0,
            sandbox_count=open_.sandbox_count if open_ else 0,
            failed_starts=self._pool.budget.consecutive_failed_starts,
            fault_seconds=self.fault_seconds,
            fresh=self.fresh,
            divergences=self._pool.budget.divergences,
        )


_PARTIAL_ARRAYS = ("answers", "scores", "asked")
"""What of the queries is carried over to another process, by the names of its blobs: i32 [q], f32 [q, classes], and the
digest of each query, u8 [m, 32]."""


def _query_digest(pixels: Pixels, pictures: NDArray[np.int32]) -> bytes:
    """Returns what tells a query about pictures u8 [k, c, h, w] from every other one."""
    hashed = hashlib.sha256(pictures.astype("<i4").tobytes())
    hashed.update(np.ascontiguousarray(pixels).reshape(-1).data)
    return hashed.digest()
