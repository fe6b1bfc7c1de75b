"""Whose fault it is that a node does not start a player: the player's, where the node starts others (rule X1).

The same runtime has started the driver beside it, so the node works at that moment. But a driver has no GPU. A node
whose GPU has failed refuses everybody from then on, is given everybody, since it is free, and is mended some day; so
where players get one, another submission's has to be started there between two refusals of this one.
"""

import math
from collections import Counter
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
        self._starts_by_node: dict[str, dict[str, float]] = {}

    def record_start(self, submission: str, node: str, job_created_at: float | None) -> None:
        """Notes that a node started a submission's player; None where an earlier controller created the Job."""
        if node:
            created = -math.inf if job_created_at is None else job_created_at
            self._starts_by_node.setdefault(node, {})[submission] = created

    def starts_others(self, job: ActiveJob, refused: str) -> bool:
        """Whether a node that refused the player of the submission `refused` starts another submission's."""
        failures = [failure for failure in job.start_failures if failure.submission == refused]
        for node in {failure.node for failure in failures}:
            times = [failure.time for failure in failures if failure.node == node]
            start_times = [
                when for submission, when in self._starts_by_node.get(node, {}).items() if submission != refused
            ]
            if any(min(times) < when < max(times) for when in start_times) if self._gpus else start_times:
                return True
        return False


def refused_submission(job: ActiveJob) -> str:
    """Returns whose player nodes refused so often that it is to be asked whose fault it is; empty where nobody's."""
    counts = Counter(failure.submission for failure in job.start_failures)
    return next((submission for submission, count in counts.items() if count >= MIN_START_FAILURES), "")


def others_may_start(job: ActiveJob, active_jobs: Iterable[ActiveJob]) -> bool:
    """Whether another submission's job is under way that may yet show what the nodes start."""
    submission = job.start_failures[-1].submission if job.start_failures else job.attempt.job.submission
    return any(
        each is not job and each.attempt.job.submission != submission and len(each.start_failures) < MIN_START_FAILURES
        for each in active_jobs
    )
