"""Whose fault it is that a node does not start a player: the player's, where the node starts others (rule X1).

The same runtime has started the driver beside it, so the node works at that moment. But a driver has no GPU. A node
whose GPU has failed refuses everybody from then on, is given everybody, since it is free, and is mended some day; so
where players get one, another submission's has to be started there between two refusals of this one.
"""

import math
from collections.abc import Iterable

from orchestrator.executors.kubernetes.active_job import ActiveJob

MIN_START_FAILURES = 3
"""Attempts one after another that were refused, before anybody asks whose fault it is."""


class NodeStartHistory:
    """Which node started whose player last, and when that attempt was made, in the controller's time.

    Args:
        gpus: whether players get GPUs.
    """

    def __init__(self, *, gpus: bool) -> None:
        self._gpus = gpus
        self._made: dict[str, dict[str, float]] = {}

    def note(self, flight: ActiveJob, node: str) -> None:
        """Notes that a node started an attempt's player."""
        if node:
            self._made.setdefault(node, {})[flight.attempt.job.submission] = flight.made_at or -math.inf

    def others(self, flight: ActiveJob) -> bool:
        """Whether a node that refused this player starts another submission's."""
        own = flight.attempt.job.submission
        for node in {node for node, _ in flight.refusals}:
            times = [when for where, when in flight.refusals if where == node]
            made = [when for submission, when in self._made.get(node, {}).items() if submission != own]
            if any(min(times) < when < max(times) for when in made) if self._gpus else made:
                return True
        return False


def others_may_start(flight: ActiveJob, flights: Iterable[ActiveJob]) -> bool:
    """Whether anybody else's job is under way that may yet show what the nodes start."""
    own = flight.attempt.job.submission
    return any(each.attempt.job.submission != own and len(each.refusals) < MIN_START_FAILURES for each in flights)
