"""Jobs in threads of this process, one slot a device.

A slot is one CPU place or one GPU. On CPU slots the next job's first sandbox starts while a job plays, so that loading
is not waited for. On a GPU slot nothing starts ahead: two live sandboxes never share a GPU.
"""

import threading
import traceback
from collections.abc import Generator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import structlog

from orchestrator.domain.ids import JobId
from orchestrator.domain.parking import is_job_specific, parked_event
from orchestrator.domain.plan import Job, Plan
from orchestrator.errors import Cancelled, SparringError, UsageError
from orchestrator.executors.base import DevicePreference, EventBatch, JobHandle, MakeJob, any_device

_log = structlog.get_logger()
_POLL_SECONDS = 0.5
"""Seconds between two looks at signals: Python does not see one that came just before it began to wait."""


@dataclass(eq=False)
class _RunningJob:
    """A job on its way through a slot."""

    job: Job
    performance: JobHandle
    thread: threading.Thread | None = None


@dataclass(eq=False)
class _Slot:
    device: str | None
    work: _RunningJob | None = None


@dataclass(frozen=True, eq=False)
class _ThreadMessage:
    """What a thread has to say: what happened, or (without that) that its job ended, perhaps with an error."""

    slot: _Slot
    happened: EventBatch = ()
    error: BaseException | None = None
    kept: threading.Event = field(default_factory=threading.Event)


class LocalExecutor:
    """Runs jobs on this machine.

    Args:
        devices: one entry a slot: the UUID of a GPU, or None for a CPU place.
    """

    def __init__(self, devices: Sequence[str | None]) -> None:
        gpus = [device for device in devices if device is not None]
        if not devices:
            raise UsageError("no slots to play on; give at least one")
        if len(set(gpus)) != len(gpus):
            raise UsageError("a GPU is listed twice; every live sandbox has a GPU of its own")
        self._devices = tuple(devices)

    def run(
        self, plan: Plan, done: AbstractSet[JobId], perform: MakeJob, suits: DevicePreference = any_device
    ) -> Generator[EventBatch, None, None]:
        """Yields what happens until the plan is done. Of the jobs that are ready, a free GPU takes one that suits it.

        Raises:
            SparringError: what every job needs failed for good, or the round was cancelled. What happened up to then
                was yielded.
            ValueError: jobs are left that wait for something which nothing in the plan makes, and none is parked.
        """
        yield from _Run(_RunInput(plan, perform, suits), done, self._devices).events()


@dataclass(frozen=True, slots=True)
class _RunInput:
    """What is to be run, and how."""

    plan: Plan
    perform: MakeJob
    suits: DevicePreference


class _Run:
    def __init__(self, task: _RunInput, done: AbstractSet[JobId], devices: Sequence[str | None]) -> None:
        self._agenda, self._perform, self._suits = task.plan.agenda(done), task.perform, task.suits
        self._slots = [_Slot(device) for device in devices]
        self._ahead: list[_RunningJob] = []
        self._parked: set[str] = set()  # submissions
        self._news: SimpleQueue[_ThreadMessage] = SimpleQueue()
        self._over = threading.Event()

    def events(self) -> Iterator[EventBatch]:
        try:
            self._fill()
            while any(slot.work for slot in self._slots):
                news = self._next_news()
                if news.happened:
                    yield news.happened
                    news.kept.set()
                    continue
                work = news.slot.work
                if work is None:
                    raise RuntimeError("a slot spoke without work")
                if news.error is not None and not is_job_specific(news.error):
                    raise news.error
                if work.thread:
                    work.thread.join()
                news.slot.work = None
                if news.error is None:
                    self._agenda.finished(work.job.id)
                else:
                    yield self._park(work.job, news.error)
                self._fill()
            if (left := self._agenda.left) and not self._parked:
                raise ValueError(f"the plan cannot be done: {', '.join(left)} wait for what it does not hold")
        finally:
            self._end()

    def _park(self, job: Job, error: BaseException) -> EventBatch:
        self._parked.add(job.submission)
        event = parked_event(job, error)
        said = event.model_dump(mode="json", exclude={"kind"})
        if not isinstance(error, SparringError):
            said["trace"] = "".join(traceback.format_exception(error))
        _log.error("job_parked", **said)
        return (event,)

    def _next_news(self) -> _ThreadMessage:
        while True:
            with suppress(Empty):
                return self._news.get(timeout=_POLL_SECONDS)

    def _fill(self) -> None:
        # What suits no free device goes to whichever is left: an idle GPU shows nothing.
        for slot, suiting in ((slot, suiting) for suiting in (True, False) for slot in self._slots):
            if slot.work is None and (work := self._next(slot.device, suiting=suiting)):
                slot.work = work
                work.thread = threading.Thread(target=self._play, args=(slot, work), name=f"job-{work.job.id}")
                work.thread.start()
        places = sum(1 for slot in self._slots if slot.device is None and slot.work)
        while len(self._ahead) < places and (job := self._ready()):
            work = _RunningJob(job, self._perform(job, None))
            self._ahead.append(work)
            work.performance.prepare()

    def _next(self, device: str | None, *, suiting: bool) -> _RunningJob | None:
        if device is None and self._ahead:
            return self._ahead.pop(0)
        job = self._ready(device, suiting=suiting)
        return None if job is None else _RunningJob(job, self._perform(job, device))

    def _ready(self, device: str | None = None, *, suiting: bool = False) -> Job | None:
        return self._agenda.take(
            lambda job: job.submission not in self._parked and (not suiting or self._suits(job, device))
        )

    def _play(self, slot: _Slot, work: _RunningJob) -> None:
        error: BaseException | None = None
        try:
            work.performance.run(lambda *happened: self._hand_on(slot, happened))
        except BaseException as found:  # noqa: BLE001  carried to the main thread and raised there
            error = found
        self._news.put(_ThreadMessage(slot, error=error))

    def _hand_on(self, slot: _Slot, happened: EventBatch) -> None:
        """Waits until it is kept, so that no more than one step of a job is ever in nobody's hands."""
        news = _ThreadMessage(slot, happened)
        self._news.put(news)
        while not news.kept.wait(_POLL_SECONDS):
            if self._over.is_set():
                raise Cancelled("the round ended before this was kept")

    def _end(self) -> None:
        """Ends everything that still runs, also where ending one fails; after a complete run there is nothing."""
        self._over.set()
        running = [slot.work for slot in self._slots if slot.work]
        with ExitStack() as ending:  # which runs the last first
            for work in running:
                if work.thread and work.thread.ident:  # else it could not start
                    ending.callback(work.thread.join)
            for work in (*self._ahead, *running):
                ending.callback(work.performance.cancel)


plugin = LocalExecutor
