"""Decides whose fault it is that a node does not start a player: the player's, if the node starts others (rule X1).

The same runtime has started the driver beside it, so the node works at that moment. But a driver has no GPU. A node
whose GPU has failed starts no player from then on, gets all pods, because it is free, and is repaired some day. So if
players get GPUs, the node has to start another submission's player between two refusals of this one.
"""

import math
from collections import Counter
from collections.abc import Iterable

from orchestrator.executors.kubernetes.active_job import ActiveJob

MIN_START_FAILURES = 3
"""Refused attempts after which it is decided whose fault it is."""


class NodeStartHistory:
    """When each node last started a player of each submission: the creation time of its Job, by the controller.

    Args:
        gpus: whether players get GPUs.
    """

    def __init__(self, *, gpus: bool) -> None:
        self._gpus = gpus
        self._starts_by_node: dict[str, dict[str, float]] = {}

    def record_start(self, submission: str, node: str, job_created_at: float | None) -> None:
        """Records that a node started a player; `job_created_at` is None if an earlier controller created the Job."""
        if node:
            created = -math.inf if job_created_at is None else job_created_at
            self._starts_by_node.setdefault(node, {})[submission] = created

    def starts_others(self, job: ActiveJob, refused: str) -> bool:
        """Returns whether a node that refused the player of `refused` starts players of other submissions."""
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
    """Returns the submission whose player nodes refused `MIN_START_FAILURES` times; empty if there is none."""
    counts = Counter(failure.submission for failure in job.start_failures)
    return next((submission for submission, count in counts.items() if count >= MIN_START_FAILURES), "")


def others_may_start(job: ActiveJob, active_jobs: Iterable[ActiveJob]) -> bool:
    """Returns whether another submission's active job may still show that the nodes start players."""
    submission = job.start_failures[-1].submission if job.start_failures else job.attempt.job.submission
    return any(
        each is not job and each.attempt.job.submission != submission and len(each.start_failures) < MIN_START_FAILURES
        for each in active_jobs
    )
