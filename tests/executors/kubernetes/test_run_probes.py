"""Probes against the test API server, their containers as real processes: what is found, kept, said and cleaned up."""

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from orchestrator.errors import ClusterRefused
from orchestrator.executors.kubernetes import run_probes
from orchestrator.executors.kubernetes.api import Client
from orchestrator.executors.kubernetes.cluster_check import CONFIG_MAPS
from orchestrator.executors.kubernetes.connectivity_probe import Target
from orchestrator.executors.kubernetes.probe_job import RECORD_KEY, RECORD_NAME, NetworkOutcome, ProbeJobs, ProbeRecord
from orchestrator.executors.kubernetes.run_probes import ProbeTimeouts
from orchestrator.sandboxes.base import CheckStatus
from tests.kubernetes_api import Cluster, Node, Settings, Timings, pod_status

from .probe_containers import Containers
from .rendering import settings_of

RUNNER = "docker.io/sparring/runner:cpu"
SPACE, CLAIM = "sparring", "sparring-work"
SHORT = ProbeTimeouts(seconds=2.5, poll_seconds=0.05)


@pytest.fixture
def port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def containers(tmp_path) -> Containers:
    """Processes of this machine, with a volume."""
    (tmp_path / "volume").mkdir()
    (tmp_path / "resolv.conf").write_text("")
    return Containers(tmp_path, {CLAIM: tmp_path / "volume"})


@pytest.fixture
def cluster(containers, monkeypatch) -> Iterator[Cluster]:
    """A cluster whose pods have the address of the loopback."""
    monkeypatch.setattr(pod_status, "POD_ADDRESS", "127.0.0.1")
    timings = Timings(image_backoff=0.05, create_retry=0.05)
    with Cluster(containers, (Node(),), Settings(timings=timings)) as made:
        made.namespace(SPACE)
        yield made


@pytest.fixture
def api(cluster) -> Client:
    """The client that the controller uses."""
    return Client.connect_to_url(cluster.url, SPACE, 5.0)


@pytest.fixture
def claim(cluster) -> None:
    """The volume's claim."""
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = cluster.catalogue.of("persistentvolumeclaims")
    cluster.registry.create(claims, SPACE, {"metadata": {"name": CLAIM}, "spec": spec})


@pytest.fixture
def probes(port) -> ProbeJobs:
    """The Jobs of a check."""
    return ProbeJobs(settings_of(), "0a1b2c3d", port=port)


def left(cluster: Cluster) -> list[str]:
    """The names of all Jobs that are there."""
    shelf = cluster.store.shelf(cluster.catalogue.of("jobs", "batch"))
    return [name for _, name in shelf.objects]


PATIENT = ProbeTimeouts(seconds=60, poll_seconds=0.05)


@pytest.mark.slow
def test_a_network_without_walls_is_connected(api, cluster, probes, containers) -> None:
    """The listener is reached, and so the cluster is refused; all Jobs are gone afterwards."""
    seen = run_probes.probe_network(api, probes, [], PATIENT)
    assert seen.outcome is NetworkOutcome.CONNECTED
    assert "listener-1" in seen.reached_targets
    assert run_probes.network_check(seen).status is CheckStatus.FAIL
    assert left(cluster) == []
    assert [words[5] for words in containers.started] == ["--listen", "--control", "--connect"]


def test_a_network_that_is_open_to_its_node_alone_is_told_apart() -> None:
    """Some plug-ins keep pods from one another and not from their node: another one is needed, not another policy."""
    for reached, words in (("api", "block traffic between pods"), ("listener-1", "Calico")):
        told = run_probes.network_check(run_probes.NetworkResult(NetworkOutcome.CONNECTED, (reached, "node"), "tried"))
        assert (told.status, words in told.remedy) == (CheckStatus.FAIL, True)


