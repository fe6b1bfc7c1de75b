"""A round on the test cluster: drivers follow a script, the ledger is a list, and tests can kill the controller."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.events import (
    AttemptFailed,
    Event,
    FaultRecord,
    JobFinished,
    JobParked,
    SandboxRecord,
    StepFinished,
)
from orchestrator.domain.ids import JobId, digest
from orchestrator.domain.plan import Job, Plan, Stage
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.errors import SparringError
from orchestrator.executors.kubernetes.api import Client
from orchestrator.executors.kubernetes.controller import ControllerDeps
from orchestrator.executors.kubernetes.executor import KubernetesExecutor
from orchestrator.executors.kubernetes.labels import Attempt, RoundRef
from orchestrator.executors.kubernetes.shared_volume import AttemptFolder, DriverOutcome, SharedVolume
from orchestrator.executors.kubernetes.status_file import StatusFile, read_status
from orchestrator.executors.kubernetes.timings import ControllerTimings
from tests.kubernetes_api import Cluster, Node, Settings, Timings, eventually
from tests.kubernetes_api.processes import Fake, Fakes
from tests.kubernetes_api.tests.conftest import Http

from .rendering import image, rendered

STEPS = 2
"""The number of steps of every job here."""
WHOLE_JOB = ["0", "1", "end"]
"""The short forms of a finished job's events in the ledger."""
QUICK_TIMINGS = ControllerTimings(
    refresh_interval=0.1,
    min_interval=0.005,
    driver_exit_grace=0.5,
    driver_kill_grace=0.1,
    termination_grace=0.4,
    player_status_grace=10.0,
    quota_retry_interval=0.05,
    start_retry_interval=0.05,
    event_list_interval=0.05,
    pending_timeout=60.0,
)
TIMINGS = Timings(toleration=0, pod_backoff=0.01, create_retry=0.05, image_backoff=0.05, quarantine=0.02, bookmark=0.5)
SMALL_POLICY = SandboxPolicy(Limits(memory=2**24, cpus=0.01, tmp=2**20, shm=2**20))


def jobs_of(*words: str) -> Plan:
    """Returns a plan made from words: in `jobs_of("a", "b", "c<a,b")`, c needs a and b."""
    made = []
    for word in words:
        name, _, needs = word.partition("<")
        wanted = frozenset(map(JobId, needs.split(",") if needs else ()))
        made.append(Job(JobId(name), Stage.CLASSIFY, f"team-{name}", needs=wanted))
    return Plan(tuple(made))


def step(job: str, number: int, **more: Any) -> StepFinished:
    """A step of a job, always the same."""
    body = {"job": job, "stage": Stage.CLASSIFY, "submission": f"team-{job}", "step": number}
    return StepFinished(**(body | {"cells": [], "blobs": {}, "faults": [], "seconds": 1.0} | more))


def end(job: str, **more: Any) -> JobFinished:
    """The end of a job."""
    body = {"job": job, "stage": Stage.CLASSIFY, "submission": f"team-{job}", "device": None, "seconds": 1.0}
    return JobFinished(**(body | {"sandboxes": []} | more))


def sandbox(ending: str = "lost", code: int | None = None) -> SandboxRecord:
    """How a player ended."""
    return SandboxRecord(
        ending=ending,
        reason=ending,
        code=code,
        wall_seconds=1,
        cpu_seconds=None,
        peak_bytes=None,
        peak_pids=None,
        kills=0,
        sampled=True,
        stdin_bytes=None,
        stdout_bytes=None,
        stderr_bytes=None,
        stderr=None,
    )


def died() -> FaultRecord:
    """Returns the fault record that execution writes for a player that ended."""
    return FaultRecord(code="died", message="the player ended before it answered", pictures=1)


