"""Creates probes, waits for their results and deletes them; stores the network probe's result in the namespace."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.domain.policy import Runtime
from orchestrator.domain.text import printable
from orchestrator.errors import ClusterRefused, ClusterUnavailable, InfrastructureFault
from orchestrator.executors.kubernetes import probe_job
from orchestrator.executors.kubernetes.api import EVENTS, JOBS, PODS, Api
from orchestrator.executors.kubernetes.attempt_status import container_state, derive_status
from orchestrator.executors.kubernetes.cluster_check import APPLY_OVERLAY_REMEDY, CONFIG_MAPS
from orchestrator.executors.kubernetes.connectivity_probe import (
    LISTENER_NAME,
    MAX_TARGETS,
    ProbeReport,
    Reachability,
    Target,
)
from orchestrator.executors.kubernetes.probe_job import (
    CONTROL_CONTAINER,
    PROBE_CONTAINER,
    RECORD_NAME,
    NetworkOutcome,
    ProbeJobs,
    ProbeRecord,
)
from orchestrator.sandboxes.base import Check, CheckStatus

_SAVE_ATTEMPTS = 5
_OWN_TARGETS = 3
"""How many targets are left free for those that a probe finds in its environment."""
_MOUNT_REMEDY = (
    "mount the claim's volume so that `blobs` and `cluster` of the --out folder lie on it, in `cluster.folder`"
)
_COUNTERS = "kernel counters"
_OWN_KERNEL = (
    "a defence can pass data from one sandbox to the next through these counters: play strangers' code with `runtime: "
    "runsc` or `kata`, or give each defence its own nodes and set `cluster.replay_nodes: others`; "
    "see `sparring explain threat-model#memory-by-time`"
)
_WAIT_REMEDY = "`sparring explain run-on-kubernetes` explains what a pod may wait for"


@dataclass(frozen=True, slots=True)
class ProbeTimeouts:
    """How long a probe may take from its creation to its end, in seconds, and how to wait for it."""

    seconds: float = 300.0
    poll_seconds: float = 1.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class ProbeEnd:
    """The report of a probe's container, or the `reason` why there is none; `pod_addresses` are those of its pod."""

    report: ProbeReport | None
    reason: str = ""
    pod_addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkResult:
    """The result of a network probe. `detail` has the result of each target, or the error.

    `counters` are the files with counters of the whole node that its pod could read; None if it did not report any.
    """

    outcome: NetworkOutcome
    reached_targets: tuple[str, ...]
    detail: str
    counters: tuple[str, ...] | None = None

    def to_record(self, operator: str, now: datetime) -> ProbeRecord:
        """Returns the record that the namespace stores."""
        return ProbeRecord(
            probed_at=now,
            outcome=self.outcome,
            operator=operator,
            reached_targets=list(self.reached_targets),
            detail=self.detail,
        )


def probe_storage(api: Api, probes: ProbeJobs, patience: ProbeTimeouts, files: Sequence[str] = ()) -> Check:
    """Checks whether the runner's image can be pulled, its user can write to the volume, and these files are on it."""
    with _created_job(api, probes.storage_job(files)) as name:
        probe_end = _wait_for_container(api, name, "storage", patience)
    if probe_end.report is None or probe_end.report.error or probe_end.report.write_seconds is None:
        why = probe_end.report.error if probe_end.report and probe_end.report.error else probe_end.reason
        advice = f"let user {probes.settings.user} (cluster.user) write to the volume's root"
        remedy = f"{advice}, or see what the pod waits for: {_WAIT_REMEDY}"
        return Check("storage and image", CheckStatus.FAIL, printable(why), remedy)
    if probe_end.report.missing_files:
        lacking = printable(", ".join(probe_end.report.missing_files))
        problem = f"{lacking}: just written below --out, but not on the volume of the claim {probes.settings.claim}"
        return Check("storage and image", CheckStatus.FAIL, problem, _MOUNT_REMEDY)
    detail = f"a pod of the runner's image wrote and read 1 MiB in {probe_end.report.write_seconds * 1000:.0f} ms"
    return Check("storage and image", CheckStatus.OK, detail)


def probe_network(api: Api, probes: ProbeJobs, extra_targets: list[Target], patience: ProbeTimeouts) -> NetworkResult:
    """Returns which of our listener, name servers, API server, node and `extra_targets` a player's pod can reach."""
    with _created_job(api, probes.listener_job()) as listener:
        control = _wait_for_container(api, listener, CONTROL_CONTAINER, patience)
        connections = (
            [each.reachability is Reachability.CONNECTED for each in control.report.results] if control.report else []
        )
        if (
            control.report is None
            or len(connections) != len(control.pod_addresses)
            or not connections
            or not all(connections)
        ):
            why = (control.report.error if control.report else "") or control.reason or "its own pod cannot reach it"
            return NetworkResult(NetworkOutcome.UNKNOWN, (), f"the listener did not start: {printable(why)}")
        targets = [
            Target(f"{LISTENER_NAME}-{n}", "tcp", host, probes.port) for n, host in enumerate(control.pod_addresses, 1)
        ]
        targets += [Target(f"dns-{n}", "udp", host, 53) for n, host in enumerate(control.report.nameservers, 1)]
        with _created_job(api, probes.network_job((targets + extra_targets)[: MAX_TARGETS - _OWN_TARGETS])) as name:
            probe_end = _wait_for_container(api, name, PROBE_CONTAINER, patience)
        listened = _is_running(api, listener, LISTENER_NAME)
    if probe_end.report is None or probe_end.report.error:
        why = probe_end.report.error if probe_end.report else probe_end.reason
        return NetworkResult(NetworkOutcome.UNKNOWN, (), f"the probe did not finish: {printable(why)}")
    outcome, reached = probe_job.judge_results(probe_end.report.results)
    if outcome is NetworkOutcome.UNKNOWN:
        return NetworkResult(outcome, (), "the probe did not try the listener")
    if outcome is NetworkOutcome.BLOCKED and not listened:
        return NetworkResult(NetworkOutcome.UNKNOWN, (), "the listener ended before the probe did")
    tried = ", ".join(f"{each.name} {each.reachability.value}" for each in probe_end.report.results)
    return NetworkResult(
        outcome,
        tuple(reached),
        printable(tried, 1000),
        None if probe_end.report.counters is None else tuple(probe_end.report.counters),
    )


