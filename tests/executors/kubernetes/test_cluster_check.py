"""What a cluster shows when it is only read: each fact, fine and wrong, and what may not be seen."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.errors import ClusterUnavailable
from orchestrator.executors.kubernetes import cluster_check
from orchestrator.executors.kubernetes.api import Client, Kind
from orchestrator.executors.kubernetes.cluster_check import EXCESS_RIGHTS, Requirements, check_cluster
from orchestrator.executors.kubernetes.probe_job import match_pod_spec
from orchestrator.executors.kubernetes.quantities import parse_quantity
from orchestrator.sandboxes.base import Check, CheckStatus
from tests.kubernetes_api import Cluster, Fakes, Node, Resource, Settings, eventually, quantity, versions

from .overlays import FOLDER, documents
from .rendering import settings_of

SPACE = "sparring"
RBAC = "rbac.authorization.k8s.io"
OK, WARN, FAIL, ABSENT = CheckStatus.OK, CheckStatus.WARN, CheckStatus.FAIL, CheckStatus.ABSENT


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """An empty cluster with a namespace."""
    with Cluster(Fakes(), (Node(gpus=2),)) as made:
        made.namespace(SPACE)
        yield made


@pytest.fixture
def api(cluster) -> Client:
    """An administrator."""
    return Client.connect_to_url(cluster.url, SPACE, 5.0)


def make(cluster: Cluster, plural: str, group: str, body: dict[str, Any]) -> None:
    """Puts an object there."""
    resource = cluster.catalogue.of(plural, group)
    cluster.registry.create(resource, SPACE if resource.namespaced else "", body)


def apply(cluster: Cluster, name: str) -> None:
    """Puts the objects of a file of k8s/base there."""
    kinds = cluster.catalogue.kinds()
    for each in documents((FOLDER / "base" / name).read_text("utf-8")):
        resource = kinds[each["apiVersion"], each["kind"]]
        make(cluster, resource.plural, resource.group, each)


def wanted(policy: SandboxPolicy | None = None, **settings: Any) -> Requirements:
    """What a contest with these settings needs."""
    held = settings_of(**settings)
    return Requirements.from_pod_spec(held, match_pod_spec(held, policy or SandboxPolicy()))


def of(checks: Iterator[Check], name: str) -> Check:
    """The one of that name."""
    [found] = [each for each in checks if each.name == name]
    return found


def test_an_empty_cluster_lacks_nearly_everything(api) -> None:
    """Each failure has its remedy."""
    found = list(check_cluster(api, wanted()))
    failed = {each.name for each in found if each.status is FAIL}
    assert failed == {"volume", "network policies"}
    assert all(each.remedy for each in found if each.status in {FAIL, WARN})


def test_a_cluster_with_the_base_has_everything(cluster) -> None:
    """As the controller's account sees it: all rights it needs, none too many, and what it may not see is absent."""
    for name in ("accounts.yaml", "rights.yaml", "amounts.yaml", "network.yaml", "claims.yaml"):
        if name == "accounts.yaml":
            make(cluster, "serviceaccounts", "", {"metadata": {"name": "sparring-controller"}})
            continue
        apply(cluster, name)
    labels = documents((FOLDER / "base" / "namespace.yaml").read_text("utf-8"))[0]["metadata"]["labels"]
    relabel(cluster, labels)
    bound(cluster)
    api = Client.connect_to_url(cluster.url, SPACE, 5.0)
    api._client.configuration.api_key["BearerToken"] = f"Bearer {cluster.token(SPACE, 'sparring-controller')}"
    found = {each.name: each for each in check_cluster(api, wanted())}
    assert {each.status for each in found.values()} == {OK, ABSENT}, found
    assert {name for name, each in found.items() if each.status is ABSENT} == {
        *("runtime class", "priority class", "GPUs", "queue")
    }
    assert found["right to jobs"].detail == "create, delete, get, list, watch"
    seen = {
        each.name: each for each in check_cluster(api, wanted(SandboxPolicy(Limits(gpus=1)), runtime_class="gvisor"))
    }
    assert "no right to list nodes" in seen["GPUs"].detail
    assert "no right to get runtimeclasses" in seen["runtime class"].detail
    assert seen["quota"].status is FAIL  # the base gives no GPUs


def relabel(cluster: Cluster, labels: dict[str, str]) -> None:
    """Changes the labels of the namespace."""
    resource = cluster.catalogue.of("namespaces")
    cluster.registry.modify(resource, ("", SPACE), lambda body: body["metadata"].update(labels=labels), "labels")


