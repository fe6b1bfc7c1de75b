"""Logs the progress of a query job about once a minute, because such a job may take hours."""

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.organizer_attacks import DefenceReplies, GradientReplies, QueriedDefence
from orchestrator.domain.plan import Cell
from orchestrator.domain.samples import Labels, Pixels
from orchestrator.execution.round_context import RoundContext
from orchestrator.logs import QUERY_PROGRESS, get_logger

SECONDS_BETWEEN = 60.0
"""The fewest seconds between two lines of the log."""
_log = get_logger()


class QueryProgress:
    """Counts the queries and pictures of a query job, and logs them."""

    def __init__(self, context: RoundContext, cell: Cell) -> None:
        self._log = _log.bind(contest=context.contest, round=context.round, submission=cell.defence, attack=cell.attack)
        self._clock = context.clock
        self._began_at = self._logged_at = self._clock()
        self._pictures = self._most_queries = self._done = self._done_here = self._queries = 0

    def begin(self, pictures: int, most_queries: int) -> None:
        """Sets how many pictures the job has, and the most queries that one of them costs."""
        self._pictures, self._most_queries = pictures, most_queries
        self._began_at = self._logged_at = self._clock()

    def begin_step(self, done: int) -> None:
        """Sets how many pictures are in the steps before the one that begins."""
        self._done = done

    def count_pictures(self, count: int) -> None:
        """Counts pictures that are finished."""
        self._done += count
        self._done_here += count

    def count_queries(self, count: int) -> None:
        """Counts queries, and logs the progress if the last line is at least `SECONDS_BETWEEN` old.

        `seconds_left` is estimated from the pictures that this process finished, `most_seconds_left` from the most
        queries that the remaining pictures cost.
        """
        self._queries += count
        now = self._clock()
        if now - self._logged_at < SECONDS_BETWEEN:
            return
        self._logged_at, spent, left = now, now - self._began_at, self._pictures - self._done
        estimate = {"seconds_left": round(spent / self._done_here * left)} if self._done_here else {}
        self._log.info(
            QUERY_PROGRESS,
            pictures=f"{self._done} of {self._pictures}",
            queries=self._queries,
            queries_per_second=round(self._queries / spent),
            most_seconds_left=round(left * self._most_queries * spent / self._queries),
            **estimate,
        )


class WatchedDefence:
    """A defence whose queries are counted."""

    def __init__(self, defence: QueriedDefence, progress: QueryProgress) -> None:
        self._defence, self._progress = defence, progress

    def ask(self, pixels: Pixels, pictures: NDArray[np.int32], price: int = 1) -> DefenceReplies:
        """See `QueriedDefence.ask`."""
        replies = self._defence.ask(pixels, pictures, price)
        self._progress.count_queries(len(pixels))
        return replies

    def ask_gradients(
        self, pixels: Pixels, labels: Labels, pictures: NDArray[np.int32], price: int = 1
    ) -> GradientReplies:
        """See `QueriedDefence.ask_gradients`."""
        replies = self._defence.ask_gradients(pixels, labels, pictures, price)
        self._progress.count_queries(len(pixels))
        return replies
