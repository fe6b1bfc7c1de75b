"""The broker: an attack asks, a defence answers, and neither ever sees the other (rule X6).

It connects two sandboxes and passes on labels, scores or gradients, and nothing else. It counts the queries about each
picture, and refuses a query that asks for more than the picture has left.
"""

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.access import Access, AccessKind
from orchestrator.domain.organizer_attacks import QueriedDefence
from orchestrator.domain.outcomes import FAULTED, NOT_ASKED, NOT_PLAYED, Answers, Scores
from orchestrator.domain.queries import QueryFailure, QueryRecord
from orchestrator.domain.samples import Labels, Pixels
from orchestrator.domain.tasks import Budget
from orchestrator.execution.round_context import Clock
from orchestrator.measures import norms
from orchestrator.protocol.messages import Refusal, Want
from orchestrator.protocol.session import AttackQuery, QueryReply


class Broker:
    """Answers the queries of one question to an attack.

    Args:
        access: the access model, which says what an attack may query.
        budget: how far a candidate may be from its picture; one within it that the defence does not classify correctly
            is a success (rule A7).
        queries: puts queries to the defence.
        first: the number of the question's first picture in the task.
        originals: the pictures of the question, u8 [n, c, h, w].
        labels: their true labels [n].
        clock: times the grid on which replies are sent.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        access: Access,
        budget: Budget,
        queries: QueriedDefence,
        first: int,
        originals: Pixels,
        labels: Labels,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._access, self._budget, self._queries, self._first = access, budget, queries, first
        self._originals, self._labels = originals, labels
        self._clock, self._sleep, self._started_at = clock, sleep, clock()
        self.record = QueryRecord.empty(len(originals))
        """The queries so far, for each picture of the question."""
        self.record.attacked[:] = True

    def answer(self, query: AttackQuery) -> QueryReply:
        """Returns the reply to an attack's query.

        A query that costs more than one of its pictures has left is refused as a whole, and costs nothing.

        Raises:
            InfrastructureFault: our infrastructure failed.
        """
        positions = np.asarray(query.positions, np.int32)
        wanted, price = Counter(query.positions), self._access.prices[AccessKind(query.want)]
        if any(self._left(position) < count * price for position, count in wanted.items()):
            return self._on_grid(QueryReply(self._left_each(query), refused=Refusal.BUDGET))
        if query.want is Want.GRADIENT:
            replied = self._queries.ask_gradients(query.pixels, self._labels[positions], positions + self._first, price)
            self._record_answers(query.pixels, positions, replied.answers, price)
            return self._on_grid(QueryReply(self._left_each(query), values=replied.gradients))
        replies = self._queries.ask(query.pixels, positions + self._first, price)
        self._record_answers(query.pixels, positions, replies.answers, price)
        left = self._left_each(query)
        if query.want is Want.SCORES:
            return self._on_grid(QueryReply(left, values=self._shown_scores(replies.scores)))
        return self._on_grid(QueryReply(left, labels=[int(a) if a >= 0 else None for a in replies.answers]))

    def _left(self, position: int) -> int:
        return self._access.queries - int(self.record.queries[position])

    def _left_each(self, query: AttackQuery) -> list[int]:
        return [self._left(position) for position in query.positions]

    def _record_answers(self, pixels: Pixels, positions: NDArray[np.int32], answers: Answers, price: int) -> None:
        """Counts the queries; records each picture's first success within the budget, and the defence's failures."""
        record, right = self.record, self._labels[positions]
        wrong = (answers != right) & (answers != NOT_ASKED)  # an abstention is wrong too (A7)
        inside = np.zeros(len(positions), np.bool_)
        if wrong.any():  # distances matter only for these pictures
            inside[wrong], _ = norms.judge_candidates(self._originals[positions[wrong]], pixels[wrong], self._budget)
        for position, answer, counts in zip(positions, answers, inside, strict=True):
            record.queries[position] += price
            if answer == NOT_PLAYED:
                record.failures[position] = QueryFailure.NOT_PLAYED
            elif counts:
                if answer == FAULTED:
                    record.failures[position] = QueryFailure.FAULTED
                if not record.fooled_at[position]:
                    record.fooled_at[position] = record.queries[position]

    def _shown_scores(self, scores: Scores) -> NDArray[np.float32]:
        """Returns what the access model shows of scores [k, classes], NaN for what it withholds."""
        shown = scores if self._access.decimals is None else np.round(scores, self._access.decimals)
        if self._access.top_score_only and shown.shape[1]:
            largest = np.zeros(shown.shape, np.bool_)
            largest[np.arange(len(shown)), np.where(np.isnan(shown), -np.inf, shown).argmax(axis=1)] = True
            shown = np.where(largest, shown, np.nan)
        return np.ascontiguousarray(shown, np.float32)

    def _on_grid(self, reply: QueryReply) -> QueryReply:
        """Waits until the next time at which replies are sent, and returns the reply."""
        if grid := self._access.reply_seconds:
            self._sleep(grid - (self._clock() - self._started_at) % grid)
        return reply
