"""Objects of the test cluster: what every one of them has, and how it is created, replaced and deleted.

Kubernetes documentation: API concepts; Object Names and IDs; Finalizers; API conventions ("Metadata", "Concurrency
Control and Consistency", "Response Status Kind").
"""

import re

import pytest
from kubernetes.client import ApiException, V1Lease, V1LeaseSpec, V1ObjectMeta

from .conftest import JOBS, MAPS, PODS, container, make_job, make_map, pod_spec


def test_the_server_fills_in_what_identifies_an_object(http_) -> None:
    """uid, resourceVersion and creationTimestamp are the server's, whatever the body says; generation begins at 1."""
    body = make_job("a", container(code=None)) | {"status": {"succeeded": 9}}
    body["metadata"] |= {"uid": "mine", "generation": 7, "creationTimestamp": "2001-01-01T00:00:00Z"}
    answer = http_("POST", JOBS, body)
    held = answer.json["metadata"]
    assert answer.code == 201
    assert re.fullmatch(r"[0-9a-f-]{36}", held["uid"])
    assert held["generation"] == 1
    assert held["namespace"] == "default"
    assert not held["creationTimestamp"].startswith("2001")
    assert answer.json["status"] == {}


def test_versions_grow_with_every_change_of_any_object(http_) -> None:
    """One revision counts the changes of all resources; reading changes nothing."""
    first = http_("POST", MAPS, make_map("a")).json["metadata"]["resourceVersion"]
    second = http_("POST", MAPS, make_map("b")).json["metadata"]["resourceVersion"]
    assert int(second) > int(first)
    assert http_("GET", f"{MAPS}/a").json["metadata"]["resourceVersion"] == first


def test_generation_counts_changes_of_the_specification_only(batch) -> None:
    """Labels leave it alone; the specification moves it."""
    batch.create_namespaced_job(namespace="default", body=make_job("a", container(code=None), suspend=True))
    labelled = batch.patch_namespaced_job(name="a", namespace="default", body={"metadata": {"labels": {"x": "y"}}})
    assert labelled.metadata.generation == 1
    resumed = batch.patch_namespaced_job(name="a", namespace="default", body={"spec": {"suspend": False}})
    assert resumed.metadata.generation == 2


def test_a_name_can_be_generated(http_) -> None:
    """`generateName` gets five letters; a base that is too long is cut so that a label may hold the name."""
    made = http_("POST", MAPS, {"metadata": {"generateName": "map-"}}).json["metadata"]["name"]
    assert re.fullmatch(r"map-[bcdfghjklmnpqrstvwxz2456789]{5}", made)
    assert len(http_("POST", MAPS, {"metadata": {"generateName": "x" * 80}}).json["metadata"]["name"]) == 63


def test_a_second_object_of_a_name_is_refused(http_) -> None:
    """409 AlreadyExists, with the name in the details."""
    http_("POST", MAPS, make_map("a"))
    answer = http_("POST", MAPS, make_map("a"))
    assert (answer.code, answer.json["reason"]) == (409, "AlreadyExists")
    assert answer.json["message"] == 'configmaps "a" already exists'
    assert answer.json["details"] == {"name": "a", "kind": "configmaps"}


def test_a_missing_object_is_not_found(http_) -> None:
    """404 NotFound names group and resource; a path that is none says that it is none."""
    answer = http_("GET", f"{JOBS}/a")
    assert (answer.code, answer.json["reason"]) == (404, "NotFound")
    assert answer.json["message"] == 'jobs.batch "a" not found'
    assert answer.json["details"] == {"name": "a", "group": "batch", "kind": "jobs"}
    assert http_("GET", "/apis/batch/v1/namespaces/default/nothings").json["message"].startswith("the server could not")
    assert (
        http_("POST", "/api/v1/namespaces/none/configmaps", make_map("a"))
        .json["message"]
        .startswith('namespaces "none"')
    )


def test_an_update_of_an_old_version_is_a_conflict(core) -> None:
    """Who read first and writes last gets 409 Conflict; without a version the last one wins."""
    core.create_namespaced_config_map(namespace="default", body=make_map("a", k="1"))
    old = core.read_namespaced_config_map(name="a", namespace="default")
    core.patch_namespaced_config_map(name="a", namespace="default", body={"data": {"k": "2"}})
    old.data["k"] = "3"
    with pytest.raises(ApiException) as refused:
        core.replace_namespaced_config_map(name="a", namespace="default", body=old)
    assert refused.value.status == 409
    assert "the object has been modified" in refused.value.body
    old.metadata.resource_version = None
    assert core.replace_namespaced_config_map(name="a", namespace="default", body=old).data == {"k": "3"}


