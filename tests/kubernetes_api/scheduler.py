"""The scheduler: binds pods to nodes that have room, and reports why it cannot.

Kubernetes Scheduler, "Node selection"; Assigning Pods to Nodes; Taints and Tolerations. Messages are those of the
scheduler's `FitError`: how many nodes failed which filter, and whether preemption could help. Nothing is preempted
here by itself: `Cluster.preempt` does that.
"""

from collections import Counter
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

from .admission import ENDED, Amounts, needs
from .conditions import condition, find, set_condition
from .context import Context
from .events import Recorder
from .quantity import amount
from .resources import Resource
from .store import Change, Key, Stored

Failure = tuple[str, bool]
"""Why a node does not fit, and whether evicting others from it could help."""


def tolerated(taint: dict[str, Any], tolerations: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the first toleration that a taint meets with."""
    for each in tolerations:
        same = each.get("key") in {None, taint["key"]} and each.get("effect") in {None, "", taint["effect"]}
        exists = each.get("operator") == "Exists"
        if same and (exists or (each.get("key") and each.get("value", "") == taint.get("value", ""))):
            return each
    return None


class Scheduler:
    """Finds a node for each pod that has none, first come first served among pods of one shape."""

    def __init__(self, context: Context) -> None:
        self._context, self._registry, self._loop = context, context.registry, context.control
        self._pods, self._nodes = context.of("pods"), context.of("nodes")
        self._claims = context.of("persistentvolumeclaims")
        self._recorder = Recorder(context.registry, "default-scheduler")
        self._waiting: dict[str, dict[Key, None]] = {}
        self._shape_of: dict[Key, str] = {}
        self._bound: dict[Key, tuple[str, Amounts]] = {}
        self._used: dict[str, Amounts] = {}
        context.store.listen(self._noted)

    def _noted(self, resource: Resource, change: Change) -> None:
        if resource is self._pods:
            self._account(change)
        elif resource in (self._nodes, self._claims) and (resource is self._claims or _matters(change)):
            self._loop.add(self._room, "")

    def _account(self, change: Change) -> None:
        key, pod = change.last.key, change.after and change.after.data
        alive = pod is not None and pod["status"].get("phase") not in ENDED
        node = pod["spec"].get("nodeName") if pod else None
        if alive and node:
            if key not in self._bound:
                self._bound[key] = (node, wants(pod))
                self._take(*self._bound[key], sign=1)
            self._forget(key)
        elif held := self._bound.pop(key, None):
            self._take(*held, sign=-1)
            self._loop.add(self._room, "")
        if alive and not node and key not in self._shape_of and pod["spec"]["schedulerName"] == "default-scheduler":
            shape = repr((sorted(wants(pod).items()), pod["spec"].get("nodeSelector"), pod["spec"].get("tolerations")))
            shape += repr((_claimed(pod), pod["spec"].get("affinity")))
            self._shape_of[key] = shape
            self._waiting.setdefault(shape, {})[key] = None
            self._loop.add(self._try, shape)
        elif not alive:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        if (shape := self._shape_of.pop(key, None)) is not None:
            self._waiting[shape].pop(key, None)
            if not self._waiting[shape]:
                del self._waiting[shape]

    def _take(self, node: str, amounts: Amounts, *, sign: int) -> None:
        used = self._used.setdefault(node, {})
        for name, value in amounts.items():
            used[name] = used.get(name, Fraction(0)) + sign * value

    def _room(self, _: Hashable) -> None:
        """Tries one waiting pod of each shape, because a change may have made room."""
        with self._context.store.changed:
            shapes = list(self._waiting)
        for shape in shapes:
            self._try(shape)

    def _try(self, shape: Hashable) -> None:
        """Places pods of one shape until one does not fit; then the others do not fit either."""
        with self._context.store.changed:
            keys = list(self._waiting.get(shape, ()))
        stuck: str | None = None
        for key in keys:
            stored = self._context.store.get(self._pods, key)
            if stored is None or stored.data["spec"].get("schedulingGates"):
                continue
            if stuck is None:
                stuck = self._place(stored)
            if stuck is not None:
                held = find(stored.data, "PodScheduled")
                if held is not None and held.get("message") == stuck:
                    return
                self._refuse(stored, stuck)

    def _place(self, stored: Stored) -> str | None:
        """Binds a pod to the first node that fits; returns why there is none."""
        if (why := self._unclaimed(stored)) is not None:
            return why
        nodes = self._context.store.shelf(self._nodes).objects
        if not nodes:
            return "no nodes available to schedule pods"
        failures: list[list[Failure]] = []
        for key in sorted(nodes, key=lambda key: (-_preferred(stored.data, nodes[key].data), key)):
            found = self._fit(stored.data, nodes[key].data)
            if not found:
                self._bind(stored, key[1])
                return None
            failures.append(found)
        reasons = Counter(reason for found in failures for reason, _ in found)
        told = ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items()))
        hopeful = sum(all(help_ for _, help_ in found) for found in failures)
        parts = [(hopeful, "No preemption victims found for incoming pod")]
        parts += [(len(nodes) - hopeful, "Preemption is not helpful for scheduling")]
        after = ", ".join(f"{number} {text}" for number, text in parts if number)
        count = f"0/{len(nodes)} nodes are available"
        return f"{count}: {told}. no new claims to deallocate, preemption: {count}: {after}."

    def _unclaimed(self, stored: Stored) -> str | None:
        for name in _claimed(stored.data):
            claim = self._context.store.get(self._claims, (stored.key[0], name))
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim.data["status"].get("phase") != "Bound":
                count = len(self._context.store.shelf(self._nodes).objects)
                return f"0/{count} nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
        return None

    def _fit(self, pod: dict[str, Any], node: dict[str, Any]) -> list[Failure]:
        """Returns why a pod does not fit on a node: the first filter that fails says so alone, but for resources."""
        spec, held = node["spec"], node["status"].get("allocatable") or {}
        tolerations = pod["spec"].get("tolerations") or []
        if spec.get("unschedulable"):
            return [("node(s) were unschedulable", False)]
        for taint in spec.get("taints") or ():
            if taint["effect"] in {"NoSchedule", "NoExecute"} and tolerated(taint, tolerations) is None:
                return [(f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}", False)]
        labels = node["metadata"].get("labels") or {}
        if any(labels.get(name) != value for name, value in (pod["spec"].get("nodeSelector") or {}).items()):
            return [("node(s) didn't match Pod's node affinity/selector", False)]
        wanted = _affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
        if wanted is not None and not any(_matches(term, node) for term in wanted["nodeSelectorTerms"]):
            return [("node(s) didn't match Pod's node affinity/selector", False)]
        used = self._used.get(node["metadata"]["name"], {})
        found: list[Failure] = []
        for name, value in sorted(wants(pod).items()):
            room = amount(held.get(name, 0))
            if value and value > room - used.get(name, Fraction(0)):
                text = "Too many pods" if name == "pods" else f"Insufficient {name}"
                found.append((text, value <= room))
        return found

    def _bind(self, stored: Stored, node: str) -> None:
        def change(body: dict[str, Any]) -> None:
            body["spec"]["nodeName"] = node
            set_condition(body, condition("PodScheduled", "True"), self._context.clock.now())

        self._registry.modify(self._pods, stored.key, change, "binding")
        self._recorder.normal(stored.data, "Scheduled", f"Successfully assigned {'/'.join(stored.key)} to {node}")

    def _refuse(self, stored: Stored, why: str) -> None:
        wanted = condition("PodScheduled", "False", "Unschedulable", why)
        now = self._context.clock.now()
        self._registry.modify(self._pods, stored.key, lambda body: set_condition(body, wanted, now), "status")
        self._recorder.warning(stored.data, "FailedScheduling", why)


def wants(pod: dict[str, Any]) -> Amounts:
    """Returns what a pod takes of a node: its requests, its runtime class's overhead, and one place."""
    found = needs(pod["spec"]) | {"pods": Fraction(1)}
    for name, value in (pod["spec"].get("overhead") or {}).items():
        found[name] = found.get(name, Fraction(0)) + amount(value)
    return found


def _affinity(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return found


def _preferred(pod: dict[str, Any], node: dict[str, Any]) -> int:
    """Returns the weight of what a pod prefers and a node has."""
    terms = _affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return sum(each["weight"] for each in terms if _matches(each["preference"], node))


def _matches(term: dict[str, Any], node: dict[str, Any]) -> bool:
    """Whether a node is what a term selects: by its name alone here, each requirement with one value."""
    for each in term["matchFields"]:
        [name] = each["values"]
        if (each["key"], each["operator"]) != ("metadata.name", "NotIn"):
            raise NotImplementedError(f"a node selector's {each['key']} {each['operator']}")
        if node["metadata"]["name"] == name:
            return False
    return True


def _claimed(pod: dict[str, Any]) -> list[str]:
    volumes = pod["spec"].get("volumes") or ()
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]


def _matters(change: Change) -> bool:
    """Whether a node's change may make room: what it has, how it is labelled or tainted."""

    def view(stored: Stored | None) -> Any:
        data = stored.data if stored else {"spec": None, "status": {}, "metadata": {}}
        return data["spec"], data["status"].get("allocatable"), data["metadata"].get("labels")

    return view(change.before) != view(change.after)
