"""Runs jobs in threads of this process, one slot for each device.

A slot is a share of the processors or one GPU. On CPU slots the next job's first sandbox starts while a job plays, so
that its loading delays nothing, and begins when that job's last sandbox has only to end. On a GPU slot nothing starts
ahead: two live sandboxes never share a GPU.
"""

import threading
import traceback
from collections.abc import Generator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from orchestrator.domain.ids import JobId
from orchestrator.domain.job_failures import is_job_specific, parked_event
from orchestrator.domain.plan import Job, Plan
from orchestrator.errors import Cancelled, SparringError, UsageError
from orchestrator.executors.base import DevicePreference, EventBatch, JobHandle, MakeJob, any_device
from orchestrator.logs import get_logger

_log = get_logger()
_POLL_SECONDS = 0.5
"""Seconds between two checks for signals: Python does not see one that came just before it began to wait."""


@dataclass(eq=False)
class _RunningJob:
    """A job that runs in a slot, or that is prepared to."""

    job: Job
    handle: JobHandle
    thread: threading.Thread | None = None
    is_ending: bool = False
    """Whether only its last sandbox's end and its record are left, or nothing."""


@dataclass(eq=False)
class _Slot:
    device: str | None
    running: _RunningJob | None = None


@dataclass(frozen=True, eq=False)
class _ThreadMessage:
    """A message of a job's thread: a batch of events, that its slot is free, or its end, perhaps with an error."""

    work: _RunningJob
    batch: EventBatch = ()
    error: BaseException | None = None
    is_end: bool = False
    stored: threading.Event = field(default_factory=threading.Event)


class LocalExecutor:
    """Runs jobs on this machine.

    Args:
        devices: one entry for each slot: the UUID of a GPU, or None for a CPU slot.
    """

    def __init__(self, devices: Sequence[str | None]) -> None:
        gpus = [device for device in devices if device is not None]
        if not devices:
            raise UsageError("no slots to play on; give at least one")
        if len(set(gpus)) != len(gpus):
            raise UsageError("a GPU is listed twice; every live sandbox has a GPU of its own")
        self._devices = tuple(devices)

    def run(
        self,
        plan: Plan,
        finished_jobs: AbstractSet[JobId],
        make_job: MakeJob,
        prefers_device: DevicePreference = any_device,
    ) -> Generator[EventBatch, None, None]:
        """Yields the batches of events until the plan is done. A free GPU prefers a ready job that suits it.

        Raises:
            SparringError: something that every job needs failed finally, or the round was cancelled. The events up to
                then were yielded.
            ValueError: the remaining jobs need jobs that are not in the plan, and none is parked.
        """
        yield from _Run(_RunInput(plan, make_job, prefers_device), finished_jobs, self._devices).events()


@dataclass(frozen=True, slots=True)
class _RunInput:
    """The arguments of a run."""

    plan: Plan
    make_job: MakeJob
    prefers_device: DevicePreference


