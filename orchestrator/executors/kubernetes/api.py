"""The few verbs that we use on a cluster's objects: plain dicts in, plain dicts out. Nothing else knows the client.

A request that failed with a transient error is sent again, with growing pauses or after the server's `Retry-After`,
until `patience` seconds are over. A permanent error is raised at once:

    transient   429, 500, 502, 503, 504; no connection, a broken one, no answer in time; 409 on a create that is not
                AlreadyExists (a quota that changed meanwhile); 410 on a list, which begins again; 401 after a request
                with the same credentials succeeded (a server that starts, a token that was just replaced)
    permanent   400, 401, 403, 404, 405, 413, 415, 422 and all others; an invalid certificate

If only the answer to a request was lost, no harm is done: a second create finds the object, a second delete finds none.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_before_delay

from orchestrator.domain.text import printable
from orchestrator.errors import ClusterRefused, ClusterUnavailable, UsageError
from orchestrator.executors.kubernetes.api_response import (
    ApiResponse,
    Object,
    TransientApiError,
    describe_broken_connection,
    retry_pause,
)

_Result = TypeVar("_Result")

RETRY_SECONDS = 120.0
"""Seconds after which a request with transient errors is given up."""
PAGE_SIZE = 500
"""The most objects in one page of a list."""
_CONNECT_SECONDS, _RESPONSE_SECONDS = 10.0, 60.0
_LIST_RESTARTS = 5
_GONE_OR_CHANGED = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object as the API's paths name it."""

    group: str
    plural: str
    namespaced: bool = True
    version: str = "v1"


JOBS = Kind("batch", "jobs")
PODS = Kind("", "pods")
EVENTS = Kind("", "events")
LEASES = Kind("coordination.k8s.io", "leases")


@dataclass(frozen=True, slots=True)
class Right:
    """What a controller must be allowed to do with one kind, in its namespace."""

    kind: Kind
    verbs: tuple[str, ...]


CONTROLLER_RIGHTS = (
    Right(JOBS, ("create", "delete", "get", "list", "watch")),
    Right(PODS, ("list", "watch")),
    Right(EVENTS, ("list",)),
    Right(LEASES, ("create", "delete", "get", "update")),
)
"""All rights that a controller needs. The Role in k8s/ and `sparring cluster check` are made from this."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of a list, and the list's version, from which a watch can start."""

    items: list[Object]
    version: str


class Watch(Protocol):
    """A stream of changes as they happen. Ends when the server ends it; `close` ends it from any thread."""

    def __iter__(self) -> Iterator[Object]:
        """Yields the events of the stream. Raises ClusterUnavailable if it breaks or its version has expired."""
        ...

    def close(self) -> None:
        """Ends the watch. Safe to call twice."""
        ...


class Api(Protocol):
    """The API of one namespace. Every verb raises ClusterUnavailable and ClusterRefused."""

    def create(self, kind: Kind, body: Object) -> Object | None:
        """Creates an object; returns None if one with its name exists."""
        ...

    def read(self, kind: Kind, name: str) -> Object | None:
        """Returns an object as it is now, or None if there is none."""
        ...

    def search(self, kind: Kind, labels: str = "", fields: str = "") -> Listing:
        """Returns every object that the selectors match, as of now."""
        ...

    def replace(self, kind: Kind, body: Object) -> Object | None:
        """Replaces the version that `body` names; returns None if the object has changed meanwhile, or is gone."""
        ...

    def delete(self, kind: Kind, name: str, uid: str = "") -> bool:
        """Deletes an object, and its dependents in the background; returns whether there was such an object."""
        ...

    def watch(self, kind: Kind, labels: str, version: str, seconds: float) -> Watch:
        """Returns a watch for changes since a version, for at most `seconds`. A failed request is not repeated."""
        ...


class _Expired(Exception):
    """The version from which a list continues has expired."""


