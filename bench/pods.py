"""Measures how long a job on Kubernetes takes from creation to result, against a bare Job with the same images.

    python bench/pods.py [--runner IMAGE] [--player IMAGE] [--driver-cpus 1.0] [--most 2] [--json]

A controller plays a round of two attacks and two defences through the tests' API server, whose nodes start each
container on this machine's Docker engine: with the pod's images, commands, users and processor limits, without a
network. Then each job is created again as a bare Job: the same pod, but player and driver are an interpreter that ends
at once. Prints the medians of both, their ratio, and the duration of the whole round. Neither includes the seconds that
a node of a real cluster needs for a pod's sandbox and volumes, so the ratio there is smaller.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # the test cluster is in the tests

from structlog.testing import capture_logs

from orchestrator.application.rounds.execution_target import ClusterAccess
from orchestrator.executors.kubernetes import probe_job, run_probes
from orchestrator.executors.kubernetes.api import JOBS, Client
from tests.executors.kubernetes.contest_on_cluster import NAMESPACE, TIMINGS, Stage
from tests.kubernetes_api import Cluster, Node, Settings
from tests.kubernetes_api.tests.conftest import Http

PLAYERS = ("attack_noop", "attack_honest", "defence_honest", "defence_constant")
NOTHING = ["python3", "-c", "pass"]
PATIENCE = 120.0


class Container:
    """A container on the engine, with its attached `docker run` process."""

    def __init__(self, name: str, words: list[str], log: Path) -> None:
        self._name, self._log = name, log
        with log.open("wb") as file:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def wait(self) -> int:
        """Waits until the container ends; returns its exit status."""
        return self._process.wait()

    def send_signal(self, number: int) -> None:
        """Sends a signal to the container's first process, if it is running."""
        words = ["docker", "kill", "--signal", str(number), self._name]
        subprocess.run(words, capture_output=True, check=False)

    def log(self) -> bytes:
        """Returns the output so far."""
        return self._log.read_bytes()


class Engine:
    """The kubelets' hook. `images` are the players' folders by digest; `claim` is the folder behind the claim."""

    def __init__(self, folder: Path, claim: Path, images: dict[str, Path], runner: str, player: str) -> None:
        self._folder, self._claim, self._images = folder, claim, images
        self._runner, self._player = runner, player
        folder.mkdir()
        folder.chmod(0o755)
        self.jobs: dict[str, dict[str, Any]] = {}

    def __call__(self, container: dict[str, Any], pod: dict[str, Any]) -> Container:
        """Starts a container."""
        security, limits = container["securityContext"], container["resources"]["limits"]
        # The controller is this process, and only its user can read its files, so drivers run as this user here.
        user = security.get("runAsUser", os.getuid())
        name = f"sparring-bench-{pod['metadata']['uid'][:13]}-{container['name']}"
        words = ["docker", "run", "--rm", "--name", name, "--network", "none", "--read-only", "--cap-drop", "ALL"]
        words += ["--user", f"{user}:{user}", "--security-opt", "no-new-privileges", "--memory", limits["memory"]]
        words += ["--cpus", str(int(limits["cpu"].removesuffix("m")) / 1000)]
        for mount in container.get("volumeMounts") or ():
            words += ["-v", f"{self._mounted(mount, pod)}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}"]
        for each in container.get("env") or ():
            words += ["-e", f"{each['name']}={each.get('value', pod['metadata']['name'])}"]
        image = self._runner
        if container["name"] == "player":
            image = self._player
            folder = self._images[container["image"].rpartition("@")[2]]
            words += ["-v", f"{folder}:/player:ro", "-w", "/player"]
        first, *rest = [*container["command"], *(container.get("args") or ())]
        return Container(name, [*words, "--entrypoint", first, image, *rest], self._folder / f"{name}.log")

    def _mounted(self, mount: dict[str, Any], pod: dict[str, Any]) -> Path:
        """Returns the folder behind a mount."""
        volume = next(each for each in pod["spec"]["volumes"] if each["name"] == mount["name"])
        claimed = "persistentVolumeClaim" in volume
        folder = self._claim / mount.get("subPath", "") if claimed else self._folder / pod["metadata"]["uid"]
        folder = folder if claimed else folder / mount["name"]
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777 if claimed else 0o1777)
        return folder


