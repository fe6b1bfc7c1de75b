"""Nodes, and the handling of pods whose node is lost.

Nodes, "Node controller"; Taints and Tolerations, "Taint based Evictions"; Disruptions, "Pod disruption conditions";
Non-graceful node shutdown. A lost node's pods are told to go after their toleration (300 s), but nobody confirms it:
they stay Terminating until the node comes back, or until the Node object is deleted and, after a quarantine (40 s),
the pod garbage collector marks them Failed and removes them.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from .admission import ENDED
from .conditions import condition, set_condition
from .context import Context
from .defaults import UNREACHABLE
from .events import Recorder
from .kubelet import Kubelets
from .registry import Deletion
from .scheduler import tolerated
from .status import ApiError
from .store import Key, Stored

SILENT = "Kubelet stopped posting node status."


@dataclass(frozen=True)
class Node:
    """A node as a test wants it."""

    name: str = "node-1"
    cpu: str = "8"
    memory: str = "32Gi"
    gpus: int = 0
    pods: int = 110
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[dict[str, str], ...] = ()

    def body(self) -> dict[str, Any]:
        """Returns its object."""
        room = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), "ephemeral-storage": "100Gi"}
        room |= {"nvidia.com/gpu": str(self.gpus)} if self.gpus else {}
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        return {
            "metadata": {"name": self.name, "labels": labels | self.labels},
            "spec": {"taints": [dict(each) for each in self.taints]} if self.taints else {},
            "status": {"capacity": room, "allocatable": dict(room)},
        }


class Nodes:
    """Adds, loses, finds and removes nodes, and evicts what was on them."""

    def __init__(self, context: Context, kubelets: Kubelets) -> None:
        self._context, self._registry, self._kubelets = context, context.registry, kubelets
        self._nodes, self._pods = context.of("nodes"), context.of("pods")
        self._recorder = Recorder(context.registry, "node-controller")
        self._evictor = Recorder(context.registry, "taint-eviction-controller")

    def add(self, node: Node) -> None:
        """Adds a node that is ready."""
        body = node.body()
        status = body.pop("status")
        key = self._registry.create(self._nodes, "", body).key

        def ready(data: dict[str, Any]) -> None:
            data["status"] = status
            state = condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
            set_condition(data, state, self._context.clock.now())

        self._registry.modify(self._nodes, key, ready, "status")

    def _on(self, name: str) -> list[Stored]:
        pods = self._context.store.shelf(self._pods)
        with self._context.store.changed:
            return [each for each in pods.objects.values() if each.data["spec"].get("nodeName") == name]

    def lose(self, name: str, *, kill: bool = True) -> None:
        """Loses a node. Its processes end (power loss) unless `kill` is false (only the network is gone)."""
        self._kubelets.lose(name, kill=kill)
        now, key = self._context.clock.now(), ("", name)
        state = condition("Ready", "Unknown", "NodeStatusUnknown", SILENT)
        self._registry.modify(self._nodes, key, lambda body: set_condition(body, state, now), "status")
        taints = [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        self._registry.modify(self._nodes, key, lambda body: body["spec"].setdefault("taints", []).extend(taints))
        for stored in self._on(name):
            if stored.data["status"].get("phase") in ENDED:
                continue
            unready = condition("Ready", "False")
            self._registry.modify(
                self._pods, stored.key, lambda body, unready=unready: set_condition(body, unready, now), "status"
            )
            self._recorder.warning(stored.data, "NodeNotReady", "Node is not ready")
            match = tolerated(taints[1], stored.data["spec"].get("tolerations") or [])
            if match is None or "tolerationSeconds" in match:
                seconds = 0 if match is None else match["tolerationSeconds"]
                self._context.control.add(self._evict, (stored.key, stored.data["metadata"]["uid"]), seconds)

    def _evict(self, what: Hashable) -> None:
        """Deletes a pod whose node is still tainted when its toleration ends."""
        key, uid = what
        stored = self._context.store.get(self._pods, key)
        if stored is None or stored.data["metadata"]["uid"] != uid or stored.data["metadata"].get("deletionTimestamp"):
            return
        node = self._context.store.get(self._nodes, ("", stored.data["spec"]["nodeName"]))
        taints = (node.data["spec"].get("taints") or ()) if node else ()
        if not any(each["key"] == UNREACHABLE and each["effect"] == "NoExecute" for each in taints):
            return
        self.disrupt(key, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        self._evictor.normal(stored.data, "TaintManagerEviction", f"Marking for deletion Pod {'/'.join(key)}")
        self._delete(key, Deletion(uid=uid))

    def disrupt(self, key: Key, reason: str, message: str) -> Stored:
        """Marks a pod as the target of a disruption."""
        target, now = condition("DisruptionTarget", "True", reason, message), self._context.clock.now()
        return self._registry.modify(self._pods, key, lambda body: set_condition(body, target, now), "status")

    def _delete(self, key: Key, options: Deletion) -> None:
        try:
            self._registry.delete(self._pods, key, options)
        except ApiError as error:
            if error.code not in {404, 409}:
                raise

    def restore(self, name: str) -> None:
        """Restores a lost node: removes its taints, and its kubelet catches up."""
        now, key = self._context.clock.now(), ("", name)
        state = condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
        self._registry.modify(self._nodes, key, lambda body: set_condition(body, state, now), "status")

        def clean(body: dict[str, Any]) -> None:
            kept = [each for each in body["spec"].pop("taints", []) if each["key"] != UNREACHABLE]
            if kept:
                body["spec"]["taints"] = kept

        self._registry.modify(self._nodes, key, clean)
        self._kubelets.find_again(name)

    def remove(self, name: str) -> None:
        """Deletes a Node object, as an administrator or a cloud does with a machine that will not come back."""
        self._kubelets.lose(name, kill=True)
        self._registry.delete(self._nodes, ("", name))
        for stored in self._on(name):
            self._context.control.add(
                self._collect, (stored.key, stored.data["metadata"]["uid"]), self._context.timings.quarantine
            )

    def _collect(self, what: Hashable) -> None:
        """Marks a pod Failed whose node is gone, and removes it at once (PodGC)."""
        key, uid = what
        stored = self._context.store.get(self._pods, key)
        if stored is None or stored.data["metadata"]["uid"] != uid:
            return
        if stored.data["status"].get("phase") not in ENDED:
            self.disrupt(key, "DeletionByPodGC", "PodGC: node no longer exists")
            self._registry.modify(self._pods, key, lambda body: body["status"].update(phase="Failed"), "status")
        self._delete(key, Deletion(grace=0, uid=uid))
