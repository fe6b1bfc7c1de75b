"""Where jobs run. An executor decides neither order nor repetition: it runs what the plan says is ready.

A new executor is one file in this folder whose last line is `plugin = TheClass`. What a job does is handed in, so an
executor knows neither players nor ledgers.
"""

from collections.abc import Callable, Generator
from collections.abc import Set as AbstractSet
from typing import Protocol

from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.events import Event
from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Job, Plan

EventBatch = tuple[Event, ...]
"""What is kept together, all or nothing."""


class Emit(Protocol):
    """Takes what happened in a job."""

    def __call__(self, *events: Event) -> None:
        """Hands on events that are to be kept together, and returns when they are: a kill costs the step in flight.

        Raises:
            Cancelled: the run ended before they were kept.
        """
        ...


class JobHandle(Protocol):
    """One job about to be played."""

    def prepare(self) -> None:
        """Starts the first sandbox ahead of time, in the background. Optional; `run` works without it."""
        ...

    def run(self, emit: Emit) -> None:
        """Plays the job to its end and hands out what happened. Raises what cannot be retried any more."""
        ...

    def assignment(self, partial_step: PartialStep | None = None) -> Assignment:
        """Returns what is left of the job, for another process; `partial_step` is what that left the last time."""
        ...

    def cancel(self) -> None:
        """Ends it and has every job of its round end itself, from any thread. Safe to call twice and after `run`."""
        ...


MakeJob = Callable[[Job, str | None], JobHandle]
"""Makes the performance of a job on a device (the UUID of a GPU, or None)."""


DevicePreference = Callable[[Job, str | None], bool]
"""Returns whether a job is better played on this device than on one for which this is false."""


def any_device(job: Job, device: str | None) -> bool:
    """Every job suits every device."""
    del job, device
    return True


class Executor(Protocol):
    """What runs the jobs of a plan."""

    def run(
        self,
        plan: Plan,
        finished_jobs: AbstractSet[JobId],
        make_job: MakeJob,
        prefers_device: DevicePreference = any_device,
    ) -> Generator[EventBatch, None, None]:
        """Yields what happens until the plan is done. Each is kept before the next is asked for.

        A job that failed for good, for a reason of its own, is parked: that is yielded (`JobParked`), no other job of
        its submission is started, and everything that does not need it is played.

        Closed early, it ends what it runs, or lets go of what another may take up.

        A job starts only when everything it needs has been yielded as finished. A free device takes a job that suits
        it before others, and any before it is idle.
        """
        ...
