"""Derives the status of an attempt from its Job and pods: a state, a description, and the fault if it ends here.

All functions are pure. The driver's result on the volume decides if there is one. This status counts only if there is
none, and then every fault is ours (rule X1): only the driver reports what a player did; else it is played again.
Reasons are those of the kubelet (`pkg/kubelet/images`, `pkg/kubelet/container`), of the Job controller and of the pod
conditions ("Disruptions", "Pod disruption conditions"). All texts are hostile and are made printable.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from orchestrator.domain.text import printable
from orchestrator.errors import DriverLost, ImagePullFailed, PlayerRefused, PodLost, PodRefused, Unschedulable
from orchestrator.executors.kubernetes.labels import QUEUE_LABEL
from orchestrator.executors.kubernetes.pod_manifest import ATTACK, DRIVER, PLAYER
from orchestrator.executors.kubernetes.shared_volume import NO_ASSIGNMENT

Object = dict[str, Any]
_SHOWN = 400
_SCHEDULER_EVENT = "FailedScheduling"
_FIRST_SIGNAL_CODE = 128
_IMAGE_ERRORS = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
}
_START_ERRORS = {
    "ContainerCannotRun",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "StartError",
}
_WRONG_VOLUME = (
    "the volume of cluster.claim does not have it below cluster.folder, where this controller writes; put blobs and "
    "cluster of --out there; `sparring cluster check CONTEST --out DIR` tests that"
)
_NORMAL_WAITS = {"ContainerCreating", "PodInitializing", ""}
_DISRUPTION_WORDS = {
    "PreemptionByScheduler": "preempted",
    "DeletionByTaintManager": "evicted from a node that does not answer or is tainted",
    "EvictionByEvictionAPI": "evicted",
    "DeletionByPodGC": "removed with its node",
    "TerminationByKubelet": "ended by its node",
}


class AttemptState(StrEnum):
    """The state of an attempt."""

    WAITING = "waiting"
    """Its driver has not started."""
    RUNNING = "running"
    """Its driver runs."""
    TERMINATING = "terminating"
    """Its pod was told to terminate, and nothing has confirmed yet that it did."""
    ENDED = "ended"
    """Its driver writes nothing more; its last files may not be visible on the volume yet."""


class OomKills(NamedTuple):
    """Whether the kernel ended each player's container at its memory limit; None while that is unknown."""

    player: bool | None = None
    attack: bool | None = None

    def settled(self) -> "OomKills":
        """Returns the same with unknown as False, for when nothing more will be known."""
        return OomKills(bool(self.player), bool(self.attack))

    def of(self, container: str) -> bool | None:
        """Returns the value of the container `player` or `attack`."""
        return self.attack if container == ATTACK else self.player


_UNKNOWN_KILLS = OomKills()
_NO_KILLS = _UNKNOWN_KILLS.settled()
_UNKNOWN_EXIT = "its player's container ended without a word, and its pod is gone"


class PlayerExits(NamedTuple):
    """A description of how each player's container ended without reporting an exit itself."""

    player: str = _UNKNOWN_EXIT
    attack: str = _UNKNOWN_EXIT

    def of(self, container: str) -> str:
        """Returns the description of the container `player` or `attack`."""
        return self.attack if container == ATTACK else self.player


_UNKNOWN_EXITS = PlayerExits()