class Client:
    """The API over the official client. Safe to use from several threads.

    Args:
        client: a `kubernetes.client.ApiClient`; see `connect`.
        namespace: where namespaced objects are.
        patience: seconds for which a request with transient errors is sent again.
        sleep: waits for a number of seconds, between two requests.
    """

    def __init__(
        self, client: Any, namespace: str, patience: float = RETRY_SECONDS, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._client, self.namespace = client, namespace
        self._patience, self._sleep = patience, sleep
        self._was_accepted = False

    @classmethod
    def connect(cls, namespace: str, kubeconfig: Path | None = None, context: str | None = None) -> Self:
        """Connects with the pod's service account if there is one, else with a kubeconfig file (or KUBECONFIG).

        The service account is used only if neither `kubeconfig` nor `context` is given.

        Raises:
            UsageError: there is neither, or the client library is not installed.
        """
        try:
            from kubernetes import config  # noqa: PLC0415  it takes a second
            from kubernetes.client import Configuration  # noqa: PLC0415
        except ImportError as error:
            raise UsageError("the client for Kubernetes is missing: pip install 'sparring[kubernetes]'") from error
        configuration = Configuration()
        try:
            if kubeconfig is None and context is None:
                with suppress(config.ConfigException):
                    config.load_incluster_config(client_configuration=configuration)
                    return cls(_make_client(configuration), namespace)
            file = None if kubeconfig is None else str(kubeconfig)
            config.load_kube_config(config_file=file, context=context, client_configuration=configuration)
        except (config.ConfigException, OSError, ValueError) as error:
            why = printable(str(error))
            raise UsageError(
                f"no cluster to talk to: {why}; run in a pod with a service account, or set KUBECONFIG"
            ) from error
        return cls(_make_client(configuration), namespace)

    @classmethod
    def connect_to_url(cls, url: str, namespace: str, patience: float = RETRY_SECONDS) -> Self:
        """Connects to a server that needs no credentials, such as `kubectl proxy`."""
        from kubernetes.client import Configuration  # noqa: PLC0415  it takes a second

        return cls(_make_client(Configuration(host=url)), namespace, patience)

    def with_patience(self, patience: float) -> Self:
        """Returns the same connection with another patience, which also bounds the wait for each answer."""
        return type(self)(self._client, self.namespace, patience, self._sleep)

    def server_version(self) -> str:
        """Returns the server's version, as `v1.37.0`."""
        found = self._retry("get version", lambda: self._ask("GET", "/version").require_object())
        return str(found.get("gitVersion", ""))

    def create(self, kind: Kind, body: Object) -> Object | None:
        """Creates an object; returns None if one with its name exists."""
        return self._retry(f"create {kind.plural}", lambda: self._create_once(kind, body))

    def _create_once(self, kind: Kind, body: Object) -> Object | None:
        answer = self._ask("POST", self._path(kind), body=body)
        if answer.status_code == HTTPStatus.CONFLICT:
            if answer.body.get("reason") == "AlreadyExists":
                return None
            raise TransientApiError(answer.description)
        return answer.require_object()

    def read(self, kind: Kind, name: str) -> Object | None:
        """Returns an object as it is now, or None if there is none."""
        return self._retry(
            f"get {kind.plural}", lambda: self._ask_unless("GET", self._path(kind, name), (HTTPStatus.NOT_FOUND,))
        )

    def search(self, kind: Kind, labels: str = "", fields: str = "") -> Listing:
        """Returns every object that the selectors match, as of now.

        The request has no resourceVersion. 0 would be cheaper for the server, but may return any past state: a Job that
        was just created would look as if somebody had deleted it.
        """
        for _ in range(_LIST_RESTARTS):
            with suppress(_Expired):
                return self._list_pages(kind, {"labelSelector": labels, "fieldSelector": fields})
        raise ClusterUnavailable(
            f"list {kind.plural}: its pages expired {_LIST_RESTARTS} times; is the server overloaded?"
        )

    def _list_pages(self, kind: Kind, selectors: dict[str, str]) -> Listing:
        items: list[Object] = []
        token = version = ""
        while True:
            query = {**selectors, "limit": str(PAGE_SIZE), "continue": token}
            page = self._retry(f"list {kind.plural}", partial(self._list_page, kind, query))
            items += page.get("items") or []
            version = version or str(page["metadata"].get("resourceVersion", ""))
            token = str(page["metadata"].get("continue") or "")
            if not token:
                return Listing(items, version)

    def _list_page(self, kind: Kind, query: dict[str, str]) -> Object:
        answer = self._ask("GET", self._path(kind), query)
        if answer.status_code == HTTPStatus.GONE:
            raise _Expired
        return answer.require_object()

    def replace(self, kind: Kind, body: Object) -> Object | None:
        """Replaces the version that `body` names; returns None if the object has changed meanwhile, or is gone."""
        path = self._path(kind, body["metadata"]["name"])
        return self._retry(f"update {kind.plural}", lambda: self._ask_unless("PUT", path, _GONE_OR_CHANGED, body))

    def delete(self, kind: Kind, name: str, uid: str = "") -> bool:
        """Deletes an object, and its dependents in the background; returns whether there was such an object.

        The request says so, because the default would orphan a Job's pods.
        """
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        path = self._path(kind, name)
        gone = self._retry(f"delete {kind.plural}", lambda: self._ask_unless("DELETE", path, _GONE_OR_CHANGED, options))
        return gone is not None

    def watch(self, kind: Kind, labels: str, version: str, seconds: float) -> Watch:
        """Returns a watch for changes since a version, for at most `seconds`. A failed request is not repeated."""
        query = {"watch": "1", "labelSelector": labels, "resourceVersion": version, "timeoutSeconds": str(int(seconds))}
        try:
            response = self._send("GET", self._path(kind), query | {"allowWatchBookmarks": "true"}, None, seconds)
        except TransientApiError as error:
            raise ClusterUnavailable(f"watch {kind.plural}: {error}") from error
        if response.status != HTTPStatus.OK:
            description = ApiResponse(response.status, response.read(), response.headers).description
            raise ClusterUnavailable(f"watch {kind.plural}: {description}")
        return _HttpWatch(response.response)

    def _retry(self, operation: str, request: Callable[[], _Result]) -> _Result:
        """Repeats a request while its errors are transient. Raises ClusterUnavailable or ClusterRefused."""
        retrying = Retrying(
            retry=retry_if_exception_type(TransientApiError),
            stop=stop_before_delay(self._patience),
            wait=retry_pause,
            sleep=self._sleep,
            reraise=True,
        )
        started_at = time.monotonic()
        try:
            return retrying(request)
        except TransientApiError as error:
            times, seconds = retrying.statistics.get("attempt_number", 1), time.monotonic() - started_at
            raise ClusterUnavailable(
                f"{operation}: {error}, asked {times} times in {seconds:.0f} s; repair the cluster, and run again"
            ) from error
        except ClusterRefused as error:
            raise ClusterRefused(f"{operation}: {error}", error.status) from error

    def _ask_unless(
        self, method: str, path: str, absent_statuses: Iterable[int], body: Object | None = None
    ) -> Object | None:
        answer = self._ask(method, path, body=body)
        return None if answer.status_code in absent_statuses else answer.require_object()

    def _path(self, kind: Kind, name: str = "") -> str:
        base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        place = f"/namespaces/{self.namespace}" if kind.namespaced else ""
        return f"{base}{place}/{kind.plural}" + (f"/{name}" if name else "")

    def _ask(
        self, method: str, path: str, query: dict[str, str] | None = None, body: Object | None = None
    ) -> "ApiResponse":
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  what the client stands on

        response = self._send(method, path, query or {}, body, 0.0)
        try:
            answer = ApiResponse(response.status, response.read(), response.headers)
        except (HTTPError, OSError) as error:
            raise TransientApiError(describe_broken_connection(error)) from error
        if answer.status_code == HTTPStatus.UNAUTHORIZED and self._was_accepted:
            raise TransientApiError(answer.description)
        self._was_accepted = self._was_accepted or answer.status_code < HTTPStatus.BAD_REQUEST
        return answer

    def _send(self, method: str, path: str, query: dict[str, str], body: Object | None, extra_seconds: float) -> Any:
        """Returns the response after its head is read. Raises TransientApiError, or ClusterRefused if TLS fails."""
        from kubernetes.client import ApiException  # noqa: PLC0415  it takes a second
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  what the client stands on

        given = [(name, value) for name, value in query.items() if value]
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        request = self._client.param_serialize(
            method, path, query_params=given, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        wait = min(_RESPONSE_SECONDS, max(1.0, self._patience))
        try:
            return self._client.call_api(*request, _request_timeout=(min(_CONNECT_SECONDS, wait), wait + extra_seconds))
        except ApiException as error:
            raise ClusterRefused(
                f"{printable(str(error.reason))}; is the cluster's certificate the right one?"
            ) from error
        except (HTTPError, OSError) as error:
            raise TransientApiError(describe_broken_connection(error)) from error


class _HttpWatch:
    """A watch over HTTP: one JSON document on each line."""

    def __init__(self, response: Any) -> None:
        self._response, self._closed = response, False

    def __iter__(self) -> Iterator[Object]:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  what the client stands on

        rest = b""
        try:
            for data in self._response.stream(amt=None, decode_content=False):
                *lines, rest = (rest + data).split(b"\n")
                for line in filter(None, lines):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise ClusterUnavailable(f"a watch ended: {printable(str(event['object'].get('message')))}")
                    yield event
        except (HTTPError, OSError, ValueError, AttributeError) as error:  # the last two: closed while it was read
            if not self._closed:
                raise ClusterUnavailable(f"a watch ended: {describe_broken_connection(error)}") from error

    def close(self) -> None:
        """Ends the watch by a shutdown, because a socket that is being read cannot be closed from another thread."""
        self._closed = True
        with suppress(OSError, ValueError, RuntimeError):
            self._response.shutdown()


def _make_client(configuration: Any) -> Any:
    """Returns the official client, without retries of its own."""
    from kubernetes.client import ApiClient  # noqa: PLC0415  it takes a second

    configuration.retries = False
    return ApiClient(configuration)
