"""Who may do what in the test cluster.

Kubernetes documentation: Authenticating; Using RBAC Authorization; Authorization, "Checking API access".
"""

import pytest

from tests.kubernetes_api import Cluster, Fakes, Settings

from .conftest import JOBS, MAPS, PODS, Http, container, make_job, make_map, pod_spec

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def token(cluster, http_) -> str:
    """A service account that may read pods and their logs, and read one config map, in its namespace only."""
    rules = [
        {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get"]},
    ]
    http_("POST", f"{RBAC}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "default"}],
    }
    assert http_("POST", f"{RBAC}/rolebindings", binding).code == 201
    return cluster.token("default", "default")


def test_an_unknown_token_is_unauthorized(http_) -> None:
    """401, whatever is asked."""
    answer = http_("GET", MAPS, token="nonsense")  # noqa: S106  no secret
    assert (answer.code, answer.json["reason"]) == (401, "Unauthorized")


def test_a_role_gives_its_rights_in_its_namespace(http_, token) -> None:
    """What no rule names is 403, in words that say who lacks what, where."""
    assert http_("GET", PODS, token=token).code == 200
    refused = http_("GET", "/api/v1/namespaces/kube-system/pods", token=token)
    user = "system:serviceaccount:default:default"
    assert refused.code == 403
    assert refused.json["message"] == (
        f'pods is forbidden: User "{user}" cannot list resource "pods" in API group "" in the namespace "kube-system"'
    )
    everywhere = http_("GET", "/api/v1/pods", token=token).json["message"]
    assert everywhere.endswith('in API group "" at the cluster scope')
    created = http_("POST", JOBS, make_job("a"), token=token)
    assert created.json["message"].startswith(f'jobs.batch is forbidden: User "{user}" cannot create resource "jobs"')


def test_verbs_subresources_and_names_are_told_apart(cluster, http_, token) -> None:
    """To get is not to delete, pods/log is not pods/eviction, `mine` is not `yours`."""
    for name in ("mine", "yours"):
        http_("POST", MAPS, make_map(name))
    http_("POST", PODS, {"metadata": {"name": "p"}, "spec": pod_spec(container(code=None))})
    cluster.settle()
    assert http_("GET", f"{MAPS}/mine", token=token).code == 200
    assert http_("GET", f"{MAPS}/yours", token=token).code == 403
    assert http_("GET", MAPS, token=token).code == 403
    assert http_("DELETE", f"{PODS}/p", token=token).code == 403
    assert http_("GET", f"{PODS}/p/log", token=token).code == 200
    assert http_("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}}, token=token).code == 403


def test_a_namespace_can_be_read_with_its_own_rights(cluster, http_) -> None:
    """A role in a namespace may name the namespace itself, and no other."""
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list"]}]
    http_("POST", f"{RBAC}/roles", {"metadata": {"name": "self"}, "rules": rules})
    binding = {
        "metadata": {"name": "self"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "self"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    http_("POST", f"{RBAC}/rolebindings", binding)
    ann = cluster.user_token("ann")
    asked = ("/api/v1/namespaces/default", "/api/v1/namespaces/kube-system", "/api/v1/namespaces")
    assert [http_("GET", path, token=ann).code for path in asked] == [200, 403, 403]


def test_a_cluster_role_can_be_bound_in_one_namespace_or_in_all(cluster, http_) -> None:
    """RoleBinding and ClusterRoleBinding of the same ClusterRole."""
    cluster_wide = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    http_("POST", f"{cluster_wide}/clusterroles", {"metadata": {"name": "all"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"}
    here = {
        "metadata": {"name": "x"},
        "roleRef": reference,
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    everywhere = {
        "metadata": {"name": "x"},
        "roleRef": reference,
        "subjects": [{"kind": "Group", "name": "staff", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    assert http_("POST", f"{RBAC}/rolebindings", here).code == 201
    assert http_("POST", f"{cluster_wide}/clusterrolebindings", everywhere).code == 201
    ann, bob = cluster.user_token("ann"), cluster.user_token("bob", "staff")
    assert [http_("GET", MAPS, token=each).code for each in (ann, bob)] == [200, 200]
    assert [http_("GET", "/api/v1/nodes", token=each).code for each in (ann, bob)] == [403, 200]


def test_a_user_can_ask_what_is_allowed(http_, token) -> None:
    """SelfSubjectAccessReview answers as the request itself would be answered."""

    def asked(**attributes: str) -> bool:
        answer = http_("POST", REVIEWS, {"spec": {"resourceAttributes": attributes}}, token=token)
        assert answer.code == 201
        return answer.json["status"]["allowed"]

    assert asked(verb="list", resource="pods", namespace="default")
    assert asked(verb="get", resource="pods", subresource="log", namespace="default")
    assert not asked(verb="list", resource="pods", namespace="kube-system")
    assert not asked(verb="create", group="batch", resource="jobs", namespace="default")
    assert http_("POST", REVIEWS, {"spec": {}}, token=token).code == 422


def test_rights_end_with_their_binding(http_, token) -> None:
    """Roles are looked up at every request."""
    http_("DELETE", f"{RBAC}/rolebindings/reader")
    assert http_("GET", PODS, token=token).code == 403


def test_a_cluster_may_want_tokens() -> None:
    """Without one, a request is that of `system:anonymous`."""
    with Cluster(Fakes(), settings=Settings(want_token=True)) as cluster:
        answer = Http(cluster.url)("GET", MAPS)
    assert answer.code == 403
    assert 'User "system:anonymous" cannot list resource "configmaps"' in answer.json["message"]
