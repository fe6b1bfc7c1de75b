"""One contest, played on this machine and on the test cluster, and a thread that disrupts its pods there."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator import composition
from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.application.rounds.execution_target import ClusterAccess
from orchestrator.domain.events import AttemptFailed, StepFinished
from orchestrator.executors.kubernetes import probe_job, run_probes
from orchestrator.executors.kubernetes.api import Client
from orchestrator.executors.kubernetes.timings import ControllerTimings
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.round_folder import RoundFolder
from orchestrator.sandboxes.base import ImageSource
from tests.conftest import Require
from tests.e2e.conftest import Lab
from tests.executors.kubernetes.pod_processes.pods import SHELL
from tests.kubernetes_api import Cluster, Node, Settings, Timings
from tests.kubernetes_api.tests.conftest import Http

from .pod_processes import Machine

NAMESPACE = "sparring"
PACE = ControllerTimings(
    refresh_interval=1.0,
    min_interval=0.05,
    driver_exit_grace=5.0,
    driver_kill_grace=0.5,
    termination_grace=5.0,
    player_status_grace=5.0,
    quota_retry_interval=0.5,
    start_retry_interval=0.5,
    event_list_interval=0.5,
)
TIMINGS = Timings(pod_backoff=0.02, create_retry=0.05, image_backoff=0.2, quarantine=0.1, bookmark=0.5)
PLAYERS = ("attack_honest", "attack_crashes", "defence_honest", "defence_crashes", "defence_dice")
MEASURED = {"seconds", "cpu_seconds", "peak_bytes", "bytes_in", "bytes_out", "endings", "ledger"}
ELSEWHERE = {"backend", "image", "notes"}
"""The fields that depend on where a round was played: backend, names of images, and the note on missing isolation."""


def unmeasured(part: Any) -> Any:
    """Returns a document without the measurements, in which two plays of one round differ."""
    if isinstance(part, dict):
        return {key: None if key in MEASURED | ELSEWHERE else unmeasured(value) for key, value in part.items()}
    return [unmeasured(item) for item in part] if isinstance(part, list) else part


@dataclass
class Stage:
    """One contest, played here and on a cluster."""

    folder: Path
    cluster: Cluster
    hook: Machine
    images: dict[str, Path]
    on: ClusterAccess
    players: tuple[str, ...] = PLAYERS
    settings: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    player: Path | None = None
    """Another player than that of most rounds."""
    pictures: int = 16

    @property
    def there(self) -> Path:
        """The folder of the round that the cluster plays; the claim shows it to pods."""
        return self.folder / "there"

    def contest(self) -> Path:
        """Writes the contest file."""
        limits = {"memory": "256MiB", "classify_seconds": 5, "perturb_seconds": 20, "ready_seconds": 60, "restarts": 3}
        lab = Lab(self.folder, "process", settings={"isolation": "attack", "replay": {"power": 0.9, "cheat": 0.3}})
        lab.player, lab.pictures = self.player or lab.player, self.pictures
        path = lab.contest(*self.players, limits=limits | self.limits)
        body = json.loads(path.read_text()) | self.settings
        backend = composition.make_backend("process", self.folder / "admitted", allow_unisolated=True)
        for entry in body["submissions"]:
            folder = Path(entry["folder"])
            said = json.loads((folder / "submission.yaml").read_text())
            digest = backend.admit(ImageSource(folder=folder, command=tuple(said["command"]))).digest
            entry["image"] = f"sparring-test/{said['name'].replace('_', '-')}@{digest}"
            self.images[digest] = folder
        body["cluster"] = {"registry": "none", "max_jobs": 3} | body.get("cluster", {})
        path.write_text(json.dumps(body))
        shutil.rmtree(self.folder / "admitted")
        return path

    def here(self, path: Path) -> dict[str, Any]:
        """Plays the contest on this machine, and gives the cluster's round the same secret."""
        options = play_rounds.RunOptions(backend="process", slots=2, allow_unisolated=True)
        play_rounds.play_round(Contest(path), self.folder / "here", options, lambda _: None)
        self.there.mkdir()
        shutil.copy(self.folder / "here" / "secret", self.there / "secret")
        return self.results("here")

    def play(self, path: Path, watch: Callable[[Any], None] = lambda _: None) -> dict[str, Any]:
        """Plays it on the cluster, in this process."""
        play_rounds.play_round(
            Contest(path), self.there, play_rounds.RunOptions(executor="kubernetes", cluster=self.on), watch
        )
        return self.results("there")

    def started(self, path: Path) -> subprocess.Popen[bytes]:
        """Plays it on the cluster in a process of its own."""
        command = [sys.executable, "-m", "orchestrator", "round", "run", str(path), "--out", str(self.there)]
        command += ["--engine", "kubernetes", "--kubeconfig", str(self.on.kubeconfig), "--log-json"]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, stderr=log, stdout=subprocess.DEVNULL)

    def results(self, name: str) -> dict[str, Any]:
        """Returns results.json of one of the two, measures aside."""
        found: dict[str, Any] = unmeasured(json.loads((self.folder / name / "results.json").read_text()))
        return found

    def failures(self) -> list[AttemptFailed]:
        """Returns the attempts that failed on the cluster."""
        return round_record.read_round(self.there)[0].round.failed_attempts

    def cleared(self, seconds: float = 10.0) -> dict[str, list[str]]:
        """Waits until nothing is left on the cluster and on the volume; returns what is left after `seconds`."""
        until = time.monotonic() + seconds
        while any((left := self._left()).values()) and time.monotonic() < until:
            time.sleep(0.1)
        return {kind: names for kind, names in left.items() if names}

    def _left(self) -> dict[str, list[str]]:
        http = Http(self.cluster.url)
        kinds = {"jobs": "/apis/batch/v1", "pods": "/api/v1"}
        paths = {kind: f"{group}/namespaces/{NAMESPACE}/{kind}" for kind, group in kinds.items()}
        names = {
            kind: [each["metadata"]["name"] for each in http("GET", path).json["items"]] for kind, path in paths.items()
        }
        # A pod that starts late makes an empty one.
        folders = (path for path in (self.there / "cluster").iterdir() if path.is_dir() and any(path.iterdir()))
        names["attempts"] = sorted(path.name for path in folders)
        return names


