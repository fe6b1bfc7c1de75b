"""Admission: refuses well-formed objects for a terminating namespace, beyond a quota, or of an unknown class.

Admission Control in Kubernetes: NamespaceLifecycle, ResourceQuota, RuntimeClass, Priority. Resource Quotas: a pod
counts until its phase is terminal; `requests.X` and `limits.X` are sums over its containers.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from .quantity import amount, text
from .resources import Catalogue, Resource
from .status import ApiError, forbidden, not_found
from .store import Store

ENDED = ("Succeeded", "Failed")
Amounts = dict[str, Fraction]


def _sum(containers: Iterable[dict[str, Any]], part: str) -> Amounts:
    total: Amounts = {}
    for container in containers:
        for name, value in ((container.get("resources") or {}).get(part) or {}).items():
            total[name] = total.get(name, Fraction(0)) + amount(value)
    return total


def needs(spec: dict[str, Any], part: str = "requests") -> Amounts:
    """Returns a pod's requests or limits: the sum of its containers, or that of one init container if it is more.

    Init Containers, "Resource sharing within containers".
    """
    total = _sum(spec.get("containers") or (), part)
    for each in spec.get("initContainers") or ():
        for name, value in _sum([each], part).items():
            total[name] = max(total.get(name, Fraction(0)), value)
    return total


def counted(resource: Resource, data: dict[str, Any]) -> Amounts:
    """Returns the amounts that an object uses of a quota."""
    name = f"count/{resource.plural}" + (f".{resource.group}" if resource.group else "")
    found = {name: Fraction(1)}
    if resource.kind in {"Secret", "ConfigMap", "PersistentVolumeClaim", "ResourceQuota"}:
        found[resource.plural] = Fraction(1)
    if resource.kind != "Pod":
        return found
    if (data.get("status") or {}).get("phase") in ENDED:
        return {}
    found["pods"] = Fraction(1)
    requests, limits = needs(data["spec"]), needs(data["spec"], "limits")
    found |= {f"requests.{key}": value for key, value in requests.items()}
    found |= {f"limits.{key}": value for key, value in limits.items() if "/" not in key}
    return found | {key: requests[key] for key in ("cpu", "memory") if key in requests}


class Quotas:
    """The usage of each namespace, updated when objects are created and deleted."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store, self._resource = store, catalogue.of("resourcequotas")
        self._used: dict[str, Amounts] = {}
        store.listen(self._noted)

    def _noted(self, resource: Resource, change: Any) -> None:
        namespace = change.last.key[0]
        if not namespace or resource.kind == "Event":
            return
        used = self._used.setdefault(namespace, {})
        for stored, sign in ((change.before, -1), (change.after, 1)):
            for name, value in counted(resource, stored.data).items() if stored else ():
                used[name] = used.get(name, Fraction(0)) + sign * value

    def usage(self, namespace: str, hard: dict[str, Any]) -> dict[str, str]:
        """Returns the usage of each resource that a quota names."""
        used = self._used.get(namespace, {})
        return {name: text(used.get(name, Fraction(0))) for name in hard}

    def admit(self, resource: Resource, namespace: str, body: dict[str, Any]) -> None:
        """Checks a new object against the quotas.

        Raises:
            ApiError: 403, it would exceed a quota, or does not give an amount that a quota requires.
        """
        asked = counted(resource, body)
        used = self._used.get(namespace, {})
        for quota in sorted(self._store.shelf(self._resource).by_namespace.get(namespace, ())):
            stored = self._store.get(self._resource, quota)
            hard = (stored.data.get("spec") or {}).get("hard") or {} if stored else {}
            if resource.kind == "Pod" and (
                silent := [name for name in sorted(hard) if _must(name) and name not in asked]
            ):
                raise self._refused(resource, body, f"failed quota: {quota[1]}: must specify {_lacking(silent, body)}")
            over = [
                name
                for name in sorted(hard)
                if asked.get(name, 0) and used.get(name, 0) + asked[name] > amount(hard[name])
            ]
            if over:
                parts = [
                    "requested: " + ",".join(f"{name}={text(asked[name])}" for name in over),
                    "used: " + ",".join(f"{name}={text(used.get(name, Fraction(0)))}" for name in over),
                    "limited: " + ",".join(f"{name}={hard[name]}" for name in over),
                ]
                raise self._refused(resource, body, f"exceeded quota: {quota[1]}, {', '.join(parts)}")

    def _refused(self, resource: Resource, body: dict[str, Any], why: str) -> ApiError:
        return forbidden(resource.group, resource.plural, body["metadata"]["name"], why)


def _must(name: str) -> bool:
    """Returns whether a quota of this resource requires every container to give an amount (Resource Quotas)."""
    return name in {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}


def _lacking(names: list[str], body: dict[str, Any]) -> str:
    containers = ",".join(each["name"] for each in body["spec"]["containers"])
    return "; ".join(f"{name} for: {containers}" for name in names)


class Admission:
    """All checks before a new object is stored."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self.quotas = Quotas(store, catalogue)
        self._store, self._catalogue = store, catalogue

    def admit(self, resource: Resource, namespace: str, body: dict[str, Any]) -> None:
        """Checks a new object.

        Raises:
            ApiError: 404 if the namespace does not exist, otherwise 403.
        """
        if namespace:
            self._namespace(resource, namespace, body)
        if resource.kind == "Pod":
            self._classes(body)
        if namespace and resource.kind != "Event":
            self.quotas.admit(resource, namespace, body)

    def _namespace(self, resource: Resource, namespace: str, body: dict[str, Any]) -> None:
        found = self._store.get(self._catalogue.of("namespaces"), ("", namespace))
        if found is None:
            raise not_found("", "namespaces", namespace)
        if found.data["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            error = forbidden(resource.group, resource.plural, body["metadata"]["name"], why)
            message = f"namespace {namespace} is being terminated"
            error.details["causes"] = [
                {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
            ]
            raise error

    def _classes(self, pod: dict[str, Any]) -> None:
        spec, name = pod["spec"], pod["metadata"]["name"]
        if (wanted := spec.get("runtimeClassName")) is not None:
            held = self._store.get(self._catalogue.of("runtimeclasses", "node.k8s.io"), ("", wanted))
            if held is None:
                raise forbidden("", "pods", name, f'pod rejected: RuntimeClass "{wanted}" not found')
            if overhead := (held.data.get("overhead") or {}).get("podFixed"):
                spec.setdefault("overhead", dict(overhead))
        if (wanted := spec.get("priorityClassName")) is not None:
            held = self._store.get(self._catalogue.of("priorityclasses", "scheduling.k8s.io"), ("", wanted))
            if held is None:
                raise forbidden("", "pods", name, f"no PriorityClass with name {wanted} was found")
            spec["priority"] = held.data["value"]
