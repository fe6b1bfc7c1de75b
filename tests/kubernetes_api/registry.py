"""The server's operations on objects: create, read, replace, patch, delete.

The order of steps is that of k8s.io/apiserver, `pkg/registry/generic/registry/store.go`: metadata, defaults, schema,
rules, admission, storage. Both the HTTP interface and the cluster's own controllers go through here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from . import defaults, patches, schemas, status, validation
from .admission import Admission
from .clock import Clock, parse, stamp
from .names import Names
from .resources import Catalogue, Resource
from .store import Key, Store, Stored, clone

SYSTEM_FIELDS = ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "selfLink")
SPECLESS = {
    "Event",
    "Lease",
    "Secret",
    "ConfigMap",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "Namespace",
}
"""Kinds whose `generation` is not counted."""
CONDITIONAL = {"Lease", "RuntimeClass"}
"""Kinds that are never replaced without a resourceVersion: their strategies do not allow an unconditional update."""
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


@dataclass
class Request:
    """The options of a request, and the warnings of its answer.

    A `trusted` request comes from the cluster's own controllers, and its body is not checked against the schemas.
    """

    unknown: str = "Strict"
    dry: bool = False
    trusted: bool = False
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Deletion:
    """The `DeleteOptions` of a request."""

    grace: int | None = None
    policy: str | None = None
    uid: str | None = None
    revision: str | None = None


class Registry:
    """The objects of a cluster, with all rules for changing them."""

    def __init__(self, store: Store, catalogue: Catalogue, clock: Clock, names: Names, version: str) -> None:
        self.store, self.catalogue, self.clock, self.names, self.version = store, catalogue, clock, names, version
        self.admission = Admission(store, catalogue)
        self.toleration, self.check_own = 300, False

    def get(self, resource: Resource, key: Key) -> Stored:
        """Returns an object.

        Raises:
            ApiError: 404.
        """
        if (found := self.store.get(resource, key)) is None:
            raise status.not_found(resource.group, resource.plural, key[1])
        return found

    def create(
        self, resource: Resource, namespace: str, body: dict[str, Any], request: Request | None = None
    ) -> Stored:
        """Stores a new object.

        Raises:
            ApiError: 400, 403, 404, 409 or 422.
        """
        request = request or Request()
        body = clone(body)
        held = self._header(resource, namespace, body)
        generated = not held.get("name") and bool(held.get("generateName"))
        if generated:
            held["name"] = self.names.generate(held["generateName"])
        if not held.get("name"):
            why = "Required value: name or generateName is required"
            raise status.invalid(
                resource.group, resource.kind, "", [status.Cause("FieldValueRequired", "metadata.name", why)]
            )
        for name in (*SYSTEM_FIELDS, "deletionGracePeriodSeconds", "managedFields"):
            held.pop(name, None)
        held |= {"uid": self.names.uid(), "creationTimestamp": stamp(self.clock.now())}
        if resource.kind not in SPECLESS:
            held["generation"] = 1
        body.pop("status", None) if "status" in resource.children else None
        self._fits(resource, body, request)
        if not resource.foreign:
            defaults.fill(resource.kind, body, self.toleration)
        self._valid(resource, body, validation.created(resource.kind, body))
        key = (namespace, held["name"])
        with self.store.changed:
            if self.store.get(resource, key) is not None:
                raise status.already_exists(resource.group, resource.plural, held["name"], generated=generated)
            self.admission.admit(resource, namespace, body)
            return Stored(key, body, self.store.revision) if request.dry else self.store.put(resource, key, body)

    def _header(self, resource: Resource, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        """Checks the fields that every object has, and returns its metadata."""
        for name, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
            if body.setdefault(name, wanted) != wanted:
                message = (
                    f"{name} {body[name]!r} in the body does not match the requested resource, which has {wanted!r}"
                )
                raise status.bad_request(message)
        held = body.setdefault("metadata", {})
        if not isinstance(held, dict):
            raise status.bad_request("metadata is an object")
        if namespace and held.setdefault("namespace", namespace) != namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if not resource.namespaced and held.get("namespace"):
            raise status.bad_request("the namespace of an object that belongs to the cluster must be empty")
        return held

    def _fits(self, resource: Resource, body: dict[str, Any], request: Request) -> None:
        if self.check_own or not request.trusted:
            request.warnings += schemas.check(self.version, resource, body, request.unknown)

    def _valid(self, resource: Resource, body: dict[str, Any], causes: list[status.Cause]) -> None:
        if causes:
            raise status.invalid(resource.group, resource.kind, body["metadata"].get("name", ""), causes)

    def replace(
        self, resource: Resource, key: Key, body: dict[str, Any], child: str = "", request: Request | None = None
    ) -> Stored:
        """Replaces an object, or its status.

        Raises:
            ApiError: 400, 404, 409 where the body's resourceVersion or uid is not the stored one's, 422.
        """
        request = request or Request()
        body = clone(body)
        held = self._header(resource, key[0], body)
        if held.get("name") != key[1]:
            raise status.bad_request(
                f"the name of the object ({held.get('name')}) does not match the name on the URL ({key[1]})"
            )
        with self.store.changed:
            before = self.get(resource, key)
            return self._update(resource, before, body, child, request)

    def patch(
        self, resource: Resource, key: Key, kind: str, patch: Any, child: str = "", request: Request | None = None
    ) -> Stored:
        """Patches an object, or its status.

        Raises:
            ApiError: 400, 404, 409 where the patch names another resourceVersion or uid, 422.
        """
        request = request or Request()
        with self.store.changed:
            before = self.get(resource, key)
            body = patches.apply(kind, before.copy(), patch)
            held = self._header(resource, key[0], body)
            if held.get("name") != key[1]:
                why = f"Invalid value: {held.get('name')!r}: field is immutable"
                raise status.invalid(
                    resource.group, resource.kind, key[1], [status.Cause("FieldValueInvalid", "metadata.name", why)]
                )
            return self._update(resource, before, body, child, request)

    def modify(self, resource: Resource, key: Key, change: Callable[[dict[str, Any]], Any], child: str = "") -> Stored:
        """Changes an object in one step, as the controllers do. Writes nothing if nothing changes."""
        with self.store.changed:
            before = self.get(resource, key)
            body = before.copy()
            change(body)
            return self._update(resource, before, body, child, Request(trusted=True))

    def _update(self, resource: Resource, before: Stored, body: dict[str, Any], child: str, request: Request) -> Stored:
        old, held = before.data, body["metadata"]
        given = held.get("resourceVersion")
        if not given and (resource.foreign or resource.kind in CONDITIONAL):
            why = "Invalid value: 0: must be specified for an update"
            cause = status.Cause("FieldValueInvalid", "metadata.resourceVersion", why)
            raise status.invalid(resource.group, resource.kind, before.key[1], [cause])
        if given and given != old["metadata"]["resourceVersion"]:
            raise status.conflict(resource.group, resource.plural, before.key[1])
        if held.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            why = (
                f"Precondition failed: UID in precondition: {held['uid']}, UID in object meta: {old['metadata']['uid']}"
            )
            raise status.conflict(resource.group, resource.plural, before.key[1], why)
        self._kept(resource, body, old, child)
        self._fits(resource, body, request)
        if not child:
            self._valid(resource, body, validation.updated(resource.kind, body, old))
        if resource.kind not in SPECLESS and _spec(body) != _spec(old):
            held["generation"] = old["metadata"]["generation"] + 1
        if body == old or request.dry:
            return before if body == old else Stored(before.key, body, before.revision)
        stored = self.store.put(resource, before.key, body)
        return self._finalised(resource, stored)

    def _kept(self, resource: Resource, body: dict[str, Any], old: dict[str, Any], child: str) -> None:
        """Puts back what an update may not change: system fields, and the part that belongs to the other path."""
        if child == "binding":  # what a scheduler does: it sets a node and a condition in one step
            pass
        elif child == "status":
            fresh = body.get("status")
            body.clear()
            body |= clone(old)
            if fresh is not None:
                body["status"] = fresh
        elif "status" in resource.children:
            body.pop("status", None)
            if "status" in old:
                body["status"] = clone(old["status"])
        for name in (*SYSTEM_FIELDS, "deletionGracePeriodSeconds"):
            body["metadata"].pop(name, None)
            if name in old["metadata"]:
                body["metadata"][name] = old["metadata"][name]
        body["metadata"].pop("managedFields", None)
        if resource.kind == "Job" and not child:
            body["spec"].setdefault("selector", old["spec"].get("selector"))
            for name in (
                "completionMode",
                "suspend",
                "manualSelector",
                "backoffLimit",
                "parallelism",
                "podReplacementPolicy",
            ):
                body["spec"].setdefault(name, old["spec"].get(name))

    def _finalised(self, resource: Resource, stored: Stored) -> Stored:
        """Removes an object that is being deleted, if it has neither finalizers nor a grace period."""
        held = stored.data["metadata"]
        if not held.get("deletionTimestamp") or held.get("finalizers") or held.get("deletionGracePeriodSeconds"):
            return stored
        if resource.kind == "Namespace" and (stored.data.get("spec") or {}).get("finalizers"):
            return stored
        return self.store.drop(resource, stored.key)

    def delete(
        self, resource: Resource, key: Key, options: Deletion | None = None, request: Request | None = None
    ) -> tuple[Stored, bool]:
        """Deletes an object, or begins to; returns its last state and whether it is gone.

        Raises:
            ApiError: 404; 409 where a precondition does not hold.
        """
        options, request = options or Deletion(), request or Request()
        with self.store.changed:
            before = self.get(resource, key)
            self._preconditions(resource, before, options)
            if resource.kind == "Job" and options.policy is None:
                request.warnings.append(JOB_WARNING)
            grace = self._grace(resource, before.data, options)
            body = before.copy()
            held = body["metadata"]
            if held.get("deletionTimestamp"):
                pending = held.get("deletionGracePeriodSeconds") or 0
                if pending and (options.grace is None or options.grace >= pending):
                    return before, False
                if not pending and held.get("finalizers"):
                    return before, False
            else:
                _finalizers(resource, held, options.policy)
            waits = bool(held.get("finalizers")) or (resource.kind == "Namespace" and body["spec"].get("finalizers"))
            if request.dry:
                return before, False
            if not grace and not waits:
                return self.store.drop(resource, key), True
            self._mark(resource, body, grace)
            if resource.kind == "Namespace":
                body["status"]["phase"] = "Terminating"
            return self.store.put(resource, key, body), False

    def _preconditions(self, resource: Resource, before: Stored, options: Deletion) -> None:
        held = before.data["metadata"]
        for name, wanted, found, hint in (
            ("UID", options.uid, held["uid"], "The object might have been deleted and then recreated"),
            ("ResourceVersion", options.revision, held["resourceVersion"], "The object might have been modified"),
        ):
            if wanted is not None and wanted != found:
                why = f"the {name} in the precondition ({wanted}) does not match the {name} in record ({found}). {hint}"
                raise status.conflict(resource.group, resource.plural, before.key[1], why)

    def _grace(self, resource: Resource, data: dict[str, Any], options: Deletion) -> int:
        """The seconds that a pod gets: none if it never ran or has ended (podStrategy.CheckGracefulDelete)."""
        if resource.kind != "Pod":
            return 0
        if not data["spec"].get("nodeName") or data["status"].get("phase") in {"Succeeded", "Failed"}:
            return 0
        given = options.grace if options.grace is not None else data["spec"].get("terminationGracePeriodSeconds", 30)
        return max(given, 1) if given < 0 else given

    def _mark(self, resource: Resource, body: dict[str, Any], grace: int) -> None:
        held = body["metadata"]
        if not held.get("deletionTimestamp") and resource.kind not in SPECLESS:
            held["generation"] = held.get("generation", 0) + 1
        end = self.clock.now() + timedelta(seconds=grace)
        if held.get("deletionTimestamp"):
            end = min(end, parse(held["deletionTimestamp"]))
        held |= {"deletionTimestamp": stamp(end), "deletionGracePeriodSeconds": grace}


def _spec(body: dict[str, Any]) -> Any:
    return {name: value for name, value in body.items() if name not in {"metadata", "status", "kind", "apiVersion"}}


def _finalizers(resource: Resource, held: dict[str, Any], policy: str | None) -> None:
    """Sets the garbage collector's finalizers as the policy says; Jobs of batch/v1 orphan by default."""
    kept = [each for each in held.get("finalizers") or () if each not in {ORPHAN, FOREGROUND}]
    had = set(held.get("finalizers") or ()) & {ORPHAN, FOREGROUND}
    if policy is None:
        add = had or ({ORPHAN} if resource.kind == "Job" else set())
    else:
        add = {"Orphan": {ORPHAN}, "Foreground": {FOREGROUND}}.get(policy, set())
    finalizers = [*kept, *sorted(add)]
    held.pop("finalizers", None)
    if finalizers:
        held["finalizers"] = finalizers
