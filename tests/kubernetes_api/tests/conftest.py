"""A cluster of one node for each test, and clients that ask it."""

import http.client
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from kubernetes.client import ApiClient, BatchV1Api, Configuration, CoordinationV1Api, CoreV1Api

from tests.kubernetes_api import Cluster, Commands, Fakes, ManualClock, Node, Settings, Timings

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


@dataclass
class Reply:
    """An answer as it came over the wire."""

    code: int
    headers: dict[str, str]
    text: bytes

    @property
    def json(self) -> Any:
        """The body as a document."""
        return json.loads(self.text)


class Http:
    """Asks over HTTP, without a client library between."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url).netloc

    def __call__(self, method: str, path: str, body: Any = None, **more: str) -> Reply:
        """Sends a request; `media` and `token` set headers, all else are parameters of the query."""
        headers = {"Content-Type": more.pop("media", "application/json")}
        if token := more.pop("token", ""):
            headers["Authorization"] = f"Bearer {token}"
        full = f"{path}?{urlencode(more)}" if more else path
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self._place, timeout=20)
        try:
            connection.request(method, full, data, headers)
            answer = connection.getresponse()
            return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()


def container(name: str = "main", code: int | None = 0, **more: Any) -> dict[str, Any]:
    """A container that ends with a code at once, or waits to be ended."""
    environment = [] if code is None else [{"name": "EXIT", "value": str(code)}]
    return {"name": name, "image": f"registry/{name}@sha256:{'0' * 64}", "env": environment} | more


def pod_spec(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A pod's specification."""
    return {"restartPolicy": "Never", "containers": list(containers) or [container()]} | more


def make_job(name: str, *containers: dict[str, Any], pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A Job as Sparring makes them: one pod, no second try."""
    template = {"spec": pod_spec(*containers, **(pod or {}))}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": template} | spec,
    }


def make_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    """The smallest object there is."""
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


def conditions(data: dict[str, Any] | None) -> dict[str, str]:
    """The true conditions of an object, with their reasons."""
    found = ((data or {}).get("status") or {}).get("conditions") or ()
    return {each["type"]: each.get("reason", "") for each in found if each["status"] == "True"}


def events_about(cluster: Cluster, name: str) -> list[tuple[str, str]]:
    """The reasons and messages of the events about an object, in the order in which they began."""
    events = cluster.store.shelf(cluster.catalogue.of("events")).objects
    found = [each.data for each in sorted(events.values(), key=lambda each: each.revision)]
    return [(each["reason"], each["message"]) for each in found if each["involvedObject"]["name"] == name]


@pytest.fixture
def hook() -> Fakes:
    """Containers without processes."""
    return Fakes()


@pytest.fixture
def cluster(hook: Fakes) -> Iterator[Cluster]:
    """A cluster whose containers are fakes, on one node with a GPU, with short waits."""
    timings = Timings(pod_backoff=0.02, create_retry=0.05, image_backoff=0.05, quarantine=0.02, bookmark=0.1)
    with Cluster(hook, (Node(gpus=1),), Settings(timings=timings, check_own=True)) as made:
        yield made


@pytest.fixture
def clock() -> ManualClock:
    """A time that stands still."""
    return ManualClock()


@pytest.fixture
def timed(hook: Fakes, clock: ManualClock) -> Iterator[Cluster]:
    """The same with a clock that a test turns, and the waits of a real cluster."""
    with Cluster(hook, (Node(gpus=1),), Settings(check_own=True), clock) as made:
        yield made


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster whose containers are processes of this machine."""
    with Cluster(Commands(tmp_path), (Node(gpus=1),), Settings(check_own=True)) as made:
        yield made


@pytest.fixture
def http_(cluster: Cluster) -> Http:
    """Asks the cluster over HTTP."""
    return Http(cluster.url)


@pytest.fixture
def batch(cluster: Cluster) -> BatchV1Api:
    """The official client for Jobs."""
    return BatchV1Api(ApiClient(Configuration(host=cluster.url)))


@pytest.fixture
def core(cluster: Cluster) -> CoreV1Api:
    """The official client for pods and their like."""
    return CoreV1Api(ApiClient(Configuration(host=cluster.url)))


@pytest.fixture
def leases(cluster: Cluster) -> CoordinationV1Api:
    """The official client for leases."""
    return CoordinationV1Api(ApiClient(Configuration(host=cluster.url)))


Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path, require: Callable[[str, str], None]) -> Kubectl:
    """Returns `kubectl(*arguments, stdin="")`, which runs the program against the cluster."""
    program = shutil.which("kubectl")
    if program is None:
        require("kubectl", "kubectl is not installed")
    config = cluster.kubeconfig(tmp_path / "kubeconfig")

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(program), f"--kubeconfig={config}", f"--cache-dir={tmp_path / 'cache'}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)

    return run
