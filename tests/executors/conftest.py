"""Fixtures for engines: performances that only record what happens to them, and wait on request."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import pytest

from orchestrator.domain.events import Event, JobFinished, JobParked
from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Job, Plan, Stage
from orchestrator.errors import Cancelled
from orchestrator.executors.base import DevicePreference, Emit, FreeSlot, any_device, keep_slot
from orchestrator.executors.local import LocalExecutor

PATIENCE = 20.0
"""A timeout in seconds that these tests reach only if something is broken."""


@dataclass
class Stagehand:
    """Makes performances and records what happens to them.

    A job named in `held` waits in `run` until it is released or cancelled; one in `ending` has freed its slot then.
    `kept` are the events that the caller has kept so far.
    """

    held: set[str] = field(default_factory=set)
    ending: set[str] = field(default_factory=set)
    errors: dict[str, BaseException] = field(default_factory=dict)
    cancel_errors: dict[str, BaseException] = field(default_factory=dict)
    made: list[tuple[str, str | None]] = field(default_factory=list)
    prepared: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    parked: list[JobParked] = field(default_factory=list)
    live: dict[str | None, int] = field(default_factory=dict)
    most: dict[str | None, int] = field(default_factory=dict)
    running: int = 0
    most_running: int = 0
    meeting: threading.Barrier | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def perform(self, job: Job, device: str | None) -> "Act":
        """Makes the performance of a job; on a device it is live from here to its end."""
        with self.changed:
            self.made.append((job.id, device))
            self.live[device] = self.live.get(device, 0) + 1
            self.most[device] = max(self.most.get(device, 0), self.live[device])
        return Act(self, job, device)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition on the records holds."""
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE), self

    def release(self, *jobs: str) -> None:
        """Lets held jobs continue."""
        with self.changed:
            self.held -= set(jobs)
            self.changed.notify_all()

    def keep(self, happened: Iterator[tuple[Event, ...]], upto: str | None = None) -> None:
        """Takes events as a dispatcher does, up to the end of a job or the last; keeps each before taking the next."""
        for event in chain.from_iterable(happened):
            if isinstance(event, JobParked):
                self.parked.append(event)
                continue
            assert isinstance(event, JobFinished)
            with self.changed:
                self.kept.append(event.job)
                self.changed.notify_all()
            if event.job == upto:
                return


class Act:
    """The performance of one job, which does nothing."""

    def __init__(self, stage: Stagehand, job: Job, device: str | None) -> None:
        self._stage, self._job, self._device = stage, job, device
        self._cancelled = False

    def prepare(self) -> None:
        """Records that the performance was started ahead."""
        with self._stage.changed:
            self._stage.prepared.append(self._job.id)
            self._stage.changed.notify_all()

    def run(self, emit: Emit, free_slot: FreeSlot = keep_slot) -> None:
        """Records start and end, waits while the job is held, and checks that its needs were kept before it started."""
        stage, job = self._stage, self._job
        with stage.changed:
            assert job.needs <= set(stage.kept), f"{job.id} started before its needs were kept"
            stage.started.append(job.id)
            stage.running += 1
            stage.most_running = max(stage.most_running, stage.running)
            stage.changed.notify_all()
        try:
            if job.id in stage.ending:
                free_slot()
            if stage.meeting is not None:
                stage.meeting.wait(PATIENCE)
            with stage.changed:
                assert stage.changed.wait_for(lambda: job.id not in stage.held or self._cancelled, PATIENCE)
            if self._cancelled:
                raise Cancelled("cancelled")
            if job.id in stage.errors:
                raise stage.errors[job.id]
            body = {"job": job.id, "stage": job.stage, "submission": job.submission, "device": self._device}
            emit(JobFinished(**body, seconds=0, sandboxes=[]))
        finally:
            with stage.changed:
                stage.running -= 1
                stage.live[self._device] -= 1
                stage.ended.append(job.id)
                stage.changed.notify_all()

    def cancel(self) -> None:
        """Ends it, held or not."""
        with self._stage.changed:
            self._stage.cancelled.append(self._job.id)
            self._cancelled = True
            self._stage.changed.notify_all()
        if self._job.id in self._stage.cancel_errors:
            raise self._stage.cancel_errors[self._job.id]


@pytest.fixture
def stage() -> Iterator[Stagehand]:
    """A stage. After the test, checks that no thread that it started is left."""
    before = set(threading.enumerate())
    found = Stagehand()
    yield found
    with found.changed:
        found.held.clear()
        found.changed.notify_all()
    assert set(threading.enumerate()) <= before


@pytest.fixture(scope="session")
def plan() -> Callable[..., Plan]:
    """Returns a function that makes a plan from words: in `plan("a", "b", "c<a,b")`, c needs a and b."""

    def make(*words: str) -> Plan:
        jobs = []
        for word in words:
            name, _, needs = word.partition("<")
            jobs.append(
                Job(
                    JobId(name),
                    Stage.CLASSIFY,
                    f"team-{name}",
                    needs=frozenset(map(JobId, needs.split(",") if needs else ())),
                )
            )
        return Plan(tuple(jobs))

    return make


@pytest.fixture
def play(stage) -> Callable[..., Iterator[Event]]:
    """Starts a plan on these devices and returns the engine's events."""

    def begin(
        plan: Plan,
        devices: Sequence[str | None] = (None,),
        done: Sequence[str] = (),
        suits: DevicePreference = any_device,
    ) -> Iterator[Event]:
        return LocalExecutor(devices).run(plan, frozenset(map(JobId, done)), stage.perform, suits)

    return begin