@contextmanager
def stage(asked: argparse.Namespace) -> Iterator[Stage]:
    """Gives a cluster of one node, whose pods run on the engine, and a contest."""
    folder = Path(tempfile.mkdtemp(prefix="sparring-bench-pods-"))
    folder.chmod(0o755)
    images: dict[str, Path] = {}
    hook: Any = Engine(folder / "engine", folder / "there", images, asked.runner, asked.player)
    try:
        with Cluster(hook, (Node("one", cpu="8"),), Settings(timings=TIMINGS)) as cluster:
            http = Http(cluster.url)
            http("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
            claims = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
            http("POST", claims, {"metadata": {"name": "sparring-work"}, "spec": claim})
            blocked = probe_job.ProbeRecord(
                probed_at=datetime.now(UTC), outcome=probe_job.NetworkOutcome.BLOCKED, operator="a bench"
            )
            run_probes.save_record(Client.connect_to_url(cluster.url, NAMESPACE), blocked, NAMESPACE)
            on = ClusterAccess(kubeconfig=cluster.kubeconfig(folder / "kubeconfig"))
            made = Stage(folder, cluster, hook, images, on, PLAYERS)
            made.settings = {"cluster": {"max_jobs": asked.most, "driver_cpus": asked.driver_cpus}}
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play(made: Stage) -> tuple[float, dict[str, float], list[dict[str, Any]]]:
    """Plays the round; returns its seconds, each job's seconds from creation to result, and the created Jobs."""
    jobs: list[dict[str, Any]] = []
    create = Client.create

    def keep(self: Client, kind: Any, body: dict[str, Any]) -> dict[str, Any] | None:
        if kind is JOBS:
            jobs.append(deepcopy(body))
        return create(self, kind, body)

    path = made.contest()
    Client.create = keep  # type: ignore[method-assign]
    began = time.monotonic()
    try:
        with capture_logs() as logged:
            made.play(path)
    finally:
        Client.create = create  # type: ignore[method-assign]
    ends = {each["job"]: each["wall"] for each in logged if each["event"] == "job_finished"}
    return time.monotonic() - began, ends, jobs


def bare(made: Stage, job: dict[str, Any]) -> float:
    """Returns the seconds from creation to end of a Job whose player and driver do nothing."""
    body, client = deepcopy(job), Client.connect_to_url(made.cluster.url, NAMESPACE)
    body["metadata"]["name"] = name = f"bare-{body['metadata']['name']}"[:63].rstrip("-")
    for container in body["spec"]["template"]["spec"]["containers"]:
        container["command"], container["args"] = NOTHING, []
    began = time.monotonic()
    client.create(JOBS, body)
    while not ended(client.read(JOBS, name) or {}):
        if time.monotonic() - began > PATIENCE:
            raise SystemExit(f"the bare Job {name} did not end within {PATIENCE:g} s")
        time.sleep(0.02)
    seconds = time.monotonic() - began
    client.delete(JOBS, name)
    return seconds


def ended(job: dict[str, Any]) -> bool:
    """Returns whether a Job has ended. Raises SystemExit if it failed."""
    conditions = {
        each["type"] for each in (job.get("status") or {}).get("conditions") or () if each["status"] == "True"
    }
    if "Failed" in conditions:
        raise SystemExit(f"a bare Job failed: {job['status']}")
    return "Complete" in conditions


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runner", default="sparring/runner:cpu")
    parser.add_argument("--player", default="sparring/base:cpu")
    parser.add_argument("--driver-cpus", type=float, default=1.0)
    parser.add_argument("--most", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with stage(asked) as made:
        whole, ends, jobs = play(made)
        plain = [bare(made, job) for job in jobs if job["metadata"]["name"].endswith("-1")]
    figures = {
        "jobs": len(ends),
        "round_seconds": round(whole, 1),
        "job_seconds": round(statistics.median(ends.values()), 2),
        "bare_seconds": round(statistics.median(plain), 2),
    }
    figures["ratio"] = round(figures["job_seconds"] / figures["bare_seconds"], 2)
    print(json.dumps(vars(asked) | figures, indent=2) if asked.json else figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
