"""The test cluster's kubelets: containers as processes, and what is reported of them.

Kubernetes documentation: Pod Lifecycle ("Pod phase", "Container states", "Pod conditions", "Termination of Pods"); Init
Containers; Images ("ImagePullBackOff"); Logging Architecture; Node-pressure Eviction; API-initiated Eviction.
"""

import os
import signal
import time
from itertools import pairwise

import pytest
from kubernetes.client import ApiClient, ApiException, Configuration, CoreV1Api

from tests.kubernetes_api import Cluster, Commands, Node, Settings, Timings, eventually

from .conftest import PODS, Http, conditions, container, events_about, pod_spec


def shell(name: str, script: str) -> dict:
    """A container that runs a script."""
    return {"name": name, "image": f"registry/{name}@sha256:{'0' * 64}", "command": ["sh", "-c", script]}


def states(pod: dict, part: str = "containerStatuses") -> dict[str, dict]:
    """The states of a pod's containers, by name."""
    return {each["name"]: each["state"] for each in pod["status"].get(part) or ()}


def pod(cluster: Cluster, name: str = "p") -> dict | None:
    """A pod as it is now."""
    return cluster.read("pods", name)


def until(cluster: Cluster, phase: str, name: str = "p") -> dict:
    """Waits until a pod is in a phase, and returns it."""
    eventually(lambda: (pod(cluster, name) or {"status": {}})["status"].get("phase") == phase, phase)
    return pod(cluster, name)


@pytest.fixture
def run(real):
    """Returns `run(*containers, **spec)`, which creates the pod p of real processes."""
    return lambda *containers, **spec: Http(real.url)(
        "POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(*containers, **spec)}
    )


def test_containers_are_real_processes(real, run) -> None:
    """All run at the same time; the pod succeeds when all have; output can be read by container."""
    run(
        shell("one", "echo from one; sleep 0.2"),
        shell("two", "echo from two $WORD") | {"env": [{"name": "WORD", "value": "yes"}]},
    )
    running = until(real, "Running")
    assert conditions(running)["PodScheduled"] == ""
    ended = until(real, "Succeeded")
    assert {name: each["terminated"]["reason"] for name, each in states(ended).items()} == {
        "one": "Completed",
        "two": "Completed",
    }
    core = CoreV1Api(ApiClient(Configuration(host=real.url)))
    assert core.read_namespaced_pod_log(name="p", namespace="default", container="two") == "from two yes\n"
    assert core.read_namespaced_pod_log(name="p", namespace="default", container="one", limit_bytes=4) == "from"
    with pytest.raises(ApiException) as unclear:
        core.read_namespaced_pod_log(name="p", namespace="default")
    assert unclear.value.status == 400
    assert "a container name must be specified for pod p, choose one of: [one two]" in unclear.value.body


def test_a_pod_fails_by_any_of_its_containers_but_only_when_all_have_ended(real, run) -> None:
    """The pod goes on as long as one runs; then it is Failed, with each container's own code."""
    run(shell("bad", "exit 3"), shell("good", "sleep 0.3"))
    eventually(lambda: "terminated" in states(pod(real)).get("bad", {}))
    assert pod(real)["status"]["phase"] == "Running"
    ended = states(until(real, "Failed"))
    assert (ended["bad"]["terminated"]["exitCode"], ended["bad"]["terminated"]["reason"]) == (3, "Error")
    assert ended["good"]["terminated"]["exitCode"] == 0


def test_init_containers_run_first_and_in_turn(real, run, tmp_path) -> None:
    """Each waits for the one before; the others wait for all of them as PodInitializing."""
    trace = tmp_path / "trace"
    first = [shell(name, f"echo {name} >> {trace}; sleep 0.1") for name in ("i1", "i2")]
    run(shell("main", f"echo main >> {trace}"), initContainers=first)
    eventually(lambda: states(pod(real)).get("main"))
    assert states(pod(real))["main"] == {"waiting": {"reason": "PodInitializing"}}
    ended = until(real, "Succeeded")
    assert trace.read_text().split() == ["i1", "i2", "main"]
    assert {each["terminated"]["exitCode"] for each in states(ended, "initContainerStatuses").values()} == {0}


def test_an_init_container_that_fails_fails_the_pod(real, run) -> None:
    """Nothing else is started."""
    run(shell("main", "true"), initContainers=[shell("i1", "exit 7"), shell("i2", "true")])
    ended = until(real, "Failed")
    assert states(ended, "initContainerStatuses")["i1"]["terminated"]["exitCode"] == 7
    assert "waiting" in states(ended, "initContainerStatuses")["i2"]
    assert "waiting" in states(ended)["main"]


def test_a_process_killed_by_a_signal_ends_with_128_and_more(real, run) -> None:
    """As a shell and a container runtime say it."""
    run(shell("main", "kill -KILL $$"))
    assert states(until(real, "Failed"))["main"]["terminated"]["exitCode"] == 137


