"""The garbage collector: deletes objects that have lost their owner, unless they are to be orphaned.

Garbage Collection, "Cascading deletion" and "Orphaned dependents"; Finalizers. A namespace that is deleted takes all
that is in it along (Namespaces).
"""

from collections.abc import Hashable
from typing import Any

from .context import Context
from .registry import FOREGROUND, ORPHAN, Deletion
from .resources import Resource
from .status import ApiError
from .store import Change, Stored


class GarbageCollector:
    """Deletes, or lets go of, the dependents of what is deleted."""

    def __init__(self, context: Context) -> None:
        self._context, self._registry = context, context.registry
        self._kinds = context.registry.catalogue.kinds()
        self._namespaces = context.of("namespaces")
        context.store.listen(self._noted)

    def _noted(self, resource: Resource, change: Change) -> None:
        held = change.last.data["metadata"]
        if change.after is None:
            self._context.control.add(self._gone, (held["uid"],))
            namespace = self._context.store.get(self._namespaces, ("", change.last.key[0]))
            if namespace is not None and namespace.data["metadata"].get("deletionTimestamp"):
                self._context.control.add(self._namespace, change.last.key[0])
            for owner in held.get("ownerReferences") or ():
                self._look(owner, change.last.key[0])
        elif held.get("deletionTimestamp"):
            self._context.control.add(self._deleted, (resource, change.last.key))
        elif change.before is None and held.get("ownerReferences"):
            self._context.control.add(self._ownerless, (resource, change.last.key))

    def _look(self, owner: dict[str, Any], namespace: str) -> None:
        resource = self._kinds.get((owner["apiVersion"], owner["kind"]))
        if resource is not None:
            key = (namespace if resource.namespaced else "", owner["name"])
            self._context.control.add(self._deleted, (resource, key))

    def _dependents(self, uid: str) -> list[tuple[Resource, Stored]]:
        resources = self._registry.catalogue.all()
        return [(each, stored) for each in resources for stored in self._context.store.owned(each, uid)]

    def _gone(self, key: Hashable) -> None:
        """Background deletion: deletes the dependents of a removed owner that have no other owner."""
        for resource, stored in self._dependents(key[0]):
            if self._owned_still(stored):
                self._disown(resource, stored, key[0])
            else:
                self._delete(resource, stored, "Background")

    def _owned_still(self, stored: Stored) -> bool:
        """Whether some owner of an object is there; one of an unknown kind is taken to be."""
        for owner in stored.data["metadata"].get("ownerReferences") or ():
            kind = self._kinds.get((owner["apiVersion"], owner["kind"]))
            if kind is None:
                return True
            found = self._context.store.get(kind, (stored.key[0] if kind.namespaced else "", owner["name"]))
            if found is not None and found.data["metadata"]["uid"] == owner["uid"]:
                return True
        return False

    def _ownerless(self, key: Hashable) -> None:
        """Deletes a new object whose owners do not exist ("absent owner")."""
        resource, place = key
        stored = self._context.store.get(resource, place)
        if stored is not None and not self._owned_still(stored):
            self._delete(resource, stored, "Background")

    def _deleted(self, key: Hashable) -> None:
        resource, place = key
        stored = self._context.store.get(resource, place)
        if stored is None or not stored.data["metadata"].get("deletionTimestamp"):
            return
        if resource is self._namespaces:
            self._namespace(place[1])
            return
        held = stored.data["metadata"]
        finalizers = held.get("finalizers") or ()
        dependents = self._dependents(held["uid"])
        if ORPHAN in finalizers:
            for kind, each in dependents:
                self._disown(kind, each, held["uid"])
            self._unlock(resource, stored, ORPHAN)
        elif FOREGROUND in finalizers:
            blocking = [(kind, each) for kind, each in dependents if _blocks(each, held["uid"])]
            for kind, each in dependents:
                self._delete(kind, each, "Foreground" if kind.kind != "Pod" else "Background")
            if not blocking:
                self._unlock(resource, stored, FOREGROUND)

    def _delete(self, resource: Resource, stored: Stored, policy: str) -> None:
        if stored.data["metadata"].get("deletionTimestamp"):
            return
        options = Deletion(policy=policy, uid=stored.data["metadata"]["uid"])
        try:
            self._registry.delete(resource, stored.key, options)
        except ApiError as error:
            if error.code not in {404, 409}:
                raise

    def _disown(self, resource: Resource, stored: Stored, uid: str) -> None:
        def change(body: dict[str, Any]) -> None:
            kept = [each for each in body["metadata"]["ownerReferences"] if each["uid"] != uid]
            body["metadata"].pop("ownerReferences")
            if kept:
                body["metadata"]["ownerReferences"] = kept

        self._registry.modify(resource, stored.key, change)

    def _unlock(self, resource: Resource, stored: Stored, name: str) -> None:
        def change(body: dict[str, Any]) -> None:
            body["metadata"]["finalizers"] = [each for each in body["metadata"].get("finalizers", ()) if each != name]

        self._registry.modify(resource, stored.key, change)

    def _namespace(self, name: Hashable) -> None:
        """Empties a namespace that is being deleted, and removes it when nothing is left."""
        stored = self._context.store.get(self._namespaces, ("", name))
        if stored is None or not stored.data["metadata"].get("deletionTimestamp"):
            return
        left = 0
        for resource in self._registry.catalogue.all():
            for key in list(self._context.store.shelf(resource).by_namespace.get(name, ())) if name else ():
                left += 1
                if (each := self._context.store.get(resource, key)) is not None:
                    self._delete(resource, each, "Background")
        if not left:
            self._registry.modify(self._namespaces, ("", name), lambda body: body["spec"].update(finalizers=[]))


def _blocks(stored: Stored, uid: str) -> bool:
    owners = stored.data["metadata"].get("ownerReferences") or ()
    return any(each["uid"] == uid and each.get("blockOwnerDeletion") for each in owners)