@contextmanager
def staged(require: Require) -> Iterator[Stage]:
    """A cluster of two nodes whose pods are processes of this machine, and a contest."""
    if os.geteuid() != 0 or not SHELL.exists() or shutil.which("unshare") is None:
        require("docker", f"pods as processes need root, unshare and {SHELL} (images/build.sh images/runner)")
    folder = Path(tempfile.mkdtemp(prefix="sparring-test-rounds-"))
    folder.chmod(0o755)
    images: dict[str, Path] = {}
    hook = Machine(folder / "machine", {"sparring-work": folder / "there"}, images)
    try:
        with Cluster(hook, (Node("one"), Node("two")), Settings(timings=TIMINGS, unknown="Strict")) as cluster:
            http = Http(cluster.url)
            assert http("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).code == 201
            claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
            path = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
            assert http("POST", path, {"metadata": {"name": "sparring-work"}, "spec": claim}).code == 201
            blocked = probe_job.ProbeRecord(
                probed_at=datetime.now(UTC), outcome=probe_job.NetworkOutcome.BLOCKED, operator="a test"
            )
            run_probes.save_record(Client.connect_to_url(cluster.url, NAMESPACE), blocked, NAMESPACE)
            on = ClusterAccess(kubeconfig=cluster.kubeconfig(folder / "kubeconfig"), timings=PACE)
            yield Stage(folder, cluster, hook, images, on)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def holder_pid(stage: Stage) -> int | None:
    """Returns the id of the process that holds the round's lease, None if none does."""
    leases = Http(stage.cluster.url)("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases").json
    holders = [each["spec"].get("holderIdentity") for each in leases["items"]]
    return next((int(holder.rsplit("-", 2)[1]) for holder in holders if holder), None)


def running(stage: Stage, attempt: int = 1) -> list[dict[str, Any]]:
    """Returns the pods of attempts of this number whose player was started and has not ended."""
    pods = Http(stage.cluster.url)("GET", f"/api/v1/namespaces/{NAMESPACE}/pods").json["items"]
    return [
        pod
        for pod in pods
        if pod["metadata"]["labels"]["sparring/attempt"] == str(attempt)
        and not pod["metadata"].get("deletionTimestamp")
        and sum("running" in each["state"] for each in pod["status"].get("containerStatuses", ()))
        == len(pod["spec"]["containers"])
        and (stage.folder / "machine" / pod["metadata"]["uid"] / "io" / "fifos" / "taken").exists()
    ]


class Disruptor(threading.Thread):
    """A thread that does each disruption once, each to another job's first pod while it plays, and then ends."""

    def __init__(self, lab: Stage, deeds: dict[str, Callable[[str, str], object]], stage: str = "") -> None:
        super().__init__(daemon=True)
        self._lab, self._left, self._stage = lab, dict(deeds), stage
        self.done: dict[str, str] = {}
        """The disrupted job, by disruption."""

    def run(self) -> None:
        """Looks for pods until every disruption is done, or the cluster is gone."""
        until = time.monotonic() + 120
        while self._left and time.monotonic() < until:
            for pod in running(self._lab):
                labels = pod["metadata"]["labels"]
                wanted = self._stage in {"", labels["sparring/stage"]}
                if self._left and wanted and labels["sparring/job"] not in self.done.values():
                    name, deed = next(iter(self._left.items()))
                    with suppress(KeyError, StopIteration):  # it has ended meanwhile
                        deed(labels["batch.kubernetes.io/job-name"], pod["metadata"]["name"])
                        self.done[name] = labels["sparring/job"]
                        del self._left[name]
            time.sleep(0.05)


def disruptions(stage: Stage) -> dict[str, Callable[[str, str], object]]:
    """Returns the disruptions of pods that a cluster or its administrators can cause."""
    http, cluster = Http(stage.cluster.url), stage.cluster
    jobs, pods = (
        f"/{group}/namespaces/{NAMESPACE}/{kind}" for group, kind in (("apis/batch/v1", "jobs"), ("api/v1", "pods"))
    )
    away = {"apiVersion": "policy/v1", "kind": "Eviction"}

    def evict(_: str, pod: str) -> None:
        http("POST", f"{pods}/{pod}/eviction", away | {"metadata": {"name": pod, "namespace": NAMESPACE}})

    def lose(_: str, pod: str) -> None:
        node = http("GET", f"{pods}/{pod}").json["spec"]["nodeName"]
        cluster.nodes.lose(node)
        time.sleep(1.0)
        cluster.nodes.restore(node)

    return {
        "the job is deleted by hand": lambda job, _: http("DELETE", f"{jobs}/{job}", propagationPolicy="Background"),
        "the pod is deleted by hand": lambda _, pod: http("DELETE", f"{pods}/{pod}"),
        "the pod is evicted": evict,
        "its node is low on memory": lambda _, pod: cluster.kubelets.evict_for(NAMESPACE, pod),
        "the pod is preempted": lambda _, pod: cluster.preempt(NAMESPACE, pod),
        "the driver is out of memory": lambda _, pod: cluster.kubelets.oom_kill(NAMESPACE, pod, "driver"),
        "the node is lost": lose,
    }


def steps_of(folder: Path) -> Iterator[StepFinished]:
    """Yields every step on record, in order, as often as it is there."""
    ledger = RoundFolder(folder).ledger()
    yield from (entry.event for entry in ledger.read() if isinstance(entry.event, StepFinished))
    ledger.close()