def network_check(seen: NetworkResult) -> Check:
    """Returns the check that shows the result of a network probe."""
    match seen.outcome:
        case NetworkOutcome.BLOCKED:
            return Check("network probe", CheckStatus.OK, f"a player's pod reached nothing ({seen.detail})")
        case NetworkOutcome.CONNECTED:
            detail = f"a player's pod reached {printable(', '.join(seen.reached_targets))} ({seen.detail})"
            network = "on a network that enforces policies (Calico, Cilium, Antrea)"
            remedy = f"{APPLY_OVERLAY_REMEDY}, {network}; until then play no stranger's code here"
            if not any(name.startswith(LISTENER_NAME) for name in seen.reached_targets):
                remedy = (
                    "the policies block traffic between pods, but not to these addresses; "
                    "`sparring explain run-on-kubernetes` says why that happens"
                )
            return Check("network probe", CheckStatus.FAIL, detail, remedy)
        case _:
            return Check("network probe", CheckStatus.FAIL, f"no result: {seen.detail}", _WAIT_REMEDY)


def counted(seen: NetworkResult, runtime: Runtime) -> Check | None:
    """Returns the check of the kernel counters that players can read, or None if the probe did not report any."""
    if runtime is not Runtime.RUNC:
        return Check(_COUNTERS, CheckStatus.OK, f"{runtime.value}: each pod has its own kernel with its own counters")
    if seen.counters is None:
        return None
    if not seen.counters:
        return Check(_COUNTERS, CheckStatus.OK, "a player's pod can read no counters of the whole node")
    detail = f"a player's pod can read counters of the whole node: {', '.join(seen.counters)}"
    return Check(_COUNTERS, CheckStatus.WARN, printable(detail, 1500), _OWN_KERNEL)


def save_record(api: Api, record: ProbeRecord, namespace: str) -> None:
    """Stores a record as the namespace's last one. Raises ClusterUnavailable if others keep changing it."""
    body = probe_job.record_config_map(record, namespace)
    for _ in range(_SAVE_ATTEMPTS):
        before = api.read(CONFIG_MAPS, RECORD_NAME)
        if before is None:
            if api.create(CONFIG_MAPS, body) is not None:
                return
            continue
        version = {"resourceVersion": before["metadata"]["resourceVersion"]}
        if api.replace(CONFIG_MAPS, body | {"metadata": body["metadata"] | version}) is not None:
            return
    raise ClusterUnavailable(
        f"ConfigMap {RECORD_NAME} was changed by others at each of {_SAVE_ATTEMPTS} attempts to store the result; "
        "wait until other checks of this namespace have ended, and run this one again"
    )


def last_record(api: Api) -> ProbeRecord | None:
    """Returns the record of the namespace's last network probe, or None if there is none."""
    return probe_job.read_record(api.read(CONFIG_MAPS, RECORD_NAME))


@contextmanager
def _created_job(api: Api, job: dict[str, Any]) -> Iterator[str]:
    """Creates a Job, yields its name, and deletes it. If that fails, its time to live ends it."""
    if api.create(JOBS, job) is None:
        raise ClusterRefused(f"Job {job['metadata']['name']} already exists; run again, which uses another name")
    try:
        yield job["metadata"]["name"]
    finally:
        with suppress(InfrastructureFault):
            api.delete(JOBS, job["metadata"]["name"])


def _wait_for_container(api: Api, job: str, container: str, patience: ProbeTimeouts) -> ProbeEnd:
    """Waits until a container of a Job's pod has ended, and returns its report or the reason why there is none."""
    until = patience.clock() + patience.seconds
    while True:
        pods = api.search(PODS, f"batch.kubernetes.io/job-name={job}").items
        for pod in pods:
            status = pod.get("status") or {}
            if (state := container_state(pod, container).get("terminated")) is not None:
                report = probe_job.parse_report(state.get("message"))
                reason = (
                    ""
                    if report
                    else f"its container ended with {state.get('exitCode')} ({state.get('reason')}) without a report"
                )
                return ProbeEnd(report, reason, tuple(each["ip"] for each in status.get("podIPs") or ()))
            if status.get("phase") == "Failed":
                return ProbeEnd(None, _describe_wait(api, job, pods))
        if patience.clock() >= until:
            return ProbeEnd(None, f"did not end within {patience.seconds:g} s: {_describe_wait(api, job, pods)}")
        patience.sleep(patience.poll_seconds)


def _is_running(api: Api, job: str, container: str) -> bool:
    """Returns whether a container of a Job's pod still runs."""
    pods = api.search(PODS, f"batch.kubernetes.io/job-name={job}").items
    return any(container_state(pod, container).get("running") is not None for pod in pods)


def _describe_wait(api: Api, job: str, pods: list[dict[str, Any]]) -> str:
    """Returns a description of what a Job's pod waits for."""
    events = api.search(EVENTS, fields="type=Warning").items
    warnings = {each["involvedObject"]["name"]: f"{each.get('reason')}: {each.get('message')}" for each in events}
    return derive_status(api.read(JOBS, job), pods, warnings, taken=False).description