@dataclass(frozen=True, slots=True)
class AttemptStatus:
    """The state of an attempt, with a description.

    `fault` is the class of the fault if the attempt is given up now. `times_out`: whether a wait is given up at some
    time. `is_explained`: whether events of the cluster can add nothing to the description. `driver_exited`: whether the
    driver ended by itself, so that its last files may still arrive. `stuck_container` is a container, mostly a
    player's, that cannot start, which explains a fault that the driver reports; empty if there is none. `oom_kills` and
    `player_exits` say how each player ended. `node` is the pod's, empty before it has one. `had_pod` is false if the
    Job's deadline passed before there was a pod, for example while the quota was used up. `rejected`: whether the pod's
    node did not admit it, for example because no GPU could be allocated.
    """

    state: AttemptState
    description: str
    fault: type[PodLost] = PodLost
    times_out: bool = True
    is_explained: bool = True
    driver_exited: bool = False
    stuck_container: str = ""
    oom_kills: OomKills = _UNKNOWN_KILLS
    player_exits: PlayerExits = _UNKNOWN_EXITS
    node: str = ""
    had_pod: bool = True
    rejected: bool = False

    @property
    def waits_indefinitely(self) -> bool:
        """Whether it is a wait without a time limit: for a queue, or for quota."""
        return self.state is AttemptState.WAITING and not self.times_out


def derive_status(
    job: Object | None, pods: Sequence[Object], warnings: Mapping[str, str], *, taken: bool
) -> AttemptStatus:
    """Returns the status of an attempt.

    Args:
        job: its Job, None if somebody deleted it.
        pods: the Job's, in any order.
        warnings: the last warning about each Job and pod, by its name, as `reason: message`.
        taken: whether a driver has taken the attempt.
    """
    if job is None:
        return AttemptStatus(AttemptState.ENDED, "its Job was deleted", oom_kills=_NO_KILLS)
    pod = max(pods, key=lambda each: str(_metadata(each).get("creationTimestamp")), default=None)
    failed = _true_condition(job, "Failed") or _true_condition(job, "FailureTarget")
    if (end_status := _job_end_status(job, failed, pod)) is not None:
        return end_status
    if pod is not None and not _is_suspended(job):
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        return replace(
            _pod_status(pod, warnings),
            node=node,
            player_exits=PlayerExits(_player_exit(pod, PLAYER), _player_exit(pod, ATTACK)),
        )
    if failed is not None or _true_condition(job, "Complete") is not None:
        return AttemptStatus(AttemptState.ENDED, _job_end_reason(failed), oom_kills=_oom_kills(pod))
    return _suspended_status(job, pod, is_taken=taken) if _is_suspended(job) else _status_without_pod(job, warnings)


def _job_end_status(job: Object, failed: Object | None, pod: Object | None) -> AttemptStatus | None:
    """Returns the status of an attempt that its Job ended, whatever its pod does, or None if it did not."""
    if _metadata(job).get("deletionTimestamp"):
        return AttemptStatus(AttemptState.ENDED, "its Job is being deleted", oom_kills=_oom_kills(pod))
    if failed is not None and failed.get("reason") == "DeadlineExceeded":
        limit = job["spec"].get("activeDeadlineSeconds")
        return AttemptStatus(
            AttemptState.ENDED,
            f"it ran past its Job's deadline of {limit} s",
            DriverLost,
            oom_kills=_oom_kills(pod),
            had_pod=pod is not None or _counts_pods(job),
        )
    return None


def _counts_pods(job: Object) -> bool:
    """Returns whether a Job's status counts any pod, so that it had one."""
    status = job.get("status") or {}
    return any(status.get(name) for name in ("active", "terminating", "succeeded", "failed", "uncountedTerminatedPods"))


def _job_end_reason(failed: Object | None) -> str:
    """Returns why a Job ended, if its pod is gone."""
    message = _safe_text((failed or {}).get("message"))
    if "DisruptionTarget" in message:
        return f"its pod was evicted, preempted, or lost with its node: {message}"
    return f"its pod is gone, and its Job ended: {message}"


def _is_suspended(job: Object) -> bool:
    return bool(job["spec"].get("suspend"))


def _suspended_status(job: Object, pod: Object | None, *, is_taken: bool) -> AttemptStatus:
    queue = (_metadata(job).get("labels") or {}).get(QUEUE_LABEL)
    if is_taken:
        return AttemptStatus(AttemptState.ENDED, "its Job was suspended while it ran", oom_kills=_oom_kills(pod))
    description = (
        f"suspended by Kueue, waits in queue {_safe_text(queue)}" if queue else "its Job is suspended; resume it"
    )
    return AttemptStatus(AttemptState.WAITING, description, PodRefused, times_out=False)


