"""Which resources the server has, and how discovery tells of them.

API concepts, "Standard API terminology"; the discovery documents are `APIVersions`, `APIGroupList` and
`APIResourceList` of meta/v1.
"""

from dataclasses import dataclass
from typing import Any

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Resource:
    """A resource type. `children` are its subresources; a `foreign` one has no schema of Kubernetes."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    foreign: bool = False

    @property
    def api_version(self) -> str:
        """What stands in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> tuple[str, str]:
        """Group and plural name, by which the store knows it."""
        return self.group, self.plural


KNOWN = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, short=("ns",), children=("status",)),
    Resource("", "v1", "nodes", "Node", namespaced=False, short=("no",), children=("status",)),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short=("pv",), children=("status",)),
    Resource("", "v1", "pods", "Pod", short=("po",), children=("status", "log", "eviction")),
    Resource("", "v1", "events", "Event", short=("ev",)),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "configmaps", "ConfigMap", short=("cm",)),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short=("sa",)),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",), children=("status",)),
    Resource("", "v1", "resourcequotas", "ResourceQuota", short=("quota",), children=("status",)),
    Resource("", "v1", "limitranges", "LimitRange", short=("limits",)),
    Resource("", "v1", "services", "Service", short=("svc",), children=("status",)),
    Resource("apps", "v1", "statefulsets", "StatefulSet", short=("sts",), children=("status",)),
    Resource("apps", "v1", "deployments", "Deployment", short=("deploy",), children=("status",)),
    Resource("batch", "v1", "jobs", "Job", children=("status",)),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short=("netpol",)),
    Resource("networking.k8s.io", "v1", "ingresses", "Ingress", short=("ing",), children=("status",)),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",), children=("status",)),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, short=("pc",)),
    Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False, short=("sc",)),
    Resource("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Resource(
        "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview",
        namespaced=False, verbs=("create",),
    ),
)  # fmt: skip


class Catalogue:
    """The resources of one server, to which custom ones may be added."""

    def __init__(self) -> None:
        self._by_place = {(each.group, each.version, each.plural): each for each in KNOWN}
        self._by_key = {each.key: each for each in KNOWN}

    def add(self, resource: Resource) -> None:
        """Serves a further resource, as a CustomResourceDefinition would."""
        self._by_place[resource.group, resource.version, resource.plural] = resource
        self._by_key[resource.key] = resource

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Returns the resource of a path, if there is one."""
        return self._by_place.get((group, version, plural))

    def of(self, plural: str, group: str = "") -> Resource:
        """Returns a resource that is there."""
        return self._by_key[group, plural]

    def kinds(self) -> dict[tuple[str, str], Resource]:
        """Returns the resources by `apiVersion` and kind, as owner references name them."""
        return {(each.api_version, each.kind): each for each in self._by_key.values()}

    def all(self) -> list[Resource]:
        """Returns every resource."""
        return list(self._by_key.values())

    def versions(self) -> dict[str, Any]:
        """The answer to `GET /api`."""
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}

    def groups(self) -> dict[str, Any]:
        """The answer to `GET /apis`."""
        found = {each.group: each.version for each in self.all() if each.group}
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group_of(*each) for each in found.items()]}

    def resources(self, group: str, version: str) -> dict[str, Any] | None:
        """The answer to `GET /api/v1` or `GET /apis/GROUP/VERSION`; None where nothing is there."""
        rows = []
        for each in self.all():
            if (each.group, each.version) != (group, version):
                continue
            row: dict[str, Any] = {
                "name": each.plural,
                "singularName": each.kind.lower(),
                "namespaced": each.namespaced,
                "kind": each.kind,
                "verbs": list(each.verbs),
            }
            rows.append(row | ({"shortNames": list(each.short)} if each.short else {}))
            rows += [_child(each, name) for name in each.children]
        if not rows:
            return None
        place = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": place, "resources": rows}


def _child(resource: Resource, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": {"log": ["get"], "eviction": ["create"]}.get(name, ["get", "patch", "update"]),
    }
    return row | ({"group": "policy", "version": "v1", "kind": "Eviction"} if name == "eviction" else {})


def group_of(name: str, version: str) -> dict[str, Any]:
    """Returns an `APIGroup` of one version."""
    known = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [known], "preferredVersion": known}
