"""The test cluster's scheduler and nodes.

Kubernetes documentation: Kubernetes Scheduler; Resource Management for Pods and Containers; Assigning Pods to Nodes;
Taints and Tolerations; Nodes; Disruptions ("Pod disruption conditions"); Node Shutdowns ("Non-graceful node shutdown
handling"); Persistent Volumes; Runtime Class; Pod Priority and Preemption.
"""

import signal

import pytest

from tests.kubernetes_api import Cluster, Fakes, Node, eventually

from .conftest import JOBS, PODS, Http, conditions, container, events_about, make_job, pod_spec


def pod(cluster: Cluster, name: str = "p") -> dict | None:
    """A pod as it is now."""
    return cluster.read("pods", name)


def create(ask: Http, name: str, *containers: dict, **spec: object) -> None:
    """Creates a pod."""
    answer = ask("POST", PODS, {"metadata": {"name": name}, "spec": pod_spec(*containers, **spec)})
    assert answer.code == 201, answer.text


def why(cluster: Cluster, name: str = "p") -> str:
    """Waits until a pod is said not to fit; returns the message."""

    def found() -> str:
        states = (pod(cluster, name) or {})["status"].get("conditions") or ()
        return "".join(each.get("message", "") for each in states if each.get("reason") == "Unschedulable")

    return eventually(found, "an unschedulable pod")


def node_of(cluster: Cluster, name: str) -> str:
    """Waits until a pod is bound; returns its node."""
    return eventually(lambda: (pod(cluster, name) or {"spec": {}})["spec"].get("nodeName"), f"{name} bound")


GPU = {"limits": {"nvidia.com/gpu": 1}}


def test_a_pod_is_bound_where_there_is_room(cluster, http_) -> None:
    """PodScheduled turns true, and an event says where."""
    create(http_, "p", container(code=None))
    assert node_of(cluster, "p") == "node-1"
    cluster.settle()
    assert "PodScheduled" in conditions(pod(cluster))
    assert ("Scheduled", "Successfully assigned default/p to node-1") in events_about(cluster, "p")