def _status_without_pod(job: Object, warnings: Mapping[str, str]) -> AttemptStatus:
    warning = warnings.get(str(_metadata(job)["name"]), "")
    if "exceeded quota" in warning:
        return AttemptStatus(
            AttemptState.WAITING, describe_quota(warning), PodRefused, times_out=False, is_explained=False
        )
    return AttemptStatus(
        AttemptState.WAITING,
        f"no pod: {_safe_text(warning)}" if warning else "no pod yet",
        PodRefused,
        is_explained=False,
    )


def describe_quota(message: str) -> str:
    """Returns the description of a wait for quota, from the API server's `exceeded quota: ...`."""
    return f"waits for quota: {_safe_text(message[message.find('exceeded quota') :])}"


def _pod_status(pod: Object, warnings: Mapping[str, str]) -> AttemptStatus:
    status, oom = pod.get("status") or {}, _oom_kills(pod)
    termination = container_state(pod, DRIVER).get("terminated")
    if termination is not None:
        return _driver_end_status(pod, termination, oom)
    if status.get("phase") in {"Failed", "Succeeded"}:
        return AttemptStatus(
            AttemptState.ENDED, _pod_end_reason(pod), oom_kills=oom.settled(), rejected=_is_rejected(pod)
        )
    if _metadata(pod).get("deletionTimestamp"):
        return AttemptStatus(AttemptState.TERMINATING, _pod_end_reason(pod), oom_kills=oom)
    return _live_pod_status(pod, warnings, oom)


def _live_pod_status(pod: Object, warnings: Mapping[str, str], oom: OomKills) -> AttemptStatus:
    stuck = _start_error(pod)
    if _is_node_silent(pod):
        return AttemptStatus(AttemptState.RUNNING, f"its {_describe_node(pod)} does not answer", oom_kills=oom)
    if "running" in container_state(pod, DRIVER):
        if stuck is not None:
            state = AttemptState.ENDED if stuck.fault is PlayerRefused else AttemptState.RUNNING
            description = f"its {_role(stuck.container)} cannot start: {stuck.description}"
            return AttemptStatus(state, description, stuck.fault, stuck_container=stuck.container, oom_kills=oom)
        return AttemptStatus(AttemptState.RUNNING, f"plays on {_describe_node(pod)}", oom_kills=oom)
    return (
        _waiting_status(pod, warnings)
        if stuck is None
        else AttemptStatus(AttemptState.WAITING, stuck.description, stuck.fault, stuck_container=stuck.container)
    )


def _is_node_silent(pod: Object) -> bool:
    """Returns whether the node controller marked the pod as not ready; a kubelet that does so gives a reason.

    The phase stays: no component sets `Unknown` any more ("Nodes", "Node controller"; PodStatus v1 core).
    """
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        each.get("type") == "Ready" and each.get("status") == "False" and not each.get("reason") for each in conditions
    )


def _driver_end_status(pod: Object, termination: Object, oom: OomKills) -> AttemptStatus:
    code, reason = termination.get("exitCode"), _safe_text(termination.get("reason"))
    disrupted = _disruption_reason(pod)
    if disrupted:
        return AttemptStatus(AttemptState.ENDED, disrupted, oom_kills=oom.settled())
    if stuck := _start_error(pod):
        return AttemptStatus(
            AttemptState.ENDED,
            f"its {_role(stuck.container)} could not start: {stuck.description}",
            stuck.fault,
            driver_exited=True,
            stuck_container=stuck.container,
            oom_kills=oom.settled(),
        )
    last = _last_line(termination.get("message"))
    description = f"the driver ended with exit code {code} ({reason}) and left no result" + (
        f": {last}" if last else ""
    )
    if NO_ASSIGNMENT in last:
        return AttemptStatus(AttemptState.ENDED, f"{last}: {_WRONG_VOLUME}", DriverLost, oom_kills=oom)
    by_itself = isinstance(code, int) and code < _FIRST_SIGNAL_CODE
    if not by_itself and _metadata(pod).get("deletionTimestamp"):
        return AttemptStatus(AttemptState.ENDED, "its pod was deleted", oom_kills=oom.settled())
    return AttemptStatus(AttemptState.ENDED, description, DriverLost, driver_exited=by_itself, oom_kills=oom)


