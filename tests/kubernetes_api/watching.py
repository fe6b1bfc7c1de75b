"""Watches: streams of the changes since a version.

API concepts, "Efficient detection of changes", "Watch bookmarks", "Streaming lists". Without a version, or with 0, a
watch begins with what is there. An object that begins to be selected is ADDED, one that ceases to be DELETED. A
version that is forgotten is an ERROR event with code 410 in a stream that began with 200, as a real server sends it.
"""

import json
import time
from collections.abc import Callable, Iterator

from .faults import Disconnected, Faults
from .listing import ListRequest
from .status import ApiError
from .store import Change, Store, Stored

LONGEST = 1800.0
"""Seconds for which a watch lasts that names no `timeoutSeconds`: kube-apiserver's --min-request-timeout."""
EARLY = 0.05
"""Seconds before the end at which the last bookmark is sent."""


def _line(kind: str, text: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + text + b"}\n"


class Watch:
    """One watch: an iterator over the lines of its stream."""

    def __init__(
        self, store: Store, wanted: ListRequest, faults: Faults, query: dict[str, str], bookmark: float
    ) -> None:
        self._store, self._wanted, self._faults = store, wanted, faults
        self._shelf = store.shelf(wanted.resource)
        self._bookmarks = query.get("allowWatchBookmarks") in {"1", "true", "True"}
        self._initial = query.get("sendInitialEvents") in {"1", "true", "True"}
        self._between = bookmark
        self._end = time.monotonic() + float(query.get("timeoutSeconds") or LONGEST)
        self._drops = faults.dropped(wanted.resource.plural)
        self._revision = int(wanted.revision or 0)

    def lines(self, closing: Callable[[], bool]) -> Iterator[bytes]:
        """Yields one line per event, until the time is over or `closing` is true.

        Raises:
            Disconnected: a test cut the watch.
        """
        try:
            yield from self._first()
            yield from self._rest(closing)
        except ApiError as error:
            yield _line("ERROR", json.dumps(error.status()).encode())

    def _first(self) -> Iterator[bytes]:
        if self._revision and not self._initial:
            return
        with self._store.changed:
            self._revision = self._store.revision
            there = self._store.select(self._wanted.resource, self._wanted.namespace, self._wanted.selector)
        for stored in there:
            yield _line("ADDED", stored.text)
        if self._initial and self._bookmarks:
            yield self._bookmark({"k8s.io/initial-events-end": "true"})

    def _rest(self, closing: Callable[[], bool]) -> Iterator[bytes]:
        marked, last_sent = time.monotonic(), False
        while True:
            with self._store.changed:
                changes = self._shelf.since(self._revision)
                self._revision = self._store.revision
                if not changes:
                    waits = min(self._end - EARLY, marked + self._between) if not last_sent else self._end
                    self._store.changed.wait(max(0.0, min(waits - time.monotonic(), 1.0)))
            for change in changes:
                if (line := self._event(change)) is not None:
                    yield line
            if self._faults.dropped(self._wanted.resource.plural) != self._drops:
                raise Disconnected
            now = time.monotonic()
            due = now >= marked + self._between or (now >= self._end - EARLY and not last_sent)
            if due:
                marked, last_sent = now, now >= self._end - EARLY
                if self._bookmarks:
                    yield self._bookmark({})
            if now >= self._end or closing():
                return

    def _selected(self, stored: Stored | None) -> bool:
        if stored is None or (self._wanted.namespace is not None and stored.key[0] != self._wanted.namespace):
            return False
        return self._wanted.selector.matches(stored.data)

    def _event(self, change: Change) -> bytes | None:
        before, after = self._selected(change.before), self._selected(change.after)
        if after:
            return _line("MODIFIED" if before else "ADDED", change.last.text)
        if not before or change.before is None:
            return None
        metadata = change.before.data["metadata"] | {"resourceVersion": str(change.revision)}
        return _line(
            "DELETED", Stored(change.last.key, change.before.data | {"metadata": metadata}, change.revision).text
        )

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(self._revision), "creationTimestamp": None}
        metadata |= {"annotations": annotations} if annotations else {}
        resource = self._wanted.resource
        about = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return _line("BOOKMARK", json.dumps(about, separators=(",", ":")).encode())