class Driver(Fake):
    """A running driver: its container, the attempt's folder, and its assignment."""

    def __init__(self, rig: "Rig", pod: dict[str, Any]) -> None:
        super().__init__(None)
        labels = pod["metadata"]["labels"]
        self.rig, self.pod = rig, pod
        self.job, self.number = labels["sparring/job"], int(labels["sparring/attempt"])
        self.name = labels["batch.kubernetes.io/job-name"]
        self.folder = rig.exchange.folder / self.name
        self.outbox = AttemptFolder(self.folder)
        self.text = ""
        self.assignment: Assignment | None = None

    def message(self) -> str:
        """The driver's termination message in its container's status."""
        return self.text

    def take(self) -> Assignment:
        """Reads the assignment."""
        self.assignment = self.outbox.take_assignment("a test")
        return self.assignment

    def send_signal(self, number: int) -> None:
        """Ends it, at once or after it has lingered."""
        if number == signal.SIGTERM and self.rig.linger:
            threading.Timer(self.rig.linger, self.end, (143,)).start()
        else:
            super().send_signal(number)

    @property
    def played(self) -> list[int]:
        """The steps of this job that the assignment has."""
        return [each.step for each in self.assignment.events if isinstance(each, StepFinished) and each.job == self.job]

    def hang(self, gate: threading.Event | None = None) -> bool:
        """Waits until the gate opens, or somebody ends the container; returns whether the gate opened."""
        while not self._ended.is_set():
            if gate is not None and gate.wait(0.002):
                return True
            if gate is None:
                self._ended.wait(0.01)
        return False


Script = Callable[[Driver], int]


def plays(driver: Driver) -> int:
    """A driver that plays everything that is left."""
    driver.take()
    left = [number for number in range(STEPS) if number not in driver.played]
    for number in left[:-1]:
        driver.outbox.write_events(step(driver.job, number))
    driver.outbox.write_events(step(driver.job, left[-1]), end(driver.job))
    driver.outbox.write_end(DriverOutcome.FINISHED)
    return 0


def crashes(driver: Driver) -> int:
    """A driver that plays one step and ends without a word."""
    driver.take()
    driver.outbox.write_events(step(driver.job, len(driver.played)))
    return 137


def is_spent(driver: Driver) -> int:
    """A driver that fails once, plays a step, and needs another player in the next."""
    driver.take()
    driver.outbox.write_events(AttemptFailed(job=driver.job, attempt=1, code="store", message="a blob was late"))
    driver.outbox.write_events(step(driver.job, len(driver.played)))
    driver.outbox.write_end(DriverOutcome.NEEDS_PLAYER, PartialStep(step=len(driver.played) + 1, completed=3))
    return 0


def hangs(driver: Driver) -> int:
    """A driver that plays one step and then waits to be ended."""
    driver.take()
    driver.outbox.write_events(step(driver.job, len(driver.played)))
    driver.hang()
    return 137


class ScriptedContainers:
    """The hook: `prepare` ends at once, players wait, drivers follow their script."""

    def __init__(self) -> None:
        self.rigs: dict[str, Rig] = {}
        self.fakes = Fakes()

    def __call__(self, container: dict[str, Any], pod: dict[str, Any]) -> Fake:
        """Starts a container."""
        if container["name"] != "driver":
            made = self.fakes(container, pod)
            if container["name"] == "prepare":
                made.end(0)
            return made
        rig = self.rigs[pod["metadata"]["labels"]["sparring/of"]]
        driver = Driver(rig, pod)
        rig.drivers.append(driver)
        threading.Thread(target=self._run, args=(rig, driver), daemon=True).start()
        return driver

    def _run(self, rig: "Rig", driver: Driver) -> None:
        script = rig.scripts.get((driver.job, driver.number), rig.script)
        try:
            code = script(driver)
        except Exception as error:  # noqa: BLE001  kept for the test, which looks at it
            rig.problems.append(error)
            code = 3
        driver.end(code)
        player = self.fakes.running.get((driver.pod["metadata"]["name"], "player"))
        if player is not None and not rig.players_hang:
            player.end(0)


@dataclass
class FakeLease:
    """A lease that is always held, until a test takes it away."""

    error: BaseException | None = None

    def ensure_held(self) -> None:
        """Raises what the test wants."""
        if self.error is not None:
            raise self.error


