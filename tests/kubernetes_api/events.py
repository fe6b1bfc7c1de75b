"""Events about objects, which the cluster's components write.

Event v1 core. Equal events are counted up in one object, as the client library's recorder does it.
"""

from typing import Any

from .clock import stamp
from .registry import Registry, Request
from .status import ApiError


class Recorder:
    """Writes the events of one component."""

    def __init__(self, registry: Registry, component: str) -> None:
        self._registry, self._component = registry, component
        self._resource = registry.catalogue.of("events")
        self._known: dict[tuple[str, ...], tuple[str, str]] = {}

    def normal(self, about: dict[str, Any], reason: str, message: str, field: str = "") -> None:
        """Writes an event of the type Normal."""
        self._write(about, ("Normal", reason, message, field))

    def warning(self, about: dict[str, Any], reason: str, message: str, field: str = "") -> None:
        """Writes an event of the type Warning."""
        self._write(about, ("Warning", reason, message, field))

    def _write(self, about: dict[str, Any], told: tuple[str, str, str, str]) -> None:
        kind, reason, message, field = told
        held = about["metadata"]
        namespace = held.get("namespace", "default")
        now = stamp(self._registry.clock.now())
        identity = (held["uid"], *told)
        if (key := self._known.get(identity)) and self._registry.store.get(self._resource, key):
            self._registry.modify(
                self._resource, key, lambda body: body.update(count=body["count"] + 1, lastTimestamp=now)
            )
            return
        involved = {"kind": about["kind"], "apiVersion": about["apiVersion"], "name": held["name"], "uid": held["uid"]}
        involved |= {"namespace": held["namespace"]} if "namespace" in held else {}
        involved |= {"fieldPath": field} if field else {}
        body = {
            "metadata": {"name": f"{held['name']}.{self._registry.names.suffix(16)}", "namespace": namespace},
            "involvedObject": involved,
            "reason": reason,
            "message": message,
            "type": kind,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        try:
            self._known[identity] = self._registry.create(self._resource, namespace, body, Request(trusted=True)).key
        except ApiError as error:
            if error.code not in {403, 404}:  # a namespace that ends takes no events either in a real cluster
                raise