def bound(cluster: Cluster) -> None:
    """Waits until the claim is bound."""
    eventually(lambda: cluster.read("persistentvolumeclaims", "sparring-work", SPACE)["status"]["phase"] == "Bound")


def test_rights_that_are_missing_are_named(cluster) -> None:
    """By the verb; what only the check uses is a warning, as is what is too much."""
    cluster.user_token("ann")
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "list"]},
        {"apiGroups": [""], "resources": ["secrets", "pods/exec"], "verbs": ["get", "create"]},
    ]
    make(cluster, "roles", RBAC, {"metadata": {"name": "r"}, "rules": rules})
    subject = {"kind": "User", "name": "ann", "apiGroup": RBAC}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": "r"}
    make(cluster, "rolebindings", RBAC, {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [subject]})
    api = Client.connect_to_url(cluster.url, SPACE, 5.0)
    api._client.configuration.api_key["BearerToken"] = "Bearer token-ann"
    found = {each.name: each for each in check_cluster(api, wanted())}
    assert found["right to jobs"] == Check(
        "right to jobs", FAIL, "missing: delete, get, watch", cluster_check.APPLY_OVERLAY_REMEDY
    )
    assert found["right to configmaps"].status is FAIL
    assert found["right to networkpolicies"].status is WARN
    assert found["excess rights"].detail == "these credentials may get secrets, create pods/exec"
    assert found["volume"].status is ABSENT


def test_an_administrator_has_too_many_rights(api) -> None:
    """Each of the table is asked for, in the namespace or everywhere."""
    found = of(check_cluster(api, wanted()), "excess rights")
    assert found.status is WARN
    assert found.detail.count(",") == len(EXCESS_RIGHTS) - 1


@pytest.mark.parametrize("version", versions())
def test_the_versions_of_the_schemas_are_the_tested_ones(version) -> None:
    """And a server of each is fine."""
    with Cluster(Fakes(), settings=Settings(version=version)) as made:
        assert cluster_check.check_version(Client.connect_to_url(made.url, SPACE)).status is OK


class Says:
    """A server of some version."""

    def __init__(self, text: str) -> None:
        self._text = text

    def server_version(self) -> str:
        """Says it."""
        return self._text


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("v1.37.1-gke.100", OK),
        ("v1.31.0", WARN),
        ("v1.39.0-alpha.1", WARN),
        ("v1.30.9", FAIL),
        ("v1.4", FAIL),
        ("v2.0", WARN),
        ("", WARN),
        ("\x1b[2J", WARN),
    ],
)
def test_other_versions_are_warned_of_or_refused(text, status) -> None:
    """Older than a Job's failure policy is too old; what is unknown is no error, and is shown printable."""
    found = cluster_check.check_version(Says(text))
    assert found.status is status
    assert "\x1b" not in found.detail


@pytest.mark.parametrize(
    ("labels", "status", "said"),
    [
        ({}, WARN, "enforces nothing"),
        ({"enforce": "baseline"}, WARN, "enforces baseline"),
        ({"enforce": "restricted"}, WARN, "changes when the cluster is upgraded"),
        ({"enforce": "restricted", "enforce-version": "v1.35"}, OK, "as of v1.35"),
    ],
)
def test_the_namespace_enforces_a_standard(cluster, api, labels, status, said) -> None:
    """Restricted and pinned is fine."""
    relabel(cluster, {f"pod-security.kubernetes.io/{name}": value for name, value in labels.items()})
    found = cluster_check.check_namespace(api, wanted())
    assert found.status is status
    assert said in found.detail


def test_a_namespace_that_is_not_there_fails(api) -> None:
    """With the remedy."""
    assert cluster_check.check_namespace(api, wanted(namespace="gone")) == Check(
        "namespace", FAIL, "there is no namespace gone", cluster_check.APPLY_OVERLAY_REMEDY
    )


@pytest.mark.parametrize(
    ("modes", "phase", "status"),
    [
        (["ReadWriteMany"], "Bound", OK),
        (["ReadWriteOnce"], "Bound", WARN),
        (["ReadWriteMany"], "Pending", WARN),
        (["ReadWriteMany"], "Lost", FAIL),
    ],
)
def test_the_volume_is_bound_and_many_can_write(modes, phase, status) -> None:
    """Or it says what is short."""
    held = {"phase": phase, "accessModes": modes if phase == "Bound" else []}
    found = cluster_check.check_claim(Fixed({"metadata": {}, "spec": {"accessModes": modes}, "status": held}), wanted())
    assert found.status is status
    assert phase in found.detail
    assert modes[0] in found.detail


