"""Deletes Jobs that are not needed any more, with their pods."""

from collections import Counter
from dataclasses import dataclass

from orchestrator.domain.text import printable
from orchestrator.errors import UsageError
from orchestrator.executors.kubernetes.api import JOBS, LEASES, Api
from orchestrator.executors.kubernetes.labels import LABEL_PREFIX, ROUND_LABEL, round_label_value


@dataclass(frozen=True, slots=True)
class CleanupResult:
    """How many Jobs of each round were deleted, by the round's label."""

    jobs_by_round: dict[str, int]

    @property
    def total_jobs(self) -> int:
        """How many Jobs were deleted in all."""
        return sum(self.jobs_by_round.values())


def round_selector(commitment: str) -> str:
    """Returns the label selector of one round's objects."""
    return f"{ROUND_LABEL}={round_label_value(commitment)}"


def contest_selector(name: str) -> str:
    """Returns the label selector of the objects of all rounds of a contest."""
    return f"{LABEL_PREFIX}contest={name}"


def delete_jobs(api: Api, selector: str, *, include_held: bool) -> CleanupResult:
    """Deletes the Jobs that a selector matches, with their pods.

    `include_held`: also the Jobs of a round whose lease a controller holds; it creates them again as new attempts.

    Raises:
        UsageError: a controller holds a round's lease, and `include_held` is false.
    """
    jobs = api.search(JOBS, selector).items
    rounds = Counter(str((job["metadata"].get("labels") or {}).get(ROUND_LABEL, "")) for job in jobs)
    for of in rounds:
        holder = ((api.read(LEASES, f"sparring-{of}") or {}).get("spec") or {}).get("holderIdentity") if of else None
        if holder and not include_held:
            raise UsageError(
                f"{printable(str(holder))} holds the round {of}: end that controller first, as with kubectl scale "
                f"--replicas 0, or give --held, and it plays what was removed again"
            )
    gone = Counter(
        str((job["metadata"].get("labels") or {}).get(ROUND_LABEL, ""))
        for job in jobs
        if api.delete(JOBS, job["metadata"]["name"], job["metadata"]["uid"])
    )
    return CleanupResult(dict(gone))