def test_an_update_of_another_object_of_that_name_is_a_conflict(http_) -> None:
    """A uid in the body is a precondition."""
    http_("POST", MAPS, make_map("a"))
    body = make_map("a")
    body["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
    assert (answer := http_("PUT", f"{MAPS}/a", body)).code == 409
    assert "Precondition failed: UID in precondition" in answer.json["message"]


def test_an_update_that_changes_nothing_is_no_change(http_) -> None:
    """The version stays, so that no watch is woken."""
    first = http_("POST", MAPS, make_map("a", k="1"))
    assert http_("PUT", f"{MAPS}/a", first.json).json == first.json


def test_a_lease_is_never_replaced_blindly(leases) -> None:
    """A lease needs its version: two candidates cannot both win (Leases, leader election)."""
    spec = V1LeaseSpec(holder_identity="a", lease_duration_seconds=15)
    made = leases.create_namespaced_lease(
        namespace="default", body=V1Lease(metadata=V1ObjectMeta(name="lock"), spec=spec)
    )
    made.spec.holder_identity = "b"
    assert leases.replace_namespaced_lease(name="lock", namespace="default", body=made).spec.holder_identity == "b"
    with pytest.raises(ApiException) as late:
        leases.replace_namespaced_lease(name="lock", namespace="default", body=made)
    assert late.value.status == 409
    made.metadata.resource_version = None
    with pytest.raises(ApiException) as blind:
        leases.replace_namespaced_lease(name="lock", namespace="default", body=made)
    assert blind.value.status == 422


def test_status_and_the_rest_are_changed_by_different_paths(cluster, http_) -> None:
    """An update ignores the status, an update of `/status` everything else (API conventions, "Spec and Status")."""
    http_("POST", JOBS, make_job("a", container(code=None), suspend=True))
    cluster.settle()
    held = http_("GET", f"{JOBS}/a").json
    held["status"] = {"active": 5}
    held["spec"]["suspend"] = True
    assert http_("PUT", f"{JOBS}/a", held).json["status"].get("active") is None
    cluster.settle()
    held = http_("GET", f"{JOBS}/a").json
    held["spec"]["backoffLimit"], held["status"]["succeeded"] = 6, 1
    answer = http_("PUT", f"{JOBS}/a/status", held)
    assert (answer.json["spec"]["backoffLimit"], answer.json["status"]["succeeded"]) == (0, 1)


def test_a_dry_run_stores_nothing(http_) -> None:
    """`dryRun=All` answers as if, and forgets ("Dry-run")."""
    assert http_("POST", MAPS, make_map("a"), dryRun="All").code == 201
    assert http_("GET", f"{MAPS}/a").code == 404
    http_("POST", MAPS, make_map("a"))
    assert http_("DELETE", f"{MAPS}/a", dryRun="All").code == 200
    assert http_("GET", f"{MAPS}/a").code == 200


def test_finalizers_hold_an_object_that_is_deleted(http_) -> None:
    """The object stays with its deletionTimestamp until the last finalizer is removed; none may be added meanwhile."""
    body = make_map("a")
    body["metadata"]["finalizers"] = ["example.org/hold"]
    http_("POST", MAPS, body)
    assert http_("DELETE", f"{MAPS}/a").json["metadata"]["deletionTimestamp"]
    held = http_("GET", f"{MAPS}/a").json
    more = {"metadata": {"finalizers": ["example.org/hold", "example.org/more"]}}
    merge = "application/merge-patch+json"
    refused = http_("PATCH", f"{MAPS}/a", more, media=merge)
    assert refused.code == 422
    assert refused.json["details"]["causes"][0]["field"] == "metadata.finalizers"
    held["metadata"]["finalizers"] = []
    assert http_("PUT", f"{MAPS}/a", held).code == 200
    assert http_("GET", f"{MAPS}/a").code == 404


def test_a_deletion_may_have_preconditions(http_) -> None:
    """Another uid or version than the stored one is a conflict, and nothing is deleted."""
    http_("POST", MAPS, make_map("a"))
    for wanted in ({"uid": "other"}, {"resourceVersion": "1"}):
        answer = http_("DELETE", f"{MAPS}/a", {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": wanted})
        assert (answer.code, answer.json["reason"]) == (409, "Conflict")
    assert http_("GET", f"{MAPS}/a").code == 200


def test_a_deletion_answers_with_a_status_or_the_object(http_) -> None:
    """What is gone at once is told by a Status; a pod is shown as it was."""
    uid = http_("POST", MAPS, make_map("a")).json["metadata"]["uid"]
    answer = http_("DELETE", f"{MAPS}/a").json
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": uid}
    http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(nodeSelector={"no": "node"})})
    assert http_("DELETE", f"{PODS}/p").json["kind"] == "Pod"


def test_a_collection_can_be_deleted_by_selector(core) -> None:
    """Only what is selected goes."""
    for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
        core.create_namespaced_config_map(namespace="default", body=make_map(name, {"colour": colour}))
    core.delete_collection_namespaced_config_map(namespace="default", label_selector="colour=red")
    assert [each.metadata.name for each in core.list_namespaced_config_map(namespace="default").items] == ["c"]


def test_what_cannot_be_read_is_a_bad_request(http_) -> None:
    """No JSON, another kind, another namespace, another name: 400; another format: 415; another verb: 405."""
    assert http_("POST", MAPS, b"{").code == 400
    assert http_("POST", MAPS, {"kind": "Secret", "metadata": {"name": "a"}}).code == 400
    assert http_("POST", MAPS, {"metadata": {"name": "a", "namespace": "other"}}).code == 400
    http_("POST", MAPS, make_map("a"))
    assert http_("PUT", f"{MAPS}/a", make_map("b")).code == 400
    assert http_("POST", MAPS, b"x", media="application/vnd.kubernetes.protobuf").code == 415
    assert http_("PUT", MAPS, make_map("a")).code == 405


def test_discovery_names_what_is_there(http_) -> None:
    """/api, /apis, /apis/GROUP, the resource lists and /version agree with each other."""
    assert http_("GET", "/api").json["versions"] == ["v1"]
    groups = {each["name"]: each["preferredVersion"]["version"] for each in http_("GET", "/apis").json["groups"]}
    assert groups["batch"] == "v1"
    for group, version in groups.items():
        assert http_("GET", f"/apis/{group}").json["name"] == group
        assert http_("GET", f"/apis/{group}/{version}").json["resources"]
    names = [each["name"] for each in http_("GET", "/apis/batch/v1").json["resources"]]
    assert names == ["jobs", "jobs/status"]
    assert http_("GET", "/version").json["gitVersion"].startswith("v1.")
    assert http_("GET", "/readyz").code == 200