class _Run:
    def __init__(self, task: _RunInput, finished_jobs: AbstractSet[JobId], devices: Sequence[str | None]) -> None:
        self._queue, self._make_job, self._prefers_device = (
            task.plan.ready_queue(finished_jobs),
            task.make_job,
            task.prefers_device,
        )
        self._slots = [_Slot(device) for device in devices]
        self._running: list[_RunningJob] = []  # also those that have freed their slot
        self._prestarted: list[_RunningJob] = []
        self._parked: set[str] = set()  # submissions
        self._messages: SimpleQueue[_ThreadMessage] = SimpleQueue()
        self._ended = threading.Event()

    def events(self) -> Iterator[EventBatch]:
        try:
            self._fill_slots()
            while self._running:
                news = self._next_message()
                if news.batch:
                    yield news.batch
                    news.stored.set()
                    continue
                news.work.is_ending = True
                if news.is_end:
                    yield from self._end_job(news.work, news.error)
                self._free_slots()
                self._fill_slots()
            if (left := self._queue.remaining) and not self._parked:
                raise ValueError(f"the plan cannot be played: {', '.join(left)} wait for jobs that are not in it")
        finally:
            self._end_all()

    def _end_job(self, work: _RunningJob, error: BaseException | None) -> Iterator[EventBatch]:
        if error is not None and not is_job_specific(error):
            raise error
        if work.thread:
            work.thread.join()
        self._running.remove(work)
        if error is None:
            self._queue.mark_finished(work.job.id)
        else:
            yield self._park(work.job, error)

    def _park(self, job: Job, error: BaseException) -> EventBatch:
        self._parked.add(job.submission)
        event = parked_event(job, error)
        fields = event.model_dump(mode="json", exclude={"kind"})
        if not isinstance(error, SparringError):
            fields["trace"] = "".join(traceback.format_exception(error))
        _log.error("job_parked", **fields)
        return (event,)

    def _next_message(self) -> _ThreadMessage:
        while True:
            with suppress(Empty):
                return self._messages.get(timeout=_POLL_SECONDS)

    def _free_slots(self) -> None:
        """Frees the slots of jobs that have ended, and of jobs that are ending: at most as many as there are slots."""
        ending = len(self._running) - sum(slot.running in self._running for slot in self._slots)
        for slot in self._slots:
            if slot.running in self._running:
                if not slot.running.is_ending or ending == len(self._slots):
                    continue
                ending += 1
            slot.running = None

    def _fill_slots(self) -> None:
        # A job that suits no free device goes to any free one, so that no GPU is idle.
        for slot, suiting in ((slot, suiting) for suiting in (True, False) for slot in self._slots):
            if slot.running is None and (work := self._next_job(slot.device, preferred=suiting)):
                slot.running = work
                self._running.append(work)
                work.thread = threading.Thread(
                    target=self._run_job, args=(slot.device, work), name=f"job-{work.job.id}"
                )
                work.thread.start()
        places = sum(1 for slot in self._slots if slot.device is None and slot.running)
        while len(self._prestarted) < places and (job := self._take_ready()):
            work = _RunningJob(job, self._make_job(job, None))
            self._prestarted.append(work)
            work.handle.prepare()

    def _next_job(self, device: str | None, *, preferred: bool) -> _RunningJob | None:
        if device is None and self._prestarted:
            return self._prestarted.pop(0)
        job = self._take_ready(device, preferred=preferred)
        return None if job is None else _RunningJob(job, self._make_job(job, device))

    def _take_ready(self, device: str | None = None, *, preferred: bool = False) -> Job | None:
        return self._queue.take(
            lambda job: job.submission not in self._parked and (not preferred or self._prefers_device(job, device))
        )

    def _run_job(self, device: str | None, work: _RunningJob) -> None:
        error: BaseException | None = None

        def free_slot() -> None:
            if device is None:
                self._messages.put(_ThreadMessage(work))

        try:
            work.handle.run(lambda *happened: self._deliver(work, happened), free_slot)
        except BaseException as found:  # noqa: BLE001  carried to the main thread and raised there
            error = found
        self._messages.put(_ThreadMessage(work, error=error, is_end=True))

    def _deliver(self, work: _RunningJob, batch: EventBatch) -> None:
        """Passes events to the main thread and waits until they are stored: at most one step of a job is not yet."""
        news = _ThreadMessage(work, batch)
        self._messages.put(news)
        while not news.stored.wait(_POLL_SECONDS):
            if self._ended.is_set():
                raise Cancelled("the round ended before this was kept")

    def _end_all(self) -> None:
        """Cancels the jobs that still run or are prepared, even if cancelling one fails, and joins their threads."""
        self._ended.set()
        running = list(self._running)
        with ExitStack() as ending:  # calls the last first: all cancels before the joins
            for work in running:
                if work.thread and work.thread.ident:  # else the thread could not be started
                    ending.callback(work.thread.join)
            for work in (*self._prestarted, *running):
                ending.callback(work.handle.cancel)


plugin = LocalExecutor