def _last_line(message: Any) -> str:
    """Returns a driver's last line of output that is not a pointer to a document; empty without output."""
    lines = [line for line in str(message or "").splitlines() if line.strip() and not line.startswith("docs/")]
    return _safe_text(lines[-1]) if lines else ""


def _pod_end_reason(pod: Object) -> str:
    status = pod.get("status") or {}
    message = f"{_safe_text(status.get('reason'))}: {_safe_text(status.get('message'))}"
    if disrupted := _disruption_reason(pod):
        return disrupted
    if status.get("reason"):
        return f"the pod ended: {message}"
    for name, state in _container_states(status.get("initContainerStatuses")):
        code = (state.get("terminated") or {}).get("exitCode")
        if code:
            return f"its init container {name} ended with exit code {code}"
    return "its pod was deleted" if _metadata(pod).get("deletionTimestamp") else "its pod ended before its driver began"


def _is_rejected(pod: Object) -> bool:
    """Returns whether the pod's node did not admit it; the kubelet gives such a pod a reason, and no containers."""
    status = pod.get("status") or {}
    began = status.get("containerStatuses") or status.get("initContainerStatuses")
    return bool(status.get("reason")) and not began and not _disruption_reason(pod)


def _disruption_reason(pod: Object) -> str:
    """Returns why the cluster removed the pod; empty if it did not."""
    condition = _true_condition(pod, "DisruptionTarget")
    if condition is None:
        return ""
    cause = _DISRUPTION_WORDS.get(str(condition.get("reason")), f"disrupted ({_safe_text(condition.get('reason'))})")
    return f"its pod on {_describe_node(pod)} was {cause}: {_safe_text(condition.get('message'))}"


class _StartError(NamedTuple):
    """Why a container cannot start, the class of the fault, and the container."""

    description: str
    fault: type[PodLost]
    container: str


def _start_error(pod: Object) -> _StartError | None:
    """Returns the error of a container that cannot start: its image is missing, or the runtime refuses a player's."""
    if image := _image_error(pod):
        return image
    for container in (PLAYER, ATTACK):
        for state, details in container_state(pod, container).items():
            if details.get("reason") in _START_ERRORS:
                reason = f"{_safe_text(details['reason'])}: {_safe_text(details.get('message'))}"
                # A container that is never restarted has one try. While it waits, the kubelet tries again.
                fault = PlayerRefused if state == "terminated" else PodRefused
                return _StartError(f"container {container}: {reason}", fault, container)
    return None


def _role(container: str) -> str:
    """Returns the role that a stuck container has in a description; the driver's stops its player from playing."""
    return ATTACK if container == ATTACK else PLAYER


def _image_error(pod: Object) -> _StartError | None:
    """Returns which image cannot be pulled, and why."""
    status = pod.get("status") or {}
    for part in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(part) or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _IMAGE_ERRORS:
                image, why = _safe_text(container.get("image")), _safe_text(waiting.get("message"))
                name = _safe_text(container.get("name"))
                description = f"image {image} of container {name}: {waiting['reason']}" + (f": {why}" if why else "")
                return _StartError(description, ImagePullFailed, name)
    return None


