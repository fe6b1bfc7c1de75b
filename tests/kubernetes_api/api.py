"""The HTTP interface: paths, verbs, parameters, answers (API concepts, "Resource URIs", "Verbs on resources")."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from . import documents, patches, status
from .authorization import Action, Authority, User
from .faults import Disconnected, Faults
from .listing import ListRequest, page
from .registry import Deletion, Registry, Request
from .resources import Resource
from .status import ApiError
from .store import Store, Stored, clone
from .subresources import Subresources
from .watching import Watch

TRUE = {"1", "true", "True"}
VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
RETURNED = {"Pod", "PersistentVolumeClaim", "PersistentVolume", "ServiceAccount", "ResourceQuota"}
"""The kinds whose deletion returns the object; for others it returns a Status."""


@dataclass(frozen=True)
class Call:
    """A request: its resource, verb, parameters and body."""

    action: Action
    resource: Resource
    query: dict[str, str]
    body: bytes
    media: str
    user: User

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.action.namespace, self.action.name

    def document(self) -> dict[str, Any]:
        """Returns the body as an object.

        Raises:
            ApiError: 400 or 415, it is none.
        """
        if self.media not in {"application/json", ""}:
            raise status.unsupported_media(self.media, ["application/json"])
        try:
            found = json.loads(self.body)
        except ValueError as error:
            raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from error
        if not isinstance(found, dict):
            raise status.bad_request("couldn't get version/kind; json parse error: the body is no object")
        return found


@dataclass
class Answer:
    """An answer: a body, or a watch."""

    code: int
    body: bytes | Watch
    media: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    lost: bool = False


def told(document: dict[str, Any], code: int = 200) -> Answer:
    """Returns an answer with a JSON document."""
    return Answer(code, json.dumps(document).encode())


class Api:
    """Answers requests."""

    def __init__(
        self, registry: Registry, authority: Authority, faults: Faults, children: Subresources, bookmark: float
    ) -> None:
        self._registry, self._authority, self._faults, self._children = registry, authority, faults, children
        self._bookmark = bookmark
        self.calls: Counter[tuple[str, str]] = Counter()
        self.unknown = "Strict"

    @property
    def _store(self) -> Store:
        return self._registry.store

    def answer(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes) -> Answer:
        """Answers a request.

        Raises:
            Disconnected: a test's fault ends the connection without an answer.
        """
        try:
            user = self._authority.who(headers.get("authorization"))
            found = documents.document(self._registry.catalogue, self._registry.version, path)
            if found is not None and method == "GET":
                return told(found)
            call = self._read(method, path, query, headers, body, user)
            return self._faulty(call)
        except ApiError as error:
            return Answer(error.code, json.dumps(error.status()).encode(), headers=error.headers)

    def _read(
        self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes, user: User
    ) -> Call:
        """Parses a request.

        Raises:
            ApiError: 404, there is no such resource; 405, it has no such verb.
        """
        group, version, steps = _place(path)
        namespace, steps = _namespace(self._registry.catalogue.find(group, version, "namespaces"), steps)
        resource = self._registry.catalogue.find(group, version, steps[0]) if 1 <= len(steps) <= 3 else None
        if resource is None or (namespace and not resource.namespaced):
            raise status.no_such_path()
        name, child = (*steps[1:], "", "")[:2]
        if child and child not in resource.children:
            raise status.no_such_path()
        verb = VERBS.get(method, "")
        if not name:
            watched = query.get("watch") in TRUE
            verb = {"get": "watch" if watched else "list", "delete": "deletecollection"}.get(verb, verb)
        misplaced = not name if verb in {"update", "patch"} else verb == "create" and name and child != "eviction"
        if not verb or (verb not in resource.verbs and not child) or misplaced:
            raise status.not_allowed(resource.group, resource.plural, verb or method)
        if verb == "create" and resource.namespaced and not namespace:
            raise status.not_allowed(resource.group, resource.plural, "create without a namespace")
        media = headers.get("content-type", "").partition(";")[0].strip()
        action = Action(verb, group, resource.plural, child, namespace, name)
        return Call(action, resource, query, body, media, user)

    def _faulty(self, call: Call) -> Answer:
        """Handles a request, with the faults that a test has set."""
        action = call.action
        self.calls[action.verb, action.full] += 1
        fault = self._faults.take(action.verb, action.full, action.name)
        if fault is not None and fault.when == "before":
            raise fault.error()
        if fault is not None and fault.when == "instead":
            raise Disconnected
        made = self._do(call)
        if fault is not None and fault.when == "after":
            raise fault.error()
        made.lost = fault is not None
        return made

    def _do(self, call: Call) -> Answer:
        action = call.action
        if call.resource.kind == "SelfSubjectAccessReview":
            return told(self._children.review(call.user, call.document()), 201)
        self._authority.check(call.user, action)
        request = Request(call.query.get("fieldValidation") or self.unknown, call.query.get("dryRun") == "All")
        made = getattr(self, f"_{action.verb}")(call, request)
        made.warnings = request.warnings
        return made

    def _get(self, call: Call, request: Request) -> Answer:
        stored = self._registry.get(call.resource, call.key)
        if call.action.child == "log":
            return Answer(200, self._children.log(stored, call.query), "text/plain")
        return Answer(200, stored.text)

    def _list(self, call: Call, request: Request) -> Answer:
        wanted = self._wanted(call)
        return Answer(200, page(self._store, wanted, self._faults.stale(call.resource.plural)).text(call.resource))

    def _wanted(self, call: Call) -> ListRequest:
        namespace = call.action.namespace or None
        return ListRequest.read(call.resource, namespace, call.query)

    def _watch(self, call: Call, request: Request) -> Answer:
        wanted = self._wanted(call)
        if int(wanted.revision or 0) > self._store.revision:
            raise status.too_large_version(int(wanted.revision), self._store.revision)
        return Answer(200, Watch(self._store, wanted, self._faults, call.query, self._bookmark))

    def _create(self, call: Call, request: Request) -> Answer:
        body = call.document()
        if call.action.child == "eviction":
            self._children.evict(call.key, body, request)
            return told(status.success(code=201), 201)
        return Answer(201, self._registry.create(call.resource, call.action.namespace, body, request).text)

    def _update(self, call: Call, request: Request) -> Answer:
        stored = self._registry.replace(call.resource, call.key, call.document(), call.action.child, request)
        return Answer(200, stored.text)

    def _patch(self, call: Call, request: Request) -> Answer:
        allowed = [kind for kind in patches.KINDS if kind != patches.STRATEGIC_PATCH or not call.resource.foreign]
        if call.media not in allowed:
            raise status.unsupported_media(call.media, allowed)
        try:
            patch = json.loads(call.body)
        except ValueError as error:
            raise status.bad_request(f"error decoding patch: {error}") from error
        return Answer(
            200, self._registry.patch(call.resource, call.key, call.media, patch, call.action.child, request).text
        )

    def _options(self, call: Call) -> Deletion:
        given: dict[str, Any] = call.document() if call.body else dict(call.query)
        conditions = given.get("preconditions") or {}
        grace, policy = given.get("gracePeriodSeconds"), given.get("propagationPolicy")
        if policy not in {None, "Background", "Foreground", "Orphan"}:
            message = f'Unsupported value: {json.dumps(policy)}: supported values: "Background", "Foreground", "Orphan"'
            cause = status.Cause("FieldValueNotSupported", "propagationPolicy", message)
            raise status.invalid("meta.k8s.io", "DeleteOptions", "", [cause])
        if "orphanDependents" in given and policy is None:
            policy = "Orphan" if given["orphanDependents"] in {True, "true"} else "Background"
        return Deletion(
            None if grace is None else int(grace), policy, conditions.get("uid"), conditions.get("resourceVersion")
        )

    def _delete(self, call: Call, request: Request) -> Answer:
        last, gone = self._registry.delete(call.resource, call.key, self._options(call), request)
        return self._removed(call, last, gone=gone)

    def _removed(self, call: Call, last: Stored, *, gone: bool) -> Answer:
        if not gone or call.resource.kind in RETURNED:
            return Answer(200, last.text)
        details = {"name": last.key[1], "group": call.resource.group, "kind": call.resource.plural}
        details = {name: value for name, value in details.items() if value} | {"uid": last.data["metadata"]["uid"]}
        return told(status.success(details))

    def _deletecollection(self, call: Call, request: Request) -> Answer:
        options = self._options(call)
        found = page(self._store, self._wanted(call))
        for stored in found.items:
            try:
                self._registry.delete(call.resource, stored.key, options, request)
            except ApiError as error:
                if error.code != 404:
                    raise
        request.warnings[:] = clone(list(dict.fromkeys(request.warnings)))
        return Answer(200, found.text(call.resource))


def _place(path: str) -> tuple[str, str, list[str]]:
    """Splits a path into group, version and the rest.

    Raises:
        ApiError: 404, it is no path of the API.
    """
    steps = [step for step in path.split("/") if step]
    if steps[:1] == ["api"] and len(steps) > 2:
        return "", steps[1], steps[2:]
    if steps[:1] == ["apis"] and len(steps) > 3:
        return steps[1], steps[2], steps[3:]
    raise status.no_such_path()


def _namespace(namespaces: Resource | None, steps: list[str]) -> tuple[str, list[str]]:
    """Splits the namespace off, unless the path is that of a namespace itself."""
    itself = namespaces is not None and (len(steps) < 3 or steps[2] in namespaces.children)
    if steps[0] == "namespaces" and len(steps) >= 3 and not itself:
        return steps[1], steps[2:]
    return "", steps
