"""Puts the queries of an attack to one defence, and records them."""

import hashlib
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.access import MAX_TRANSCRIPT_BYTES
from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.events import FaultRecord
from orchestrator.domain.organizer_attacks import DefenceReplies, GradientReplies
from orchestrator.domain.outcomes import Answers, Scores
from orchestrator.domain.query_transcript import FullTranscript, ReplyRecord, TranscriptChain
from orchestrator.domain.samples import Labels, Pixels
from orchestrator.execution import player_questions
from orchestrator.execution.player_pool import PlayerPool
from orchestrator.execution.player_questions import DefenceAnswers, QuestionPlan
from orchestrator.execution.query_sample import AskedQuestion, QuestionSample
from orchestrator.execution.round_context import RoundContext
from orchestrator.ledger.stores.base import get_array, put_array

_PARTIAL_ARRAYS = ("answers", "scores", "gradients", "asked")
"""The names of the blobs with which another process continues: answers i32 [q], scores f32 [s, classes] and gradients
f32 [g, c * h * w] of the pictures for which each was asked, and the digest of each query, u8 [m, 32]."""


@dataclass(frozen=True, slots=True, eq=False)
class _Query:
    """One query and its reply: the pictures of the task for which it was made [k], and the answers [k].

    `values` are scores [k, classes] or gradients [k, c * h * w], `pixels` the pictures that were shown; None if they
    are not kept.
    """

    pictures: NDArray[np.int32]
    answers: Answers
    price: int
    gradients: bool
    values: NDArray[np.float32] | None
    pixels: Pixels | None


@dataclass(eq=False)
class _ResumedReplies:
    """Replies that another process got and that the attack did not ask for again yet; see `_PARTIAL_ARRAYS`."""

    answers: Answers
    scores: Scores
    gradients: NDArray[np.float32]
    asked: NDArray[np.uint8]

    def take(self, count: int, *, gradients: bool) -> tuple[Answers, NDArray[np.float32]]:
        """Removes and returns the answers and values of the next pictures, up to `count` of them."""
        answers, self.answers = self.answers[:count], self.answers[count:]
        if gradients:
            values, self.gradients = self.gradients[:count], self.gradients[count:]
        else:
            values, self.scores = self.scores[:count], self.scores[count:]
        return answers, values