def test_a_program_that_is_not_there_is_a_start_error(real, run) -> None:
    """Reason StartError, code 128."""
    run({"name": "main", "image": "registry/x@sha256:0", "command": ["/no/such/program"]})
    ended = states(until(real, "Failed"))["main"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert "No such file" in ended["message"]


@pytest.mark.slow
def test_a_deleted_pod_gets_its_grace_and_then_is_killed(real, run) -> None:
    """TERM first; who ignores it is killed when the grace is over; only then the object is gone."""
    run(shell("deaf", "trap '' TERM; while :; do sleep 0.05; done"), terminationGracePeriodSeconds=1)
    until(real, "Running")
    core = CoreV1Api(ApiClient(Configuration(host=real.url)))
    time.sleep(0.2)
    began = time.monotonic()
    told_ = core.delete_namespaced_pod(name="p", namespace="default")
    assert told_.metadata.deletion_grace_period_seconds == 1
    assert told_.metadata.deletion_timestamp
    eventually(lambda: pod(real) is None)
    assert time.monotonic() - began > 0.8


def test_a_pod_that_ends_by_itself_is_gone_sooner(real, run) -> None:
    """TERM is enough, and the exit code of the handler is reported before the object goes."""
    run(shell("polite", "trap 'exit 9' TERM; while :; do sleep 0.02; done"))
    until(real, "Running")
    time.sleep(0.2)
    seen = []
    real.store.listen(lambda resource, change: seen.append(change.last.data) if resource.kind == "Pod" else None)
    Http(real.url)("DELETE", f"{PODS}/p")
    eventually(lambda: pod(real) is None)
    last = states(seen[-1])["polite"]["terminated"]
    assert (seen[-1]["status"]["phase"], last["exitCode"]) == ("Failed", 9)


def test_a_deletion_without_grace_does_not_wait(real, run, tmp_path) -> None:
    """With a grace of 0 the object is gone at once, the process right after."""
    run(shell("main", f"echo $$ > {tmp_path}/pid; sleep 60"))
    eventually(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text().strip())
    number = int((tmp_path / "pid").read_text())
    Http(real.url)("DELETE", f"{PODS}/p", gracePeriodSeconds="0")
    assert pod(real) is None

    def ended() -> bool:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        return False

    eventually(ended)


@pytest.mark.slow
def test_a_second_deletion_may_only_shorten_the_grace(real, run) -> None:
    """A longer one is answered with the object as it is; a shorter one is obeyed."""
    run(shell("deaf", "trap '' TERM; while :; do sleep 0.05; done"))
    until(real, "Running")
    time.sleep(0.2)
    ask = Http(real.url)
    first = ask("DELETE", f"{PODS}/p").json["metadata"]
    assert first["deletionGracePeriodSeconds"] == 30
    assert ask("DELETE", f"{PODS}/p", gracePeriodSeconds="60").json["metadata"]["deletionGracePeriodSeconds"] == 30
    assert ask("DELETE", f"{PODS}/p", gracePeriodSeconds="1").json["metadata"]["deletionGracePeriodSeconds"] == 1
    eventually(lambda: pod(real) is None)


def test_a_pod_that_is_not_scheduled_goes_at_once(cluster, http_) -> None:
    """Nobody has to confirm it."""
    http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(nodeSelector={"no": "node"})})
    http_("DELETE", f"{PODS}/p")
    assert pod(cluster) is None


def test_a_container_that_used_up_its_memory(cluster, http_) -> None:
    """OOMKilled with code 137; the others go on."""
    http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(container("a", None), container("b", None))})
    until(cluster, "Running")
    cluster.settle()
    cluster.kubelets.oom_kill("default", "p", "a")
    eventually(lambda: "terminated" in states(pod(cluster))["a"])
    ended = states(pod(cluster))["a"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    assert "running" in states(pod(cluster))["b"]


def test_an_image_that_cannot_be_pulled(cluster, http_) -> None:
    """ErrImagePull, then ImagePullBackOff, Pending all the time; once the image is there, the pod runs."""
    image = container()["image"]
    cluster.images.refuse(image)
    seen = []
    cluster.store.listen(lambda resource, change: seen.append(change.last.data) if resource.kind == "Pod" else None)
    http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec()})
    eventually(lambda: states(pod(cluster)).get("main", {}).get("waiting", {}).get("reason") == "ImagePullBackOff")
    reasons = [states(each).get("main", {}).get("waiting", {}).get("reason") for each in seen]
    assert "ErrImagePull" in reasons
    assert pod(cluster)["status"]["phase"] == "Pending"
    message = states(pod(cluster))["main"]["waiting"]["message"]
    assert message.startswith(f'Back-off pulling image "{image}": ErrImagePull: rpc error: code = NotFound')
    texts = [text for _, text in events_about(cluster, "p")]
    for text in (
        f'Pulling image "{image}"',
        "Error: ErrImagePull",
        f'Back-off pulling image "{image}"',
        "Error: ImagePullBackOff",
    ):
        assert text in texts
    cluster.images.allow(image)
    until(cluster, "Succeeded")