def test_a_gpu_that_is_in_use_keeps_others_waiting(cluster, http_, hook) -> None:
    """In the scheduler's words; the next pod is bound as soon as the first has ended."""
    create(http_, "first", container(code=None, resources=GPU))
    node_of(cluster, "first")
    create(http_, "p", container(resources=GPU))
    assert why(cluster) == (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    assert eventually(lambda: events_about(cluster, "p"))[0][0] == "FailedScheduling"
    eventually(lambda: ("first", "main") in hook.running)
    hook.running["first", "main"].end(0)
    assert node_of(cluster, "p") == "node-1"


def test_what_no_node_could_ever_hold_is_said_so(cluster, http_) -> None:
    """More than a node has: preemption cannot help."""
    create(http_, "p", container(resources={"limits": {"nvidia.com/gpu": 2, "memory": "64Gi"}}))
    assert why(cluster) == (
        "0/1 nodes are available: 1 Insufficient memory, 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_requests_of_all_containers_count_and_init_containers_by_the_largest() -> None:
    """Init Containers, "Resource sharing within containers"."""
    with Cluster(Fakes(), (Node(cpu="4"),)) as cluster:
        ask = Http(cluster.url)

        def cpu(value: str) -> dict:
            return {"resources": {"requests": {"cpu": value}}}

        first = [container("i", **cpu("3500m"))]
        create(ask, "big", container("a", None, **cpu("2")), container("b", None, **cpu("1")), initContainers=first)
        assert node_of(cluster, "big")
        create(ask, "p", container(**cpu("600m")))
        assert "1 Insufficient cpu" in why(cluster)
        create(ask, "small", container(code=None, **cpu("500m")))
        assert node_of(cluster, "small")


def test_selectors_and_taints_choose_nodes() -> None:
    """A pod goes where its selector and its tolerations let it, and is told of every node that does not fit."""
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    nodes = (Node("cpu-1"), Node("gpu-1", gpus=1, labels={"gpu": "a100"}, taints=(taint,)))
    with Cluster(Fakes(), nodes) as cluster:
        ask = Http(cluster.url)
        create(ask, "p", nodeSelector={"gpu": "a100"})
        assert why(cluster).startswith(
            "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
            "1 node(s) had untolerated taint {nvidia.com/gpu: present}."
        )
        create(ask, "q", nodeSelector={"gpu": "a100"}, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
        assert node_of(cluster, "q") == "gpu-1"
        create(ask, "r")
        assert node_of(cluster, "r") == "cpu-1"


def test_a_new_node_helps_those_who_wait() -> None:
    """From none to one."""
    with Cluster(Fakes(), ()) as cluster:
        create(Http(cluster.url), "p")
        assert why(cluster) == "no nodes available to schedule pods"
        cluster.nodes.add(Node("late"))
        assert node_of(cluster, "p") == "late"


def test_a_claim_must_be_there_and_bound(cluster, http_) -> None:
    """A pod whose claim is missing waits; one whose class cannot provide waits too."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    create(http_, "p", volumes=volumes)
    assert why(cluster) == 'persistentvolumeclaim "data" not found'
    cluster.claims.broken.add("slow")
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    http_("POST", claims, {"metadata": {"name": "other"}, "spec": spec | {"storageClassName": "slow"}})
    create(http_, "q", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "other"}}])
    assert "unbound immediate PersistentVolumeClaims" in why(cluster, "q")
    http_("POST", claims, {"metadata": {"name": "data"}, "spec": spec})
    assert node_of(cluster, "p")
    assert http_("GET", f"{claims}/data").json["status"]["phase"] == "Bound"


def test_a_runtime_class_must_exist(cluster, http_) -> None:
    """403 at the pod, not a pod that waits; its overhead counts."""
    refused = http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(runtimeClassName="gvisor")})
    assert (refused.code, refused.json["message"]) == (
        403,
        'pods "p" is forbidden: pod rejected: RuntimeClass "gvisor" not found',
    )
    kind = {"metadata": {"name": "gvisor"}, "handler": "runsc", "overhead": {"podFixed": {"memory": "40Gi"}}}
    assert http_("POST", "/apis/node.k8s.io/v1/runtimeclasses", kind).code == 201
    create(http_, "p", runtimeClassName="gvisor")
    assert "1 Insufficient memory" in why(cluster)


def test_a_priority_class_must_exist(http_) -> None:
    """Priority is the class's value."""
    spec = pod_spec(priorityClassName="high", nodeSelector={"no": "node"})
    refused = http_("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert "no PriorityClass with name high was found" in refused.json["message"]
    http_("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 100})
    assert http_("POST", PODS, {"metadata": {"name": "p"}, "spec": spec}).json["spec"]["priority"] == 100


def test_a_preempted_pod_is_marked(cluster, http_) -> None:
    """DisruptionTarget by PreemptionByScheduler."""
    create(http_, "p", container(code=None))
    eventually(lambda: pod(cluster)["status"]["phase"] == "Running")
    seen = []
    cluster.store.listen(lambda resource, change: seen.append(change.last.data) if resource.kind == "Pod" else None)
    cluster.preempt("default", "p")
    eventually(lambda: pod(cluster) is None)
    assert conditions(seen[-1])["DisruptionTarget"] == "PreemptionByScheduler"


@pytest.fixture
def lost(timed, clock):
    """A cluster whose only node has just been lost, with the pod of Job a on it."""
    policy = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    Http(timed.url)("POST", JOBS, make_job("a", container(code=None), podFailurePolicy=policy))
    eventually(lambda: [each for each in timed.pods_of("a") if each["status"].get("phase") == "Running"])
    timed.settle()
    timed.nodes.lose("node-1")
    timed.settle()
    return timed


def test_a_lost_node_is_unknown_and_tainted(lost) -> None:
    """Ready is Unknown; nothing new is placed on it; its pods stay, no longer ready."""
    node = lost.read("nodes", "node-1")
    [ready] = [each for each in node["status"]["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "Unknown",
        "NodeStatusUnknown",
        "Kubelet stopped posting node status.",
    )
    assert {each["effect"] for each in node["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
    [found] = lost.pods_of("a")
    assert "Ready" not in conditions(found)
    assert found["status"]["phase"] == "Running"
    create(Http(lost.url), "p")
    assert "untolerated taint {node.kubernetes.io/unreachable: }" in why(lost)


def test_its_pods_are_told_to_go_after_their_toleration(lost, clock) -> None:
    """300 s; then Terminating with DeletionByTaintManager, for ever: nobody is there to confirm it."""
    clock.advance(299)
    lost.settle()
    assert not lost.pods_of("a")[0]["metadata"].get("deletionTimestamp")
    clock.advance(2)
    eventually(lambda: lost.pods_of("a")[0]["metadata"].get("deletionTimestamp"))
    clock.advance(10_000)
    lost.settle()
    [found] = lost.pods_of("a")
    assert conditions(found)["DisruptionTarget"] == "DeletionByTaintManager"
    assert found["status"]["phase"] == "Running"
    assert not conditions(lost.read("jobs", "a", group="batch"))
    assert ("TaintManagerEviction", f"Marking for deletion Pod default/{found['metadata']['name']}") in events_about(
        lost, found["metadata"]["name"]
    )


def test_a_node_that_is_deleted_ends_its_pods(lost, clock) -> None:
    """40 s after the Node object is gone: Failed by DeletionByPodGC, and the Job sees it."""
    lost.nodes.remove("node-1")
    clock.advance(39)
    lost.settle()
    assert lost.pods_of("a")
    clock.advance(2)
    eventually(lambda: "Failed" in conditions(lost.read("jobs", "a", group="batch")))
    job = lost.read("jobs", "a", group="batch")
    assert conditions(job)["Failed"] == "PodFailurePolicy"
    assert (
        "has condition DisruptionTarget matching FailJob rule at index 0" in job["status"]["conditions"][0]["message"]
    )
    eventually(lambda: not lost.pods_of("a"))


def test_a_node_that_comes_back_in_time_changes_nothing(lost, clock) -> None:
    """But for what died with it: the kubelet reports the containers that are gone."""
    clock.advance(100)
    lost.nodes.restore("node-1")
    clock.advance(1000)
    eventually(lambda: lost.pods_of("a")[0]["status"]["phase"] == "Failed")
    lost.settle()
    assert "taints" not in lost.read("nodes", "node-1")["spec"]
    assert conditions(lost.read("jobs", "a", group="batch"))["Failed"] == "BackoffLimitExceeded"


def test_a_process_that_starts_while_its_node_is_lost_ends_with_it(timed, hook, monkeypatch) -> None:
    """The node is lost after its kubelet has noted the start, and before there is a process."""
    processes = []

    def start(spec, pod):
        timed.nodes.lose("node-1")
        processes.append(hook(spec, pod))
        return processes[-1]

    monkeypatch.setattr(timed.kubelets, "_hook", start)
    create(Http(timed.url), "p", container(code=None))
    eventually(lambda: processes, "a process")
    assert processes[0].wait() == -signal.SIGKILL


def test_a_node_that_comes_back_late_obeys(timed, clock) -> None:
    """Its processes ran all the time; what was deleted meanwhile is ended then."""
    ask = Http(timed.url)
    create(ask, "p", container(code=None))
    eventually(lambda: pod(timed)["status"]["phase"] == "Running")
    timed.nodes.lose("node-1", kill=False)
    clock.advance(301)
    eventually(lambda: pod(timed)["metadata"].get("deletionTimestamp"))
    timed.nodes.restore("node-1")
    eventually(lambda: pod(timed) is None)


def test_a_pod_may_be_quicker_to_leave(timed, clock) -> None:
    """Its own toleration counts: 5 s here."""
    keys = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
    short = [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5} for key in keys]
    create(Http(timed.url), "p", container(code=None), tolerations=short)
    eventually(lambda: pod(timed)["status"]["phase"] == "Running")
    timed.nodes.lose("node-1")
    clock.advance(6)
    eventually(lambda: pod(timed)["metadata"].get("deletionTimestamp"))
