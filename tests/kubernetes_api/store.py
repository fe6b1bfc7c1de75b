"""The store of objects: one counter of revisions, a history of changes, indexes by namespace, label and owner.

As in etcd, one revision counts the changes of all resources, an object's `resourceVersion` is the revision of its
last change, and the past can be read until it is compacted (API concepts, "Resource versions"). Stored objects are
never changed in place, so a reader may keep them. Their JSON is made once, so that a list only has to join it.
"""

import json
import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .resources import Resource
from .selectors import Selector
from .status import expired

Key = tuple[str, str]
"""Namespace and name; the namespace is empty for resources of the whole cluster."""
FIRST_REVISION = 1000


def clone(value: Any) -> Any:
    """Returns a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: clone(each) for key, each in value.items()}
    if isinstance(value, list):
        return [clone(each) for each in value]
    return value


class Stored:
    """One state of one object: its data, which nobody changes, and its text."""

    __slots__ = ("_item", "data", "key", "revision")

    def __init__(self, key: Key, data: dict[str, Any], revision: int) -> None:
        self.key, self.data, self.revision = key, data, revision
        self._item: bytes | None = None

    @property
    def item(self) -> bytes:
        """The object as an item of a list, which names neither kind nor version: JSON."""
        if self._item is None:
            rest = {name: value for name, value in self.data.items() if name not in {"kind", "apiVersion"}}
            self._item = json.dumps(rest, separators=(",", ":")).encode()
        return self._item

    @property
    def text(self) -> bytes:
        """The object as JSON."""
        head = json.dumps({name: self.data[name] for name in ("kind", "apiVersion")}, separators=(",", ":")).encode()
        return head[:-1] + b"," + self.item[1:]

    def copy(self) -> dict[str, Any]:
        """Returns a copy that may be changed."""
        return clone(self.data)


@dataclass(frozen=True, slots=True)
class Change:
    """A change at a revision: `before` is None for a new object, `after` None for a removed one.

    `last` is the state that watchers get: for a removed object its last one, with the revision of the removal.
    """

    revision: int
    last: Stored
    before: Stored | None
    after: Stored | None


class Collection:
    """The objects of one resource."""

    def __init__(self, resource: Resource, keep: int) -> None:
        self.resource, self.keep = resource, keep
        self.objects: dict[Key, Stored] = {}
        self.by_namespace: dict[str, set[Key]] = defaultdict(set)
        self.by_label: dict[tuple[str, str], set[Key]] = defaultdict(set)
        self.by_owner: dict[str, set[Key]] = defaultdict(set)
        self.history: list[Change] = []
        self.compacted = 0

    def place(self, key: Key, stored: Stored | None) -> Stored | None:
        """Stores an object in the indexes, or removes it if `stored` is None; returns the earlier one."""
        before = self.objects.pop(key, None)
        if before is not None:
            self._index(before, set.discard)
        if stored is not None:
            self.objects[key] = stored
            self._index(stored, set.add)
        return before

    def _index(self, stored: Stored, act: Callable[[set[Key], Key], None]) -> None:
        metadata = stored.data["metadata"]
        act(self.by_namespace[stored.key[0]], stored.key)
        entries = [(self.by_label, pair) for pair in (metadata.get("labels") or {}).items()]
        entries += [(self.by_owner, owner["uid"]) for owner in metadata.get("ownerReferences") or ()]
        for index, value in entries:
            act(index[value], stored.key)
            if not index[value]:
                del index[value]

    def note(self, change: Change) -> None:
        """Adds to the history, which keeps the last changes only."""
        self.history.append(change)
        if len(self.history) > 2 * self.keep:
            self.compact(self.history[-self.keep - 1].revision)

    def compact(self, revision: int) -> None:
        """Forgets the changes up to a revision."""
        first = bisect_right(self.history, revision, key=lambda each: each.revision)
        self.compacted = max(self.compacted, revision)
        del self.history[:first]

    def since(self, revision: int) -> list[Change]:
        """Returns the changes after a revision.

        Raises:
            ApiError: 410, they are no longer kept.
        """
        if revision < self.compacted:
            raise expired(f"too old resource version: {revision} ({self.compacted})")
        return self.history[bisect_right(self.history, revision, key=lambda each: each.revision) :]

    def at(self, revision: int) -> dict[Key, Stored]:
        """Returns the objects as they were at a revision.

        Raises:
            ApiError: 410, that past is no longer kept.
        """
        changes = self.since(revision)
        if not changes:
            return self.objects
        then = dict(self.objects)
        for change in reversed(changes):
            if change.before is None:
                then.pop(change.last.key, None)
            else:
                then[change.last.key] = change.before
        return then

    def candidates(self, namespace: str | None, selector: Selector) -> Iterable[Stored]:
        """Returns the objects of a namespace that may be selected, by the smallest index that fits."""
        sets = [self.by_label.get(pair, set()) for pair in selector.pairs]
        if namespace is not None:
            sets.append(self.by_namespace.get(namespace, set()))
        if not sets:
            return self.objects.values()
        small = min(sets, key=len)
        return [self.objects[key] for key in small if namespace is None or key[0] == namespace]


class Store:
    """All shelves, under one lock. `changed` is notified of every change."""

    def __init__(self, keep: int = 10_000) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.revision = FIRST_REVISION
        self._keep = keep
        self._shelves: dict[tuple[str, str], Collection] = {}
        self._listeners: list[Callable[[Resource, Change], None]] = []

    def listen(self, listener: Callable[[Resource, Change], None]) -> None:
        """Tells a listener of every change. It is called under the lock and must be quick."""
        self._listeners.append(listener)

    def shelf(self, resource: Resource) -> Collection:
        """Returns the shelf of a resource."""
        with self.changed:
            if resource.key not in self._shelves:
                self._shelves[resource.key] = Collection(resource, self._keep)
            return self._shelves[resource.key]

    def get(self, resource: Resource, key: Key) -> Stored | None:
        """Returns an object, if it is there."""
        with self.changed:
            return self.shelf(resource).objects.get(key)

    def put(self, resource: Resource, key: Key, data: dict[str, Any]) -> Stored:
        """Stores an object under the next revision. The data belongs to the store from here."""
        with self.changed:
            self.revision += 1
            data["metadata"]["resourceVersion"] = str(self.revision)
            stored = Stored(key, data, self.revision)
            shelf = self.shelf(resource)
            before = shelf.place(key, stored)
            self._tell(shelf, Change(self.revision, stored, before, stored))
            return stored

    def drop(self, resource: Resource, key: Key) -> Stored:
        """Removes an object; returns its last state, with the revision of the removal."""
        with self.changed:
            self.revision += 1
            shelf = self.shelf(resource)
            before = shelf.objects[key]
            metadata = before.data["metadata"] | {"resourceVersion": str(self.revision)}
            last = Stored(key, before.data | {"metadata": metadata}, self.revision)
            shelf.place(key, None)
            self._tell(shelf, Change(self.revision, last, before, None))
            return last

    def _tell(self, shelf: Collection, change: Change) -> None:
        shelf.note(change)
        for listener in self._listeners:
            listener(shelf.resource, change)
        self.changed.notify_all()

    def select(self, resource: Resource, namespace: str | None, selector: Selector) -> list[Stored]:
        """Returns the objects of a namespace, or of all, that are selected, ordered by namespace and name."""
        with self.changed:
            found = self.shelf(resource).candidates(namespace, selector)
            return sorted((each for each in found if selector.matches(each.data)), key=lambda each: each.key)

    def owned(self, resource: Resource, uid: str) -> list[Stored]:
        """Returns the objects that name an owner, ordered by namespace and name."""
        with self.changed:
            shelf = self.shelf(resource)
            return [shelf.objects[key] for key in sorted(shelf.by_owner.get(uid, ()))]

    def compact(self, revision: int | None = None) -> None:
        """Forgets the past up to a revision, or all of it."""
        with self.changed:
            for shelf in self._shelves.values():
                shelf.compact(self.revision if revision is None else revision)
            self.changed.notify_all()
