"""Subresources that are no objects: logs, evictions, and reviews of rights.

API-initiated Eviction; Logging Architecture; Authorization, "Checking API access".
"""

from typing import Any

from . import status
from .authorization import Action, Authority, User
from .clock import stamp
from .kubelet import Kubelets
from .nodes import Nodes
from .registry import Deletion, Registry, Request
from .store import Key, Stored, clone


class Subresources:
    """The operations on these subresources."""

    def __init__(self, registry: Registry, authority: Authority, kubelets: Kubelets, nodes: Nodes) -> None:
        self._registry, self._authority, self._kubelets, self._nodes = registry, authority, kubelets, nodes

    def log(self, pod: Stored, query: dict[str, str]) -> bytes:
        """Returns what a container wrote.

        Raises:
            ApiError: 400, it is not clear which container is meant, or it has not started.
        """
        names = [each["name"] for each in pod.data["spec"]["containers"]]
        first = [each["name"] for each in pod.data["spec"].get("initContainers") or ()]
        wanted = query.get("container") or (names[0] if len(names) == 1 else "")
        if not wanted:
            known = f"choose one of: [{' '.join(names)}]"
            known += f" or one of the init containers: [{' '.join(first)}]" if first else ""
            raise status.bad_request(f"a container name must be specified for pod {pod.key[1]}, {known}")
        if wanted not in {*names, *first}:
            raise status.bad_request(f"container {wanted} is not valid for pod {pod.key[1]}")
        found = self._kubelets.log(pod.key, wanted)
        if lines := query.get("tailLines"):
            kept = found.splitlines(keepends=True)
            found = b"".join(kept[len(kept) - min(int(lines), len(kept)) :])
        return found[: int(query["limitBytes"])] if "limitBytes" in query else found

    def evict(self, key: Key, body: dict[str, Any], request: Request) -> None:
        """Evicts a pod: marks it, and deletes it gracefully. There are no disruption budgets here."""
        given = body.get("deleteOptions") or {}
        conditions = given.get("preconditions") or {}
        pods = self._registry.catalogue.of("pods")
        stored = self._registry.get(pods, key)
        ended = stored.data["status"].get("phase") in {"Succeeded", "Failed"}
        if not request.dry and not ended:
            self._nodes.disrupt(key, "EvictionByEvictionAPI", "Eviction API: evicting")
        options = Deletion(given.get("gracePeriodSeconds"), given.get("propagationPolicy"), conditions.get("uid"))
        self._registry.delete(pods, key, options, request)

    def review(self, user: User, body: dict[str, Any]) -> dict[str, Any]:
        """Answers a SelfSubjectAccessReview.

        Raises:
            ApiError: 422, it asks nothing.
        """
        spec = body.get("spec") or {}
        asked = spec.get("resourceAttributes")
        if asked is None and spec.get("nonResourceAttributes") is None:
            why = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
            cause = status.Cause("FieldValueInvalid", "spec.resourceAttributes", why)
            raise status.invalid("authorization.k8s.io", "SelfSubjectAccessReview", "", [cause])
        names = ("verb", "group", "resource", "subresource", "namespace", "name")
        allowed = self._authority.allows(user, Action(*((asked or {}).get(name, "") for name in names)))
        made = clone(body) | {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        made["metadata"] = {"creationTimestamp": stamp(self._registry.clock.now())}
        return made | {"status": {"allowed": allowed}}
