"""Decides which failures affect one job only: it is parked for another run, and the others are played (rule X1)."""

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
"""Faults of what every job needs: the other jobs would fail too."""
_MAX_MESSAGE_CHARACTERS = 1000


def is_job_specific(error: BaseException) -> bool:
    """Returns whether an error may be caused by the one job that it ended, so that the others are played.

    These are all infrastructure faults except those of what all jobs share, and all errors in our own code: an effect
    of one submission must not end the round for others.
    """
    if isinstance(error, SparringError):
        return isinstance(error, InfrastructureFault) and not isinstance(error, _SHARED_FAULTS)
    return isinstance(error, Exception)


def parked_event(job: Job, error: BaseException) -> JobParked:
    """Returns the event that records a job that failed at every attempt."""
    code = error.code if isinstance(error, InfrastructureFault) else InfrastructureFault.code
    reason = str(error) if isinstance(error, SparringError) else f"{type(error).__name__}: {error}"
    message = printable(reason, _MAX_MESSAGE_CHARACTERS)
    return JobParked(job=job.id, stage=job.stage, submission=job.submission, code=code, message=message)
