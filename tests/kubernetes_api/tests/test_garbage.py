"""The test cluster's garbage collector, namespaces and quotas.

Kubernetes documentation: Garbage Collection; "Use Cascading Deletion in a Cluster"; Owners and Dependents;
Namespaces; Resource Quotas.
"""

import pytest

from tests.kubernetes_api import eventually

from .conftest import JOBS, MAPS, PODS, container, make_job, make_map, pod_spec

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@pytest.fixture
def running(cluster, http_) -> str:
    """The name of the running pod of Job a."""
    http_("POST", JOBS, make_job("a", container(code=None)))
    [pod] = eventually(lambda: [p for p in cluster.pods_of("a") if p["status"].get("phase") == "Running"])
    cluster.settle()
    return pod["metadata"]["name"]


def test_a_job_orphans_its_pods_unless_told_otherwise(cluster, http_, running) -> None:
    """batch/v1's default, with a warning; the pod goes on without an owner and without the Job's finalizer."""
    answer = http_("DELETE", f"{JOBS}/a")
    assert "child pods are preserved by default when jobs are deleted" in answer.headers["warning"]
    eventually(lambda: cluster.read("jobs", "a", group="batch") is None)
    cluster.settle()
    pod = cluster.read("pods", running)
    assert pod["status"]["phase"] == "Running"
    assert "ownerReferences" not in pod["metadata"]
    assert not pod["metadata"].get("finalizers")


def test_background_deletion_takes_the_owner_first(cluster, http_, running) -> None:
    """The Job is gone with the answer, its pod soon after; no warning."""
    answer = http_("DELETE", f"{JOBS}/a", {"kind": "DeleteOptions", "propagationPolicy": "Background"})
    assert answer.json["kind"] == "Status"
    assert "warning" not in answer.headers
    assert cluster.read("jobs", "a", group="batch") is None
    eventually(lambda: cluster.read("pods", running) is None)


def test_foreground_deletion_takes_the_dependents_first(cluster, http_, hook, running) -> None:
    """The Job stays, marked, until its pod is gone."""
    fake = hook.running[running, "main"]
    fake.send_signal = lambda number: None
    answer = http_("DELETE", f"{JOBS}/a", propagationPolicy="Foreground")
    assert answer.json["metadata"]["finalizers"] == ["foregroundDeletion"]
    cluster.settle()
    assert cluster.read("jobs", "a", group="batch")["metadata"]["deletionTimestamp"]
    assert cluster.read("pods", running)["metadata"]["deletionTimestamp"]
    fake.end(0)
    eventually(lambda: cluster.read("pods", running) is None)
    eventually(lambda: cluster.read("jobs", "a", group="batch") is None)


def test_an_unknown_policy_is_refused(http_, running) -> None:
    """422, and nothing is deleted."""
    assert http_("DELETE", f"{JOBS}/a", propagationPolicy="Sideways").code == 422
    assert http_("GET", f"{JOBS}/a").code == 200


def test_anything_may_own_anything_in_its_namespace(cluster, http_) -> None:
    """A config map that a Job owns goes with it; one with a second owner stays."""
    job = http_("POST", JOBS, make_job("a", suspend=True)).json
    other = http_("POST", MAPS, make_map("owner")).json

    def owner(found: dict, kind: str, version: str) -> dict:
        return {"apiVersion": version, "kind": kind, "name": found["metadata"]["name"], "uid": found["metadata"]["uid"]}

    mine, shared = make_map("mine"), make_map("shared")
    mine["metadata"]["ownerReferences"] = [owner(job, "Job", "batch/v1")]
    shared["metadata"]["ownerReferences"] = [owner(job, "Job", "batch/v1"), owner(other, "ConfigMap", "v1")]
    for body in (mine, shared):
        http_("POST", MAPS, body)
    http_("DELETE", f"{JOBS}/a", propagationPolicy="Background")
    eventually(lambda: cluster.read("configmaps", "mine") is None)
    cluster.settle()
    [left] = cluster.read("configmaps", "shared")["metadata"]["ownerReferences"]
    assert left["name"] == "owner"


def test_an_object_whose_owner_is_gone_is_collected(cluster, http_) -> None:
    """It was created too late: its owner is absent."""
    body = make_map("late")
    uid = "00000000-0000-4000-8000-000000000000"
    body["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": uid}]
    http_("POST", MAPS, body)
    eventually(lambda: cluster.read("configmaps", "late") is None)


def test_a_namespace_takes_everything_with_it(cluster, http_) -> None:
    """Terminating until it is empty; nothing new is let in meanwhile; then it is gone."""
    http_("POST", "/api/v1/namespaces", {"metadata": {"name": "round"}})
    place = "/api/v1/namespaces/round"
    held = make_map("held")
    held["metadata"]["finalizers"] = ["example.org/hold"]
    http_("POST", f"{place}/configmaps", held)
    http_("POST", f"{place}/pods", {"metadata": {"name": "p"}, "spec": pod_spec(container(code=None))})
    assert http_("DELETE", place).json["status"]["phase"] == "Terminating"
    refused = http_("POST", f"{place}/configmaps", make_map("new"))
    assert refused.code == 403
    assert "because it is being terminated" in refused.json["message"]
    assert refused.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    eventually(lambda: cluster.read("pods", "p", "round") is None)
    assert http_("GET", place).code == 200
    http_("PATCH", f"{place}/configmaps/held", {"metadata": {"finalizers": None}}, media="application/merge-patch+json")
    eventually(lambda: http_("GET", place).code == 404)


def test_a_quota_counts_what_is_there(cluster, http_) -> None:
    """Pods until they have ended, other objects by `count/`; what exceeds it is refused with the three numbers."""
    http_("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1", "count/configmaps": "1"}}})
    http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(container(code=None))})
    refused = http_("POST", PODS, {"metadata": {"name": "q"}, "spec": pod_spec()})
    assert (refused.code, refused.json["reason"]) == (403, "Forbidden")
    assert refused.json["message"] == (
        'pods "q" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )
    assert http_("POST", MAPS, make_map("a")).code == 201
    assert http_("POST", MAPS, make_map("b")).code == 403
    http_("DELETE", f"{MAPS}/a")
    assert http_("POST", MAPS, make_map("b")).code == 201
    http_("DELETE", f"{PODS}/p", gracePeriodSeconds="0")
    cluster.settle()
    assert http_("POST", PODS, {"metadata": {"name": "q"}, "spec": pod_spec()}).code == 201
    eventually(lambda: cluster.read("pods", "q")["status"]["phase"] == "Succeeded")
    cluster.settle()
    assert cluster.read("resourcequotas", "q")["status"]["used"] == {"pods": "0", "count/configmaps": "1"}


def test_a_quota_of_memory_wants_every_pod_to_say_how_much(http_) -> None:
    """Resource Quotas: without requests the pod is refused."""
    http_("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"requests.memory": "2Gi"}}})
    refused = http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec()})
    assert "failed quota: q: must specify requests.memory for: main" in refused.json["message"]
    small = pod_spec(container(resources={"limits": {"memory": "1536Mi"}}))
    assert (
        http_("POST", PODS, {"metadata": {"name": "p"}, "spec": small | {"nodeSelector": {"no": "node"}}}).code == 201
    )
    refused = http_("POST", PODS, {"metadata": {"name": "q"}, "spec": small})
    assert refused.json["message"].endswith(
        "exceeded quota: q, requested: requests.memory=1536Mi, used: requests.memory=1536Mi, "
        "limited: requests.memory=2Gi"
    )
