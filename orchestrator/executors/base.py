"""The interface of executors, which decide where jobs run.

An executor decides neither order nor repetition: it runs the jobs that are ready according to the plan. It gets a
function that makes jobs, so it knows neither players nor ledgers. A new executor is one file in this folder whose last
line is `plugin = TheClass`.
"""

from collections.abc import Callable, Generator
from collections.abc import Set as AbstractSet
from typing import Protocol

from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.events import Event
from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Job, Plan

EventBatch = tuple[Event, ...]
"""Events that the ledger stores together, all or none."""


class Emit(Protocol):
    """Passes a job's events to the ledger."""

    def __call__(self, *events: Event) -> None:
        """Returns when the events are stored, all together, so that a kill loses only the step in progress.

        Raises:
            Cancelled: the run ended before they were stored.
        """
        ...


FreeSlot = Callable[[], None]


def keep_slot() -> None:
    """Does nothing: the job's slot is free when the job has ended."""


class JobHandle(Protocol):
    """One job, to be played once."""

    def prepare(self) -> None:
        """Starts the first sandbox ahead of time, in the background. Optional; `run` works without it."""
        ...

    def run(self, emit: Emit, free_slot: FreeSlot = keep_slot) -> None:
        """Plays the job to its end and emits its events. Raises errors that are not retried any more.

        It may call `free_slot` once, when only the last sandbox's end and its record are left: the next job can begin
        meanwhile.
        """
        ...

    def assignment(self, partial_step: PartialStep | None = None) -> Assignment:
        """Returns the rest of the job, for another process; `partial_step` is what the previous process left."""
        ...

    def cancel(self) -> None:
        """Ends this job and makes every job of its round end itself. Any thread may call it, twice or after `run`."""
        ...


MakeJob = Callable[[Job, str | None], JobHandle]
"""Returns the handle that plays a job on a device (the UUID of a GPU, or None)."""


DevicePreference = Callable[[Job, str | None], bool]
"""Returns whether a job is better played on this device than on one for which this is false."""


def any_device(job: Job, device: str | None) -> bool:
    """Returns True: every job suits every device."""
    del job, device
    return True


class Executor(Protocol):
    """Runs the jobs of a plan."""

    def run(
        self,
        plan: Plan,
        finished_jobs: AbstractSet[JobId],
        make_job: MakeJob,
        prefers_device: DevicePreference = any_device,
    ) -> Generator[EventBatch, None, None]:
        """Yields the batches of events until the plan is done. The caller stores each batch before it takes the next.

        A job that failed finally for a reason of its own is parked: its `JobParked` event is yielded, no other job of
        its submission is started, and all jobs that do not need it are played.

        If the generator is closed early, it ends the jobs that it runs, or leaves them for another process to continue.

        A job starts only after the ends of all jobs that it needs have been yielded. A free device takes a job that
        prefers it before others, and takes any job rather than be idle.
        """
        ...
