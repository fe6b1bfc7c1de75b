"""Complete pods without a cluster: prepare, player and driver as containers of a Docker engine, without any network.

The driver is the runner image's own `sparring pod play`. Its container and the player's share what containers of a pod
share, and it has a folder in place of the volume. The caller takes the controller's part.
"""

import hashlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker

from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.plan import Job
from orchestrator.executors.base import EventBatch
from orchestrator.executors.kubernetes.labels import Attempt, RoundRef
from orchestrator.executors.kubernetes.pod_manifest import FIFO_DIR
from orchestrator.executors.kubernetes.shared_volume import AttemptEnd, DriverOutcome, SharedVolume
from orchestrator.sandboxes.base import SandboxSpec

from .pods import DRIVER, RUNNER, Pod

PACKAGE = Path(__file__).parents[2] / "orchestrator"
LONGEST = 120
"""How many seconds a driver of these tests may take."""
LET_GO = 10
"""Within how many seconds after its driver's end a player has to end."""
_SUM = "find . -name '*.py' | LC_ALL=C sort | xargs cat | sha256sum"


def stale(client: docker.DockerClient) -> bool:
    """Returns whether the runner image was built from other sources than those here."""
    there = client.containers.run(
        RUNNER,
        ["-c", f"cd /opt/sparring/orchestrator && {_SUM}"],
        entrypoint=["/opt/runner/sh"],
        network_mode="none",
        remove=True,
    )
    names = sorted(f"./{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*.py"))
    here = hashlib.sha256(b"".join((PACKAGE / name).read_bytes() for name in names)).hexdigest()
    return bool(there.split()[0].decode() != here)


@dataclass
class Ended:
    """How a driver's container ended: exit code, log, and for how many seconds the player's container outlived it."""

    code: int
    log: str
    outlived: float


@dataclass
class Driven:
    """An executor's engine (see executors/base.py) that plays pods on a Docker engine, one after another."""

    template: Pod
    """A pod that an init container prepared; each attempt plays in a copy of it."""
    volume: Path
    bout: RoundRef
    sandbox_spec: Any
    """Returns the sandbox specification of a submission's player."""
    ended: dict[str, Ended] = field(default_factory=dict)
    outcomes: list[tuple[str, DriverOutcome]] = field(default_factory=list)

    @property
    def exchange(self) -> SharedVolume:
        """The shared volume through which the controller communicates with drivers."""
        return SharedVolume(self.volume / "cluster")

    def run(self, plan: Any, done: Any, perform: Any, suits: Any = None) -> Iterator[EventBatch]:
        """Yields batches of events until the plan is done."""
        queue = plan.ready_queue(done)
        while (job := queue.take()) is not None:
            yield from self._job(job, perform)
            queue.mark_finished(job.id)

    def _job(self, job: Job, perform: Any) -> Iterator[EventBatch]:
        half: PartialStep | None = None
        for number in itertools.count(1):
            name = Attempt(self.bout, job, number).name
            self.exchange.write_assignment(name, perform(job, None).assignment(half))
            self.play(name, self.sandbox_spec(job.submission))
            end = self.exchange.read_end(name)
            assert end is not None, self.ended[name]
            happened = list(self.exchange.read_batches(name, 0))
            assert len(happened) == end.batches
            yield from happened
            self.outcomes.append((job.stage.value, end.outcome))
            if end.outcome is DriverOutcome.FINISHED:
                return
            assert end.outcome is DriverOutcome.NEEDS_PLAYER, end
            half = self.exchange.read_partial_step(name)

    def play(self, name: str, sandbox_spec: SandboxSpec) -> AttemptEnd | None:
        """Plays one attempt in a pod of its own, and deletes the pod. The player has to end by itself."""
        for path in (self.volume, *self.volume.rglob("*")):
            os.chown(path, DRIVER, DRIVER)
        pod = self.template.another()
        driver = None
        try:
            pod.play(sandbox_spec)
            driver = self.template.client.containers.run(RUNNER, **self._driver(name, pod), detach=True)
            code = driver.wait(timeout=LONGEST)["StatusCode"]
            began = time.monotonic()
            assert pod.over(LET_GO), "the player outlives its driver"
            self.ended[name] = Ended(code, driver.logs().decode(), time.monotonic() - began)
        finally:
            if driver is not None:
                driver.remove(force=True)
            pod.delete()
        return self.exchange.read_end(name)

    def _driver(self, name: str, pod: Pod) -> dict[str, Any]:
        return {
            "command": ["pod", "play", "--job", "/work/job", "--blobs", "/work/blobs", "--io", FIFO_DIR],
            "user": f"{DRIVER}:{DRIVER}",
            "volumes": {
                str(pod.folder): {"bind": "/io", "mode": "rw"},
                str(self.exchange.folder / name): {"bind": "/work/job", "mode": "rw"},
                str(self.volume / "blobs"): {"bind": "/work/blobs", "mode": "rw"},
            },
            "network_disabled": True,
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "mem_limit": "1g",
        }