def _waiting_status(pod: Object, warnings: Mapping[str, str]) -> AttemptStatus:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            if condition.get("reason") == "SchedulingGated":
                return AttemptStatus(AttemptState.WAITING, "its pod waits for its scheduling gates", times_out=False)
            return AttemptStatus(
                AttemptState.WAITING, describe_scheduling(str(condition.get("message"))), Unschedulable
            )
    for part in ("initContainerStatuses", "containerStatuses"):
        for name, state in _container_states((pod.get("status") or {}).get(part)):
            waiting = state.get("waiting") or {}
            if waiting and waiting.get("reason", "") not in _NORMAL_WAITS:
                description = f"container {name}: {_safe_text(waiting['reason'])}: {_safe_text(waiting.get('message'))}"
                return AttemptStatus(AttemptState.WAITING, description, PodRefused)
    if not (pod.get("spec") or {}).get("nodeName"):
        return AttemptStatus(AttemptState.WAITING, "waits for the scheduler", Unschedulable)
    warning = warnings.get(str(_metadata(pod)["name"]), "")
    if warning.startswith(_SCHEDULER_EVENT):  # from before it had a node
        warning = ""
    description = f"on {_describe_node(pod)}: {_safe_text(warning)}" if warning else f"starts on {_describe_node(pod)}"
    return AttemptStatus(AttemptState.WAITING, description, PodRefused, is_explained=False)


def describe_scheduling(message: str) -> str:
    """Returns the scheduler's message, shortened: `insufficient nvidia.com/gpu: 0 of 3 nodes have one free`."""
    found = re.match(r"\d+/(\d+) nodes are available: (.+?)\.(?:\s|$)", message)
    if found is None:
        return f"unschedulable: {_safe_text(message)}"
    total, reasons = int(found[1]), found[2].split(", ")
    parts = []
    for reason in reasons:
        lack = re.fullmatch(r"(\d+) Insufficient (\S+)", reason)
        if lack is None:
            parts.append(_safe_text(reason))
        elif len(reasons) == 1:
            free = "one free" if "/" in lack[2] else "enough free"
            parts.append(f"insufficient {_safe_text(lack[2])}: {total - int(lack[1])} of {total} nodes have {free}")
        else:
            parts.append(f"insufficient {_safe_text(lack[2])} on {lack[1]} of {total} nodes")
    return "; ".join(parts)


def _oom_kills(pod: Object | None) -> OomKills:
    """Returns whether the kernel ended each player's container at its memory limit."""
    if pod is None:
        return _NO_KILLS
    ends = (container_state(pod, container).get("terminated") for container in (PLAYER, ATTACK))
    return OomKills(*(None if end is None else end.get("reason") == "OOMKilled" for end in ends))


def _player_exit(pod: Object, container: str) -> str:
    """Returns how a player's container ended whose first process reported no exit."""
    termination = container_state(pod, container).get("terminated")
    node = _describe_node(pod)
    if termination is None:
        return f"its {container}'s container on {node} ended without a word, and its status does not say how"
    cause = f"with exit code {termination.get('exitCode')} ({_safe_text(termination.get('reason'))})"
    return f"its {container}'s container was ended from outside on {node}, {cause}, not at its memory limit"


def container_state(pod: Object, container: str) -> Object:
    """Returns the state of one of a pod's containers, empty if it has none yet."""
    states = (
        state
        for name, state in _container_states((pod.get("status") or {}).get("containerStatuses"))
        if name == container
    )
    return next(states, {})


def _container_states(statuses: Any) -> Iterator[tuple[str, Object]]:
    for each in statuses or ():
        yield _safe_text(each.get("name")), each.get("state") or {}


def _true_condition(thing: Object, kind: str) -> Object | None:
    """Returns a condition of an object if it holds."""
    for each in (thing.get("status") or {}).get("conditions") or ():
        if each.get("type") == kind and each.get("status") == "True":
            condition: Object = each
            return condition
    return None


def _metadata(thing: Object) -> Object:
    found: Object = thing["metadata"]
    return found


def _describe_node(pod: Object) -> str:
    return f"node {_safe_text((pod.get('spec') or {}).get('nodeName') or 'nowhere')}"


def _safe_text(value: Any) -> str:
    return "" if value is None else printable(str(value), _SHOWN).strip().rstrip(".")