@dataclass(eq=False)
class Rig:
    """One round on the cluster."""

    cluster: Cluster
    exchange: SharedVolume
    bout: RoundRef
    hook: ScriptedContainers
    script: Script = plays
    scripts: dict[tuple[str, int], Script] = field(default_factory=dict)
    drivers: list[Driver] = field(default_factory=list)
    problems: list[Exception] = field(default_factory=list)
    ledger: list[Event] = field(default_factory=list)
    players_hang: bool = False
    linger: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)
    pace: ControllerTimings = QUICK_TIMINGS
    most: int = 20
    halves: list[PartialStep | None] = field(default_factory=list)
    unstarted: list[str] = field(default_factory=list)
    parked: list[JobParked] = field(default_factory=list)

    def api(self, patience: float = 5.0) -> Client:
        """The API over HTTP."""
        return Client.connect_to_url(self.cluster.url, "default", patience)

    def render(self, attempt: Attempt) -> dict[str, Any]:
        """The Job of an attempt."""
        return rendered(image(), SMALL_POLICY, attempt, namespace="default", driver_memory=2**26, **self.settings)

    def unplayed(self, assignment: Assignment, refused: str, why: str) -> list[tuple[Event, ...]]:
        """Returns the events of a job whose player no node starts, and keeps the reason."""
        assert refused
        self.unstarted.append(why)
        mine = (each for each in assignment.events if isinstance(each, StepFinished) and each.job == assignment.job)
        begun = {each.step for each in mine}
        steps = [step(assignment.job, n, faults=[died()]) for n in range(STEPS) if n not in begun]
        return [(each,) for each in steps[:-1]] + [(steps[-1], end(assignment.job))]

    def site(self, **changes: Any) -> ControllerDeps:
        """A site with everything that is not changed."""
        board = StatusFile(self.exchange.folder)
        given = {"api": self.api(), "shared_volume": self.exchange, "round_ref": self.bout, "render_job": self.render}
        given |= {"lease": FakeLease(), "status_file": board, "max_jobs": self.most, "timings": self.pace}
        given |= {"finish_without_player": self.unplayed}
        return ControllerDeps(**(given | changes))

    @property
    def done(self) -> frozenset[JobId]:
        """The finished jobs."""
        return frozenset(JobId(each.job) for each in self.ledger if isinstance(each, JobFinished))

    def run(self, plan: Plan, **changes: Any) -> Iterator[tuple[Event, ...]]:
        """Starts a controller; events are kept when the next are asked for, as a dispatcher does it."""
        return KubernetesExecutor(self.site(**changes)).run(plan, self.done, lambda job, _: FakeJobHandle(self, job))

    def play(self, plan: Plan, **changes: Any) -> list[Event]:
        """Plays a plan to its end and returns the ledger; the jobs that were given up are kept in `parked`."""
        for batch in self.run(plan, **changes):
            self.parked += [each for each in batch if isinstance(each, JobParked)]
            self.ledger += [each for each in batch if not isinstance(each, JobParked)]
        return self.ledger

    @contextmanager
    def parks(self, kind: type[SparringError], match: str = "") -> Iterator[None]:
        """Checks that jobs are given up while the block lasts, for a fault of this type with matching words."""
        before = len(self.parked)
        yield
        told = self.parked[before:]
        assert {event.code for event in told} == {kind.code}
        assert any(re.search(match, event.message) for event in told)

    def kinds(self, job: str) -> list[str]:
        """Returns the short forms of one job's events in the ledger."""
        found = [each for each in self.ledger if each.job == job]
        return [short(each) for each in found]

    def job(self, name: str) -> dict[str, Any] | None:
        """A Job on the cluster."""
        return self.cluster.read("jobs", name, group="batch")

    def attempt(self, plan: Plan, job: str, number: int = 1) -> Attempt:
        """An attempt at a job."""
        return Attempt(self.bout, plan.by_id[JobId(job)], number)

    def left_over(self) -> list[str]:
        """What is left on the cluster and in the exchange of this round."""
        names = [path.name for path in self.exchange.folder.iterdir() if path.is_dir()]
        shelf = self.cluster.store.shelf(self.cluster.catalogue.of("jobs", "batch"))
        return names + [key[1] for key in shelf.by_label.get(("sparring/of", self.bout.label_value), ())]