def test_pulls_are_tried_again_at_growing_distances(timed, clock) -> None:
    """After 10 s, 20 s, 40 s ..., at most 300 s."""
    image = container()["image"]
    timed.images.refuse(image)
    Http(timed.url)("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec()})

    def pulls() -> int:
        events = timed.store.shelf(timed.catalogue.of("events")).objects.values()
        return sum(each.data["count"] for each in events if each.data["reason"] == "Pulling")

    eventually(lambda: pulls() == 1)
    moments, now = [0], 0
    while len(moments) < 8:
        clock.advance(5)
        now += 5
        timed.settle()
        moments += [now] * (pulls() - len(moments))
    gaps = [after - before for before, after in pairwise(moments)]
    assert all(wait <= gap <= wait + 5 for gap, wait in zip(gaps, (10, 20, 40, 80, 160, 300, 300), strict=True)), gaps


def test_an_eviction_marks_the_pod_and_ends_it(cluster, http_) -> None:
    """DisruptionTarget by EvictionByEvictionAPI is there before the pod goes, and stays on what is seen last."""
    http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(container(code=None))})
    until(cluster, "Running")
    seen = []
    cluster.store.listen(lambda resource, change: seen.append(change.last.data) if resource.kind == "Pod" else None)
    answer = http_("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
    assert (answer.code, answer.json["status"]) == (201, "Success")
    eventually(lambda: pod(cluster) is None)
    assert conditions(seen[0]) | {"DisruptionTarget": "EvictionByEvictionAPI"} == conditions(seen[0])
    assert conditions(seen[-1])["DisruptionTarget"] == "EvictionByEvictionAPI"
    assert states(seen[-1])["main"]["terminated"]["exitCode"] == 128 + signal.SIGTERM


def test_a_node_that_runs_low_evicts(cluster, http_) -> None:
    """Failed with reason Evicted; the object stays, as its owner has to see it (Node-pressure Eviction)."""
    http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(container(code=None))})
    until(cluster, "Running")
    cluster.settle()
    cluster.kubelets.evict_for("default", "p", "memory")
    status = until(cluster, "Failed")["status"]
    assert (status["reason"], status["message"]) == ("Evicted", "The node was low on resource: memory. ")
    assert conditions(pod(cluster))["DisruptionTarget"] == "TerminationByKubelet"


def test_a_pod_that_its_node_does_not_admit_fails_without_containers(cluster, http_) -> None:
    """As `rejectPod` of the kubelet (pkg/kubelet): a reason, a message, an event, and no container's status."""
    cluster.kubelets.reject("node-1", "UnexpectedAdmissionError", "Allocate failed")
    http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(container(code=None))})
    status = until(cluster, "Failed")["status"]
    assert (status["reason"], status["message"]) == ("UnexpectedAdmissionError", "Pod was rejected: Allocate failed")
    assert "containerStatuses" not in status
    assert ("UnexpectedAdmissionError", "Allocate failed") in events_about(cluster, "p")


def test_a_pods_own_deadline(timed, clock) -> None:
    """A pod that is active for too long: Failed by DeadlineExceeded, after its grace."""
    spec = pod_spec(container(code=None), activeDeadlineSeconds=30)
    Http(timed.url)("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    until(timed, "Running")
    timed.settle()
    clock.advance(31)
    assert until(timed, "Failed")["status"]["reason"] == "DeadlineExceeded"


def test_the_qos_class_is_told(cluster, http_) -> None:
    """Guaranteed only if every container, init containers too, has equal requests and limits of cpu and memory."""
    both = {"limits": {"cpu": "1", "memory": "1Gi"}}
    specs = {
        "guaranteed": pod_spec(container(resources=both), initContainers=[container("i", resources=both)]),
        "burstable": pod_spec(container(resources=both), initContainers=[container("i")]),
        "besteffort": pod_spec(),
    }
    for name, spec in specs.items():
        answer = http_("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        assert answer.json["status"]["qosClass"].lower() == name


def test_nothing_outlives_the_cluster(tmp_path) -> None:
    """When the cluster ends, every process of it has ended."""
    with Cluster(Commands(tmp_path), (Node(),), Settings(timings=Timings())) as cluster:
        spec = pod_spec(shell("main", f"echo $$ > {tmp_path}/pid; trap '' TERM; sleep 60"))
        Http(cluster.url)("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
        eventually(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text().strip())
        number = int((tmp_path / "pid").read_text())
        os.kill(number, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
