"""What a kubelet reports of a pod: container states, conditions, phase.

Pod Lifecycle, "Pod phase", "Container states", "Pod conditions".
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .clock import stamp
from .conditions import condition, set_condition

HOST_ADDRESS, POD_ADDRESS = "10.0.0.1", "10.244.0.2"
"""What every pod is told of itself, where nothing is routed."""


@dataclass
class Container:
    """One container of a pod on its node. `process` is what the test's hook returned; `code` its end."""

    spec: dict[str, Any]
    process: Any = None
    started: datetime | None = None
    finished: datetime | None = None
    code: int | None = None
    reason: str = ""
    message: str = ""
    waiting: tuple[str, str] = ("ContainerCreating", "")
    pulls: int = 0
    pull_at: datetime | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.spec["name"])

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self.started is not None and self.code is None

    def end(self, code: int, now: datetime, reason: str = "", message: str = "") -> None:
        """Notes how it ended; a process killed by signal n ends with 128 + n."""
        self.code = code if code >= 0 else 128 - code
        self.finished = now
        self.reason = reason or ("Completed" if self.code == 0 else "Error")
        self.message = message

    def status(self, uid: str) -> dict[str, Any]:
        """Returns its `ContainerStatus`."""
        made: dict[str, Any] = {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": self.spec["image"] if self.started else "",
            "ready": self.running,
            "started": self.running,
            "restartCount": 0,
            "lastState": {},
        }
        made["state"] = self._state(uid)
        if self.started is not None:
            made["containerID"] = self._identity(uid)
        return made

    def _identity(self, uid: str) -> str:
        return f"containerd://{uid.replace('-', '')}{self.name}"

    def _state(self, uid: str) -> dict[str, Any]:
        if self.code is not None and self.finished is not None:
            ended = {
                "exitCode": self.code,
                "reason": self.reason,
                "startedAt": stamp(self.started or self.finished),
                "finishedAt": stamp(self.finished),
                "containerID": self._identity(uid),
            }
            return {"terminated": ended | ({"message": self.message} if self.message else {})}
        if self.started is not None:
            return {"running": {"startedAt": stamp(self.started)}}
        reason, message = self.waiting
        return {"waiting": {"reason": reason} | ({"message": message} if message else {})}


@dataclass
class Run:
    """One pod on its node."""

    key: tuple[str, str]
    uid: str
    node: str
    init: list[Container]
    main: list[Container]
    began: datetime
    ending: float | None = None
    verdict: tuple[str, str] | None = None
    oom: set[str] = field(default_factory=set)

    @property
    def containers(self) -> list[Container]:
        """All containers, init containers first."""
        return [*self.init, *self.main]

    @property
    def initialised(self) -> bool:
        """Whether every init container has ended well."""
        return all(each.code == 0 for each in self.init)

    @property
    def spoilt(self) -> bool:
        """Whether an init container failed, so that no other container will start."""
        return any(each.code for each in self.init)

    @property
    def phase(self) -> str:
        """The pod's phase."""
        if any(each.running for each in self.containers):
            return "Running" if self.initialised and any(each.started for each in self.main) else "Pending"
        if self.verdict or self.spoilt:
            return "Failed"
        if all(each.code is not None for each in self.main):
            return "Failed" if any(each.code for each in self.main) else "Succeeded"
        if self.ending is not None:
            return "Failed"
        return "Running" if any(each.started for each in self.main) else "Pending"

    def report(self, pod: dict[str, Any], now: datetime) -> None:
        """Writes the status of the pod into its object."""
        status, phase = pod["status"], self.phase
        status |= {"phase": phase, "startTime": stamp(self.began), "hostIP": HOST_ADDRESS, "podIP": POD_ADDRESS}
        status["podIPs"], status["hostIPs"] = [{"ip": POD_ADDRESS}], [{"ip": HOST_ADDRESS}]
        if not self.initialised:
            for each in self.main:
                if each.started is None and each.waiting[0] == "ContainerCreating":
                    each.waiting = ("PodInitializing", "")
        if self.init:
            status["initContainerStatuses"] = [each.status(self.uid) for each in self.init]
        status["containerStatuses"] = [each.status(self.uid) for each in self.main]
        if self.verdict:
            status["reason"], status["message"] = self.verdict
        ended = phase in {"Succeeded", "Failed"}
        alive = not ended and any(each.started for each in self.containers)
        unready = [each.name for each in self.main if not each.running]
        completed = "PodCompleted" if phase == "Succeeded" else "PodFailed" if ended else "ContainersNotReady"
        text = "" if ended or not unready else f"containers with unready status: [{' '.join(unready)}]"
        incomplete = [each.name for each in self.init if each.code != 0]
        not_init = f"containers with incomplete status: [{' '.join(incomplete)}]"
        states = [condition("PodReadyToStartContainers", "True" if alive else "False")]
        if self.initialised:
            states.append(condition("Initialized", "True", "PodCompleted" if phase == "Succeeded" else ""))
        else:
            states.append(condition("Initialized", "False", "ContainersNotInitialized", not_init))
        unfit = bool(unready) or ended
        states += [
            condition(kind, "False", completed, text) if unfit else condition(kind, "True")
            for kind in ("Ready", "ContainersReady")
        ]
        for each in states:
            set_condition(pod, each, now)