def short(event: Event) -> str:
    """An event in short."""
    match event:
        case StepFinished():
            return str(event.step)
        case AttemptFailed():
            return f"{event.code}:{event.attempt}"
        case JobFinished():
            return "end"
    return event.kind


@dataclass(frozen=True)
class FakeJobHandle:
    """A performance that is only ever assigned."""

    rig: Rig
    job: Job

    def assignment(self, half: PartialStep | None = None) -> Assignment:
        """What is on record of the job."""
        rig = self.rig
        rig.halves.append(half)
        assert self.job.needs <= rig.done, f"{self.job.id} was assigned before its needs were kept"
        mine = [each for each in rig.ledger if each.job == self.job.id or each.job in self.job.needs]
        return Assignment(job=self.job.id, run="run", secret="0" * 64, image="image", events=mine, partial_step=half)


@contextmanager
def clusters(
    nodes: tuple[Node, ...] | None = None, timings: Timings = TIMINGS
) -> Iterator[tuple[Cluster, ScriptedContainers]]:
    """A cluster with the claim that pods mount."""
    hook = ScriptedContainers()
    with Cluster(hook, nodes or (Node(gpus=2, cpu="64", pods=500),), Settings(timings=timings)) as cluster:
        claim = {
            "metadata": {"name": "sparring-work"},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        path = "/api/v1/namespaces/default/persistentvolumeclaims"
        assert Http(cluster.url)("POST", path, claim).code == 201
        yield cluster, hook


def rig_on(cluster: Cluster, hook: ScriptedContainers, folder: Path, name: str = "one", **more: Any) -> Rig:
    """A round on a cluster; every name is another round's."""
    bout = RoundRef("cup", "final", "digits", digest(name))
    rig = Rig(cluster, SharedVolume(folder / "cluster"), bout, hook, **more)
    rig.exchange.folder.mkdir(parents=True, exist_ok=True)
    hook.rigs[bout.label_value] = rig
    return rig


def alone(folder: Path) -> Iterator[Rig]:
    """Yields a round on a cluster of its own, and ends its drivers."""
    with clusters() as (cluster, hook):
        yield rig_on(cluster, hook, folder)
        for driver in [each for found in hook.rigs.values() for each in found.drivers]:
            driver.end(0)


def pod_of(rig: Rig, name: str) -> str:
    """Waits for a Job's pod whose driver has begun; returns its name."""
    wait((rig.exchange.folder / name / "0001.json").exists, "a driver that plays")
    [pod] = rig.cluster.pods_of(name)
    return pod["metadata"]["name"]


def words(rig: Rig) -> str:
    """Returns the status of the first attempt in words."""
    shown = read_status(rig.exchange.folder)
    return shown.jobs[0].description if shown and shown.jobs else ""


def board(rig: Rig) -> dict[str, str]:
    """Returns the status of each job's attempt."""
    shown = read_status(rig.exchange.folder)
    return {row.job: row.description for row in shown.jobs} if shown else {}


def attempt_board(driver: Driver) -> str:
    """Returns the status of a driver's own attempt; the board may still show the attempt before it."""
    shown = read_status(driver.rig.exchange.folder)
    rows = shown.jobs if shown else []
    return next((row.description for row in rows if (row.job, row.attempt) == (driver.job, driver.number)), "")


def wait(condition: Callable[[], object], what: str = "", seconds: float = 60.0) -> Any:
    """Waits for a condition."""
    return eventually(condition, what, seconds)


def in_thread(act: Callable[[], Any]) -> tuple[threading.Thread, list[BaseException]]:
    """Runs a function in a thread; the list gets the exception that it raised."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001  the test looks at it
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, errors


def soon() -> None:
    """Sleeps briefly, so that other threads can work."""
    time.sleep(0.02)