@pytest.mark.slow
def test_what_is_around_is_tried_too(api, probes, containers) -> None:
    """The API server of the pod's environment, its node, the name servers of other pods, and what was asked for."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as dns, socket.create_server(("127.0.0.1", 0)) as server:
        dns.bind(("127.0.0.1", 0))
        (containers.folder / "resolv.conf").write_text("nameserver 127.0.0.53\n")
        containers.more = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "9"}
        seen = run_probes.probe_network(api, probes, [Target("web", "tcp", *server.getsockname())], PATIENT)
    assert {"listener-1", "web"} <= set(seen.reached_targets)
    assert [each.split()[0] for each in seen.detail.split(", ")] == ["api", "node", "listener-1", "dns-1", "web"]


@pytest.mark.slow
def test_an_address_that_nobody_listens_on_proves_nothing(api, probes, monkeypatch) -> None:
    """A pod of two addresses, of which its listener was told one: what refuses at the other may be anybody."""
    plain = run_probes._wait_for_container

    def two(*asked):
        ended = plain(*asked)
        return replace(ended, pod_addresses=(*ended.pod_addresses, "127.0.0.2")) if asked[2] == "control" else ended

    monkeypatch.setattr(run_probes, "_wait_for_container", two)
    assert run_probes.probe_network(api, probes, [], PATIENT).outcome is NetworkOutcome.UNKNOWN


class Walled(Containers):
    """Where the probe's pod reaches nobody: its listener is asked for where nothing listens and nothing refuses."""

    def __call__(self, container, pod):
        """Starts a container."""
        if container["name"] == "probe":
            words = [w.replace("127.0.0.1", "255.255.255.255") for w in container["args"]]
            container = container | {"args": words, "env": []}
        return super().__call__(container, pod)


@pytest.mark.slow
def test_a_network_with_walls_is_blocked(tmp_path, monkeypatch, probes) -> None:
    """Nothing answers, the control shows that it would: that is a proof."""
    monkeypatch.setattr(pod_status, "POD_ADDRESS", "127.0.0.1")
    (tmp_path / "resolv.conf").write_text("")
    with Cluster(Walled(tmp_path), (Node(),)) as cluster:
        cluster.namespace(SPACE)
        seen = run_probes.probe_network(Client.connect_to_url(cluster.url, SPACE, 5.0), probes, [], PATIENT)
    assert (seen.outcome, seen.reached_targets) == (NetworkOutcome.BLOCKED, ())
    assert seen.detail == "listener-1 silent"
    assert run_probes.network_check(seen).status is CheckStatus.OK


class Deaf(Containers):
    """Where the listener does not listen: it is told to write to a volume instead."""

    def __call__(self, container, pod):
        """Starts a container."""
        if container["name"] == "control":
            container = container | {"args": ["0.3" if word == "30" else word for word in container["args"]]}
        if container["name"] == "listener":
            container = container | {"args": ["pod", "probe", "--storage", str(self.folder)]}
        return super().__call__(container, pod)


@pytest.mark.slow
def test_silence_without_a_listener_proves_nothing(tmp_path, monkeypatch, probes) -> None:
    """The control cannot reach it either: unknown, not blocked; the probe is not even made."""
    monkeypatch.setattr(pod_status, "POD_ADDRESS", "127.0.0.1")
    (tmp_path / "resolv.conf").write_text("")
    containers = Deaf(tmp_path)
    with Cluster(containers, (Node(),)) as cluster:
        cluster.namespace(SPACE)
        seen = run_probes.probe_network(Client.connect_to_url(cluster.url, SPACE, 5.0), probes, [], PATIENT)
        assert left(cluster) == []
    assert seen.outcome is NetworkOutcome.UNKNOWN
    assert "did not start: its own pod cannot reach it" in seen.detail
    assert len(containers.started) == 2
    assert run_probes.network_check(seen).status is CheckStatus.FAIL


@pytest.mark.slow
def test_the_volume_is_written(api, cluster, claim, probes, containers) -> None:
    """By a pod of the runner's image, with nothing left on it."""
    found = run_probes.probe_storage(api, probes, PATIENT)
    assert found.status is CheckStatus.OK, found
    assert "wrote and read 1 MiB" in found.detail
    assert list(containers.volumes[CLAIM].iterdir()) == []
    assert left(cluster) == []


@pytest.mark.slow
def test_a_file_of_the_controllers_is_looked_for(api, claim, probes, containers) -> None:
    """What is put into --out has to be on the claim, below the folder of the settings."""
    for name in ("blobs", "cluster"):
        (containers.volumes[CLAIM] / "cups" / name).mkdir(parents=True)
    files = ["blobs/.probe-1", "cluster/.probe-2"]
    (containers.volumes[CLAIM] / "cups" / files[0]).touch()
    above = replace(probes, settings=probes.settings.model_copy(update={"folder": "cups"}))
    found = run_probes.probe_storage(api, above, PATIENT, files)
    assert found.status is CheckStatus.FAIL
    assert (
        found.detail == f"cups/cluster/.probe-2: just written below --out, but not on the volume of the claim {CLAIM}"
    )
    assert "cluster.folder" in found.remedy
    (containers.volumes[CLAIM] / "cups" / files[1]).touch()
    later = replace(above, token="1b2c3d4e")  # noqa: S106  as every check has its own: the first one's pod may still be there
    assert run_probes.probe_storage(api, later, PATIENT, files).status is CheckStatus.OK


