"""Which failures of a job are its own: it is parked for another run, and the others are played on (rule X1)."""

from orchestrator.domain.events import JobParked
from orchestrator.domain.plan import Job
from orchestrator.domain.text import printable
from orchestrator.errors import (
    BackendUnavailable,
    ClusterRefused,
    ClusterUnavailable,
    InfrastructureFault,
    LeaseLost,
    SparringError,
    StoreFault,
)

_SHARED_FAULTS = (BackendUnavailable, StoreFault, ClusterUnavailable, ClusterRefused, LeaseLost)
"""Faults of what every job needs: no other job would fare better."""
_MAX_MESSAGE_CHARACTERS = 1000


def is_job_specific(error: BaseException) -> bool:
    """Returns whether an error may be due to the one job that it ended, so that the others are played on.

    That is every fault of ours but those of what all jobs share, and every fault in our own code: what one submission
    brings about must not end the round for others.
    """
    if isinstance(error, SparringError):
        return isinstance(error, InfrastructureFault) and not isinstance(error, _SHARED_FAULTS)
    return isinstance(error, Exception)


def parked_event(job: Job, error: BaseException) -> JobParked:
    """Returns what is kept of a job that failed for good while the others are played on."""
    code = error.code if isinstance(error, InfrastructureFault) else InfrastructureFault.code
    reason = str(error) if isinstance(error, SparringError) else f"{type(error).__name__}: {error}"
    message = printable(reason, _MAX_MESSAGE_CHARACTERS)
    return JobParked(job=job.id, stage=job.stage, submission=job.submission, code=code, message=message)