class DefenceQueries:
    """The queries of one step of a query job.

    A query that the defence does not answer is handled as in play: the sandbox is replaced, and a fault is charged to a
    picture only if it is the picture's own (rule A7).

    Args:
        pool: the defence's players.
        context: the round.
        sample: keeps some of the questions.
        resumed: what another process played of the same step. The step begins again, and a query that is the same as
            there gets its recorded reply. From the first query that differs, the defence is asked.
        full: whether the whole transcript is kept.
        resumable: whether another process may continue the step, for which all scores and gradients are kept. Unless
            `full`, this ends when the gradients exceed `MAX_TRANSCRIPT_BYTES`.
    """

    def __init__(
        self,
        pool: PlayerPool,
        context: RoundContext,
        sample: QuestionSample,
        resumed: PartialStep | None = None,
        *,
        full: bool = False,
        resumable: bool = False,
    ) -> None:
        self._pool, self._context, self.sample = pool, context, sample
        self.fresh = not pool.has_active_player if resumed is None else resumed.fresh
        """Whether the first query went to a fresh sandbox."""
        self.faults: list[FaultRecord] = [] if resumed is None else list(resumed.faults)
        self.seconds = 0.0 if resumed is None else resumed.seconds
        self.fault_seconds = 0.0 if resumed is None else resumed.fault_seconds
        self._full, self._resumable = full, resumable
        self._chain = TranscriptChain()
        self._queries: list[_Query] = []
        self._gradient_bytes = 0
        self._open: tuple[DefenceAnswers, bool] | None = None
        """The query in progress, and whether it is for gradients."""
        self._asked: list[bytes] = []
        """The digest of every query so far, the open one last."""
        self._resumed = resumed
        self._known: _ResumedReplies | None = None
        """The replies of another process to the next queries; None once this process asks the defence itself."""
        if resumed is not None and resumed.blobs:
            self._known = _ResumedReplies(*(get_array(context.blobs, resumed.blobs[name]) for name in _PARTIAL_ARRAYS))

    @property
    def transcript(self) -> str:
        """The hash of the chain so far: over pictures, answers and scores or gradients of every query in order."""
        return self._chain.digest

    def replies(self) -> NDArray[np.int32]:
        """Returns picture, answer and price of every picture that was asked about, in order, i32 [q, 3]."""
        rows = [
            np.column_stack([query.pictures, query.answers, np.full(len(query.answers), query.price)])
            for query in self._queries
        ]
        return np.concatenate([np.empty((0, 3)), *rows]).astype(np.int32)

    def transcript_arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the arrays of a full transcript by their names; empty if it is not kept."""
        if not self._full:
            return {}
        return FullTranscript.of(
            [
                ReplyRecord(query.pixels, query.values, query.gradients)
                for query in self._queries
                if query.pixels is not None and query.values is not None
            ],
            self._context.task.shape,
            len(self._context.task.classes),
        ).arrays()

    def pictures_with(self, answer: int) -> NDArray[np.int32]:
        """Returns the pictures about which a query got this answer, in the order of the queries, with repetitions."""
        replies = self.replies()
        pictures: NDArray[np.int32] = replies[replies[:, 1] == answer, 0]
        return pictures

    def ask(self, pixels: Pixels, pictures: NDArray[np.int32], price: int = 1) -> DefenceReplies:
        """Asks for labels and scores of pictures u8 [k, c, h, w], each for one of the task's pictures [k], at a price.

        Raises:
            InfrastructureFault: our infrastructure failed.
        """
        answers = self._ask_and_record(pixels, pictures, None, price)
        return DefenceReplies(answers.answers, answers.scores)

    def ask_gradients(
        self, pixels: Pixels, labels: Labels, pictures: NDArray[np.int32], price: int = 1
    ) -> GradientReplies:
        """Asks for the gradient of the loss for `labels` [k] at pictures u8 [k, c, h, w]; see `ask`.

        A defence that gives no gradients is not asked, and has no fault.
        """
        answers = self._ask_and_record(pixels, pictures, labels, price)
        return GradientReplies(answers.answers, answers.scores.reshape(pixels.shape))

    def _ask_and_record(
        self, pixels: Pixels, pictures: NDArray[np.int32], labels: Labels | None, price: int
    ) -> DefenceAnswers:
        """Asks for labels and scores, or for gradients if `labels` are given, and records query and reply."""
        answers, limits = self._start(pixels, pictures, gradients=labels is not None), self._context.limits
        plan = QuestionPlan(limits, limits.classify_batch, scored=True)
        try:
            if labels is None:
                player_questions.ask_defence(self._pool, plan, list(pixels), self._context.clock, answers)
            else:
                player_questions.ask_gradients(self._pool, plan, list(pixels), labels, self._context.clock, answers)
        finally:
            self.faults += answers.faults
            self.seconds += answers.seconds
            self.fault_seconds += answers.fault_seconds
        self._open = None
        self._record(pixels, pictures, answers, price, gradients=labels is not None)
        return answers

    def _start(self, pixels: Pixels, pictures: NDArray[np.int32], *, gradients: bool) -> DefenceAnswers:
        """Returns the answers of a new query, with those that another process already got for it filled in."""
        count, columns = len(pixels), prod(pixels.shape[1:]) if gradients else len(self._context.task.classes)
        answers = DefenceAnswers.empty(count, columns)
        self._open = answers, gradients
        self._asked.append(_query_digest(pixels, pictures, gradients=gradients))
        known, resumed = self._known, self._resumed
        if known is None or resumed is None:
            return answers
        number = len(self._asked) - 1
        if number >= len(known.asked) or known.asked[number].tobytes() != self._asked[number]:
            self._known = None
            self._pool.budget.divergences += resumed.replacement_due
            return answers
        known_answers, values = known.take(count, gradients=gradients)
        done = len(known_answers)
        answers.answers[:done], answers.scores[:done] = known_answers, values
        answers.completed = done
        if done < count:
            answers.singles_left, answers.sandbox_count = resumed.singles_left, resumed.sandbox_count
            self._known = None
        return answers

    def _record(
        self, pixels: Pixels, pictures: NDArray[np.int32], answers: DefenceAnswers, price: int, *, gradients: bool
    ) -> None:
        self._gradient_bytes += answers.scores.nbytes if gradients else 0
        if self._gradient_bytes > MAX_TRANSCRIPT_BYTES and self._resumable and not self._full:
            self._resumable = False
            self._queries = [replace(query, values=None) for query in self._queries]
        values = answers.scores if self._full or self._resumable else None
        shown = pixels.copy() if self._full else None
        self._queries.append(_Query(pictures, answers.answers, price, gradients, values, shown))
        self._chain.link(pixels, answers.answers, answers.scores)
        if gradients:
            return
        for start in range(0, len(pixels), self._context.limits.classify_batch):
            asked = slice(start, start + self._context.limits.classify_batch)
            self.sample.offer(AskedQuestion(pixels[asked], pictures[asked], answers.answers[asked]))

    def partial_step(self, number: int) -> PartialStep | None:
        """Returns the queries so far, for another process; None without queries, or if the step is not resumable."""
        if not self._resumable:
            return None
        if self._known is not None and self._resumed is not None:  # this process has asked nothing itself
            return self._resumed.model_copy(update={"faults": self.faults})
        open_ = self._open[0] if self._open else None
        arrays = self._partial_arrays()
        completed = len(arrays["answers"])
        if not completed and not self.faults:
            return None
        return PartialStep(
            step=number,
            completed=completed,
            blobs={name: put_array(self._context.blobs, array) for name, array in arrays.items()},
            faults=self.faults,
            seconds=self.seconds,
            singles_left=open_.singles_left if open_ else 0,
            sandbox_count=open_.sandbox_count if open_ else 0,
            failed_starts=self._pool.budget.consecutive_failed_starts,
            fault_seconds=self.fault_seconds,
            fresh=self.fresh,
            divergences=self._pool.budget.divergences,
        )

    def _partial_arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the arrays with which another process continues, by name; see `_PARTIAL_ARRAYS`."""
        parts = [(query.answers, query.values, query.gradients) for query in self._queries]
        if self._open is not None:
            open_, gradients = self._open
            parts.append((open_.answers[: open_.completed], open_.scores[: open_.completed], gradients))
        task = self._context.task
        nothing = np.empty((0, len(task.classes)), np.float32), np.empty((0, prod(task.shape)), np.float32)
        scores, gradients_ = (
            np.concatenate([none, *(values for _, values, found in parts if found == wanted and values is not None)])
            for none, wanted in zip(nothing, (False, True), strict=True)
        )
        answers = np.concatenate([np.empty(0, np.int32), *(part[0] for part in parts)])
        asked = np.frombuffer(b"".join(self._asked), np.uint8).reshape(-1, hashlib.sha256().digest_size)
        return dict(zip(_PARTIAL_ARRAYS, (answers, scores, gradients_, asked), strict=True))


def _query_digest(pixels: Pixels, pictures: NDArray[np.int32], *, gradients: bool) -> bytes:
    """Returns the SHA-256 digest that identifies a query about pictures u8 [k, c, h, w]."""
    hashed = hashlib.sha256(bytes([gradients]) + pictures.astype("<i4").tobytes())
    hashed.update(np.ascontiguousarray(pixels).reshape(-1).data)
    return hashed.digest()