class Fixed:
    """An API in which every object is the same one."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body

    def read(self, *_: Any) -> dict[str, Any] | None:
        """Returns it."""
        return self._body


def quota(cluster: Cluster, **hard: str) -> None:
    """Bounds the namespace."""
    named = {name.replace("__", "."): text for name, text in hard.items()}
    make(cluster, "resourcequotas", "", {"metadata": {"name": "q"}, "spec": {"hard": named}})
    cluster.settle()


@pytest.mark.parametrize(
    ("hard", "status", "said"),
    [
        ({"pods": "30", "requests__cpu": "52"}, OK, "26 matches fit at a time"),
        ({"pods": "3"}, OK, "3 matches fit at a time; `cluster.max_jobs` is 20, and matches above the quota wait"),
        ({"pods": "0"}, FAIL, "a match asks for 1 of pods, the quota is 0"),
        ({"limits__memory": "1Gi"}, FAIL, "of limits.memory, the quota is 1Gi"),
        ({"services": "0"}, ABSENT, "has no quota"),
    ],
)
def test_a_quota_leaves_room(cluster, api, hard, status, said) -> None:
    """For so many matches; never for one is a failure."""
    quota(cluster, **hard)
    found = cluster_check.check_quota(api, wanted())
    assert found.status is status
    assert said in found.detail


def test_a_quota_that_is_used_up_now_is_a_warning(cluster, api) -> None:
    """What runs will end."""
    quota(cluster, pods="1")
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    make(cluster, "pods", "", {"metadata": {"name": "p"}, "spec": spec})
    cluster.settle()
    assert cluster_check.check_quota(api, wanted()).status is WARN


def test_one_policy_has_to_deny_everything(cluster, api) -> None:
    """To all pods, both ways; anything less is not it."""
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    less = [
        spec | {"policyTypes": ["Ingress"]},
        spec | {"podSelector": {"matchLabels": {"a": "b"}}},
        spec | {"egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]},
    ]
    for number, each in enumerate(less):
        make(cluster, "networkpolicies", "networking.k8s.io", {"metadata": {"name": f"p{number}"}, "spec": each})
    found = cluster_check.check_policies(api, wanted())
    assert (found.status, found.detail) == (FAIL, "none of the 3 policies denies all traffic to and from all pods")
    make(cluster, "networkpolicies", "networking.k8s.io", {"metadata": {"name": "all"}, "spec": spec})
    assert cluster_check.check_policies(api, wanted()).status is OK


def test_classes_are_looked_for_where_they_are_asked_for(cluster, api) -> None:
    """The runtime's by the contest's runtime or by name; the priority's by name."""
    asked = wanted(SandboxPolicy(runtime=Runtime.RUNSC), priority_class="low")
    found = list(check_cluster(api, asked))
    assert of(found, "runtime class").detail == "the cluster has no runtime class gvisor"
    assert of(found, "priority class").status is FAIL
    make(cluster, "runtimeclasses", "node.k8s.io", {"metadata": {"name": "gvisor"}, "handler": "runsc"})
    make(cluster, "priorityclasses", "scheduling.k8s.io", {"metadata": {"name": "low"}, "value": 1})
    found = list(check_cluster(api, asked))
    assert of(found, "runtime class") == Check("runtime class", OK, "gvisor")
    assert of(found, "priority class").status is OK
    assert of(check_cluster(api, wanted()), "runtime class").status is ABSENT


def test_gpus_are_counted_where_pods_may_run(cluster, api) -> None:
    """By the selector of the settings; nodes without one are a failure if the task asks for one, no nodes are not."""
    policy = SandboxPolicy(Limits(gpus=1))
    found = cluster_check.check_gpus(api, wanted(policy))
    assert (found.status, found.detail) == (OK, "2 of nvidia.com/gpu on 1 of 1 nodes")
    none = cluster_check.check_gpus(api, wanted(policy, node_selector={"pool": "none"}))
    assert (none.status, none.detail) == (WARN, "no node has the labels of `cluster.node_selector` now")
    assert "autoscaler" in none.remedy
    assert cluster_check.check_gpus(api, wanted(policy, gpu="example.org/gpu")).status is FAIL
    assert cluster_check.check_gpus(api, replace(wanted(policy), gpus=2)).status is OK
    few = cluster_check.check_gpus(api, replace(wanted(policy), gpus=3))
    assert few.status is FAIL
    assert "at most 2 on one; a pod with an attack and the defence that it queries needs 3" in few.detail
    assert of(check_cluster(api, wanted()), "GPUs").status is ABSENT


