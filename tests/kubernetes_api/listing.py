"""Lists: consistent, in pages, at the version that is asked for.

API concepts, "Retrieving large results sets in chunks" and "Resource versions" (the tables of get, list and watch).
"""

import base64
import json
from dataclasses import dataclass, replace

from . import status
from .resources import Resource
from .selectors import Selector, fields, labels
from .store import Key, Store, Stored

CONTINUE_TEXT = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
)
LATEST = -1
"""The revision of a token that continues at the newest state, because an earlier token was too old."""


@dataclass(frozen=True)
class ListRequest:
    """What a list or a watch asks for."""

    resource: Resource
    namespace: str | None
    selector: Selector
    revision: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""

    @classmethod
    def read(cls, resource: Resource, namespace: str | None, query: dict[str, str]) -> "ListRequest":
        """Reads the parameters of a request.

        Raises:
            ApiError: 400 for what cannot be read, 422 for parameters that do not go together.
        """
        selector = labels(query.get("labelSelector", "")) & fields(query.get("fieldSelector", ""), resource)
        made = cls(
            resource,
            namespace,
            selector,
            query.get("resourceVersion", ""),
            query.get("resourceVersionMatch", ""),
            int(query.get("limit") or 0),
            query.get("continue", ""),
        )
        made._agree(watch=query.get("watch", "") in {"1", "true", "True"})
        return made

    def _agree(self, *, watch: bool) -> None:
        if self.revision and not self.revision.isdecimal():
            raise status.bad_request(
                f'resourceVersion: Invalid value: "{self.revision}": strconv.ParseUint: invalid syntax'
            )
        if self.match and not self.revision and not watch:
            raise _forbidden(
                "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
            )
        if self.match and self.token:
            raise _forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
        if self.match not in {"", "Exact", "NotOlderThan"}:
            raise status.bad_request(f"resourceVersionMatch: Unsupported value: {self.match}")


def _forbidden(field: str, why: str) -> status.ApiError:
    return status.invalid(
        "meta.k8s.io", "ListOptions", "", [status.Cause("FieldValueForbidden", field, f"Forbidden: {why}")]
    )


@dataclass(frozen=True)
class Page:
    """Part of a list, and the token for the rest."""

    revision: int
    items: list[Stored]
    token: str = ""
    left: int | None = None

    def text(self, resource: Resource) -> bytes:
        """Returns the list object as JSON."""
        metadata: dict[str, str | int] = {"resourceVersion": str(self.revision)}
        if self.token:
            metadata["continue"] = self.token
            metadata |= {} if self.left is None else {"remainingItemCount": self.left}
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
        items = b",".join(each.text if resource.foreign else each.item for each in self.items)
        return json.dumps(head, separators=(",", ":")).encode()[:-1] + b',"items":[' + items + b"]}"


def page(store: Store, wanted: ListRequest, stale: int | None = None) -> Page:
    """Returns the page that is asked for; `stale` is an older revision to answer from.

    Raises:
        ApiError: 400, a token is none; 410, its past is forgotten; 504, the version is yet to come.
    """
    with store.changed:
        if wanted.token:
            return _next(store, wanted)
        asked = int(wanted.revision or 0)
        if asked > store.revision:
            raise status.too_large_version(asked, store.revision)
        exact = wanted.match == "Exact" or (not wanted.match and wanted.limit and asked)
        revision = asked if exact else stale if stale is not None else store.revision
        return _cut(wanted, revision, _at(store, wanted, revision))


def _at(store: Store, wanted: ListRequest, revision: int) -> list[Stored]:
    if revision == store.revision:
        return store.select(wanted.resource, wanted.namespace, wanted.selector)
    then = store.shelf(wanted.resource).at(revision)
    found = [each for each in then.values() if wanted.namespace is None or each.key[0] == wanted.namespace]
    return sorted((each for each in found if wanted.selector.matches(each.data)), key=lambda each: each.key)


def _cut(wanted: ListRequest, revision: int, items: list[Stored]) -> Page:
    if not wanted.limit or len(items) <= wanted.limit:
        return Page(revision, items)
    shown = items[: wanted.limit]
    left = None if wanted.selector else len(items) - wanted.limit
    return Page(revision, shown, _encode(revision, shown[-1].key), left)


def _next(store: Store, wanted: ListRequest) -> Page:
    revision, after = _decode(wanted.token)
    if wanted.revision not in {"", "0"}:
        raise status.bad_request("specifying resource version is not allowed when using continue")
    if revision == LATEST:
        revision = store.revision
    try:
        items = _at(store, replace(wanted, token=""), revision)
    except status.ApiError as error:
        raise status.expired(CONTINUE_TEXT, _encode(LATEST, after)) from error
    return _cut(wanted, revision, [each for each in items if each.key > after])


def _encode(revision: int, key: Key) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": revision, "start": "/".join(key) + "\0"}
    return base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")


def _decode(token: str) -> tuple[int, Key]:
    try:
        held = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, _, name = held["start"].rstrip("\0").rpartition("/")
        return int(held["rv"]), (namespace, name)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise status.bad_request("continue key is not valid") from error
