"""Small controllers: one binds claims, the other writes the usage of quotas.

Persistent Volumes, "Binding"; Resource Quotas, "Viewing and Setting Quotas".
"""

from collections.abc import Hashable
from typing import Any

from .context import Context
from .resources import Resource
from .store import Change


class Claims:
    """Binds every claim at once, except those of a storage class that is `broken`."""

    def __init__(self, context: Context) -> None:
        self.broken: set[str] = set()
        self._context, self._resource = context, context.of("persistentvolumeclaims")
        context.store.listen(self._noted)

    def _noted(self, resource: Resource, change: Change) -> None:
        if resource is self._resource:
            self._context.control.add(self._bind, change.last.key)

    def _bind(self, key: Hashable) -> None:
        stored = self._context.store.get(self._resource, key)
        if stored is None or stored.data["status"].get("phase") == "Bound":
            return
        if stored.data["spec"].get("storageClassName", "") in self.broken:
            return

        def change(body: dict[str, Any]) -> None:
            spec = body["spec"]
            spec.setdefault("volumeName", f"pvc-{body['metadata']['uid']}")
            room = (spec.get("resources") or {}).get("requests") or {}
            body["status"] = {"phase": "Bound", "accessModes": spec.get("accessModes") or [], "capacity": room}

        self._context.registry.modify(self._resource, key, change, "binding")


class QuotaStatus:
    """Writes the usage of each namespace into its quotas' status."""

    def __init__(self, context: Context) -> None:
        self._context, self._resource = context, context.of("resourcequotas")
        context.store.listen(self._noted)

    def _noted(self, resource: Resource, change: Change) -> None:
        namespace = change.last.key[0]
        if resource.kind in {"Event", "Lease"} or not namespace:
            return
        for key in self._context.store.shelf(self._resource).by_namespace.get(namespace, ()):
            self._context.control.add(self._write, key)

    def _write(self, key: Hashable) -> None:
        stored = self._context.store.get(self._resource, key)
        if stored is None:
            return
        hard = dict((stored.data.get("spec") or {}).get("hard") or {})
        used = self._context.registry.admission.quotas.usage(key[0], hard)
        self._context.registry.modify(
            self._resource, key, lambda body: body.update(status={"hard": hard, "used": used}), "status"
        )