@pytest.mark.slow
def test_a_volume_that_cannot_be_written_fails(api, claim, probes, containers) -> None:
    """With the system's word and the user who needs the right."""
    containers.volumes[CLAIM].rmdir()
    found = run_probes.probe_storage(api, probes, PATIENT)
    assert found.status is CheckStatus.FAIL
    assert "cannot be written as user" in found.detail
    assert "10002" in found.remedy


@pytest.mark.slow
def test_an_image_that_cannot_be_pulled_is_told(api, cluster, claim, probes) -> None:
    """In the node's words, and the Job goes."""
    cluster.images.refuse(RUNNER, "pull access denied")
    found = run_probes.probe_storage(api, probes, SHORT)
    assert found.status is CheckStatus.FAIL
    assert RUNNER in found.detail
    assert "pull access denied" in found.detail
    assert left(cluster) == []


@pytest.mark.slow
def test_a_pod_that_finds_no_node_is_told(api, claim) -> None:
    """In the scheduler's words."""
    lost = ProbeJobs(settings_of(node_selector={"pool": "none"}), "0a1b2c3d")
    found = run_probes.probe_storage(api, lost, SHORT)
    assert found.status is CheckStatus.FAIL
    assert "1 node(s) didn't match Pod's node affinity/selector" in found.detail


@pytest.mark.slow
def test_a_quota_that_is_used_up_is_told(api, cluster, claim, probes) -> None:
    """No pod is made, and the Job's event says why."""
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    cluster.registry.create(cluster.catalogue.of("resourcequotas"), SPACE, quota)
    found = run_probes.probe_storage(api, probes, SHORT)
    assert found.status is CheckStatus.FAIL
    assert "exceeded quota: q" in found.detail


@pytest.mark.slow
def test_a_runtime_class_that_is_missing_is_told(api, claim) -> None:
    """By the event of the Job that gets no pod."""
    found = run_probes.probe_storage(api, ProbeJobs(settings_of(runtime_class="gvisor"), "0a1b2c3d"), SHORT)
    assert 'RuntimeClass "gvisor" not found' in found.detail


def test_two_checks_do_not_meet(api, claim, probes) -> None:
    """A name that is taken is said, and whoever has it keeps it."""
    job = probes.storage_job()
    job["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "none"}
    api.create(run_probes.JOBS, job)
    with pytest.raises(ClusterRefused, match="already exists"):
        run_probes.probe_storage(api, probes, SHORT)
    assert api.read(run_probes.JOBS, job["metadata"]["name"]) is not None


def record(outcome: NetworkOutcome = NetworkOutcome.BLOCKED) -> ProbeRecord:
    """Something to keep."""
    return ProbeRecord(probed_at=datetime.now(UTC), outcome=outcome, operator="me@here")


def test_the_last_record_holds(api) -> None:
    """One ConfigMap, written over; none is no record."""
    assert run_probes.last_record(api) is None
    for outcome in (NetworkOutcome.CONNECTED, NetworkOutcome.BLOCKED):
        held = record(outcome)
        run_probes.save_record(api, held, SPACE)
        assert run_probes.last_record(api) == held
    assert api.read(CONFIG_MAPS, RECORD_NAME)["metadata"]["labels"]["app.kubernetes.io/component"] == "check"


def test_a_record_is_kept_although_another_changes_it(api, monkeypatch) -> None:
    """Its version is read again."""
    run_probes.save_record(api, record(), SPACE)
    stale, current = api.read(CONFIG_MAPS, RECORD_NAME), record(NetworkOutcome.CONNECTED)
    run_probes.save_record(api, record(), SPACE)
    answers = [stale]
    plain = api.read
    monkeypatch.setattr(type(api), "read", lambda _, *asked: answers.pop() if answers else plain(*asked))
    run_probes.save_record(api, current, SPACE)
    monkeypatch.undo()
    assert run_probes.last_record(api) == current


def test_foreign_words_in_the_record_are_none(api) -> None:
    """Whoever may write there can spoil it, and then it was never probed."""
    api.create(CONFIG_MAPS, {"metadata": {"name": RECORD_NAME}, "data": {RECORD_KEY: "{}"}})
    assert run_probes.last_record(api) is None


def test_waiting_is_bounded(api, cluster, claim, probes) -> None:
    """A probe that does not end is given up after its time."""
    cluster.images.refuse(RUNNER, "no")
    begun = time.monotonic()
    run_probes.probe_storage(api, probes, ProbeTimeouts(seconds=0.5, poll_seconds=0.05))
    assert time.monotonic() - begun < 10