def test_a_pod_of_an_attack_and_a_defence_takes_two_gpus() -> None:
    """Each of its players asks for one of its own."""
    settings, policy = settings_of(), SandboxPolicy(Limits(gpus=1))
    asked = [
        Requirements.from_pod_spec(settings, match_pod_spec(settings, policy, has_attack=two)).gpus
        for two in (False, True)
    ]
    assert asked == [1, 2]


def test_a_queue_has_to_be_there_and_active(cluster, api) -> None:
    """Of either version that Kueue serves."""
    asked = wanted(queue="players")
    assert cluster_check.check_queue(api, asked).status is FAIL
    cluster.serve(Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue"))
    assert "there is no LocalQueue players" in cluster_check.check_queue(api, asked).detail
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "players"}, "spec": {}}
    make(cluster, "localqueues", "kueue.x-k8s.io", body)
    assert cluster_check.check_queue(api, asked).status is OK

    def stop(data: dict[str, Any]) -> None:
        condition = {"type": "Active", "status": "False", "message": "Can't submit new workloads to clusterQueue"}
        data["status"] = {"conditions": [condition]}

    resource = cluster.catalogue.of("localqueues", "kueue.x-k8s.io")
    cluster.registry.modify(resource, (SPACE, "players"), stop, "status")
    found = cluster_check.check_queue(api, asked)
    assert found.status is FAIL
    assert "Can't submit" in found.detail


def test_a_cluster_that_is_away_is_no_failed_check() -> None:
    """It is ours."""
    with pytest.raises(ClusterUnavailable):
        list(check_cluster(Client.connect_to_url("http://127.0.0.1:9", SPACE, 0.2), wanted()))


def test_what_a_match_asks_for_is_counted_as_a_quota_does(cluster) -> None:
    """Sums over its containers, as requests, limits and the old names."""
    held = settings_of()
    policy = SandboxPolicy(Limits(gpus=1, cpus=2.5))
    need = Requirements.from_pod_spec(held, match_pod_spec(held, policy)).resources
    assert need["requests.cpu"] == need["limits.cpu"] == need["cpu"] == Fraction(7, 2)
    assert need["requests.nvidia.com/gpu"] == 1
    assert need["limits.memory"] == policy.limits.memory + int(held.driver_memory)
    two = Requirements.from_pod_spec(held, match_pod_spec(held, policy, has_attack=True)).resources
    assert two["requests.cpu"] == Fraction(6)
    assert two["limits.memory"] == 2 * policy.limits.memory + int(held.driver_memory)
    assert two["pods"] == 1


@given(
    st.one_of(
        st.from_regex(r"\A[0-9]{1,6}(\.[0-9]{1,3})?(m|k|M|G|T|Ki|Mi|Gi|e3|E3|)\Z"),
        st.from_regex(r"\A[+-]?\d{0,3}\.?\d{0,3}([eE][+-]?\d{0,4}|[numkKMGTPE]i?)?\n?\Z"),
        st.text(),
    )
)
def test_quantities_are_read_as_the_server_reads_them(text) -> None:
    """The test server's own reading of quantities, and None where that refuses."""
    try:
        expected = quantity.amount(text)
    except ValueError:
        expected = None
    assert parse_quantity(text) == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[("500m", Fraction(1, 2)), ("1.5Gi", 3 * 2**29), (".5", Fraction(1, 2)), ("1e3", 1000), (8, 8)],
        *[("1E", 10**18), ("2Ei", 2**61), ("4Ki", 4096), ("7k", 7000), ("3n", Fraction(3, 10**9))],
        *[("0E000", 0), ("1e003", 1000), ("1.", 1)],
    ],
)
def test_quantities_are_what_the_documentation_says(text, number) -> None:
    """Quantities, in the reference of the API."""
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    "text", ["", "1 Gi", "Gi", "1gi", "1ki", "--1", "0x1", "nan", "1e", "1mi", "1\n", "٣", "1e0٣", "."]
)
def test_what_is_no_quantity_is_none(text) -> None:
    """None, and never an exception: what a cluster says is not ours."""
    assert parse_quantity(text) is None


def test_the_older_kueue_is_asked_too(monkeypatch) -> None:
    """Version v1beta1, where v1beta2 is not served."""
    asked: list[Kind] = []

    class Served(Fixed):
        def read(self, kind: Kind, _: str) -> dict[str, Any] | None:
            asked.append(kind)
            return self._body if kind.version == "v1beta1" else None

    assert cluster_check.check_queue(Served({"metadata": {}}), wanted(queue="q")).status is OK
    assert asked == [cluster_check.QUEUES, replace(cluster_check.QUEUES, version="v1beta1")]
