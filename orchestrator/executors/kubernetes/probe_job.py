"""Probes of a cluster: Jobs like those of players, whose only container tries what no player may be able to do.

A network policy has no effect if nothing enforces it, and no object of the API shows whether something does. So a pod
with the labels, the runtime and the settings of a player's pod tries to connect out. Its targets have to exist, or
silence proves nothing: one of them is a listener of ours, and a control container in the listener's own pod, which no
policy separates from it, shows that it listens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from orchestrator.domain.ids import digest, job_id
from orchestrator.domain.plan import Job, Stage
from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.text import printable
from orchestrator.executors.kubernetes import pod_manifest
from orchestrator.executors.kubernetes.connectivity_probe import (
    LISTENER_NAME,
    ProbeReport,
    Reachability,
    Target,
    TargetResult,
)
from orchestrator.executors.kubernetes.job_manifest import render_job
from orchestrator.executors.kubernetes.labels import Attempt, RoundRef
from orchestrator.executors.kubernetes.settings import ClusterSettings
from orchestrator.sandboxes.base import Image

RECORD_NAME = "sparring-network-probe"
"""The ConfigMap that stores the result of the last network probe."""
RECORD_KEY = "probe.json"
RECORD_LIFETIME = timedelta(hours=24)
"""How long the result of a probe is valid."""
JOB_SECONDS = 900
"""The deadline of a probe's Job."""
LISTEN_SECONDS = 600
LISTENER_PORT = 8080
CONTROL_CONTAINER, PROBE_CONTAINER = "control", "probe"
METADATA_TARGET = Target("metadata", "tcp", "169.254.169.254", 80)
"""Where clouds give credentials to every client that asks."""
_PLACEHOLDER_IMAGE = Image(digest("probe"), "probe", ("probe",), None, f"probe@{digest('probe')}")


class NetworkOutcome(StrEnum):
    """The outcome of a network probe."""

    BLOCKED = "blocked"
    """No target was reached, although the listener listened."""
    CONNECTED = "connected"
    UNKNOWN = "unknown"
    """The probe proved nothing: it did not run, or its listener did not listen."""


class ProbeRecord(BaseModel):
    """The result of the last network probe, as the namespace stores it. `reached_targets` are those that answered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    probed_at: AwareDatetime
    outcome: NetworkOutcome
    operator: str
    reached_targets: list[str] = []
    runtime_class: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """Whether a round may begin on this cluster, and if not, why."""

    allowed: bool
    reason: str = ""


def judge_record(record: ProbeRecord | None, now: datetime) -> ProbeVerdict:
    """Returns whether a round may begin: the last probe was blocked, and is not older than 24 hours."""
    remedy = "run `sparring cluster check`"
    if record is None:
        return ProbeVerdict(False, f"the network of this cluster was never probed; {remedy}")
    when = f"{record.probed_at:%Y-%m-%d %H:%M} UTC"
    match record.outcome:
        case NetworkOutcome.CONNECTED:
            reached = printable(", ".join(record.reached_targets))
            return ProbeVerdict(
                False, f"on {when} a player's pod reached {reached}; correct the network's policies, and {remedy}"
            )
        case NetworkOutcome.UNKNOWN:
            return ProbeVerdict(False, f"the probe of {when} proved nothing: {printable(record.detail)}; {remedy}")
    if record.probed_at - now > timedelta(minutes=5):
        return ProbeVerdict(False, f"the last network probe is of {when}, still to come; set the clocks, and {remedy}")
    if now - record.probed_at > RECORD_LIFETIME:
        hours = int((now - record.probed_at) / timedelta(hours=1))
        return ProbeVerdict(False, f"the last network probe is {hours} hours old, which is more than 24; {remedy}")
    return ProbeVerdict(True)


def read_record(config_map: dict[str, Any] | None) -> ProbeRecord | None:
    """Returns the record in a ConfigMap, or None if there is no ConfigMap or no valid record in it."""
    try:
        return ProbeRecord.model_validate_json(((config_map or {}).get("data") or {}).get(RECORD_KEY, ""))
    except ValidationError:
        return None


def record_config_map(record: ProbeRecord, namespace: str) -> dict[str, Any]:
    """Returns the ConfigMap of a record."""
    labels = {
        "app.kubernetes.io/name": "sparring",
        "app.kubernetes.io/component": "check",
        "app.kubernetes.io/part-of": "sparring",
        "app.kubernetes.io/managed-by": "sparring",
    }
    metadata = {"name": RECORD_NAME, "namespace": namespace, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {RECORD_KEY: record.model_dump_json()},
    }


def judge_results(results: list[TargetResult]) -> tuple[NetworkOutcome, list[str]]:
    """Returns the outcome of a probe, and the names of the targets that were reached.

    A target that refuses was reached, unless the network itself refuses: then the listener, which is known to listen,
    seems to refuse too.
    """
    listeners = [each for each in results if each.name.startswith(LISTENER_NAME)]
    if not listeners:
        return NetworkOutcome.UNKNOWN, []
    answers = {Reachability.CONNECTED}
    if all(each.reachability is not Reachability.REFUSED for each in listeners):
        answers.add(Reachability.REFUSED)
    reached = [each.name for each in results if each.reachability in answers]
    return (NetworkOutcome.CONNECTED if reached else NetworkOutcome.BLOCKED), reached


def match_pod_spec(settings: ClusterSettings, policy: SandboxPolicy, *, has_attack: bool = False) -> dict[str, Any]:
    """Returns the specification of a match's pod under this policy, with a placeholder image. Raises UsageError.

    `has_attack`: whether the pod has two players, an attack that queries and its defence.
    """
    job = Job(job_id(probe="match"), Stage.CLASSIFY, "probe")
    attempt = Attempt(RoundRef("probe", "probe", "probe", digest("probe")), job, 1)
    attack = _PLACEHOLDER_IMAGE if has_attack else None
    spec: dict[str, Any] = pod_manifest.pod_template(attempt, _PLACEHOLDER_IMAGE, policy, settings, attack)["spec"]
    return spec


@dataclass(frozen=True, slots=True)
class ProbeJobs:
    """The Jobs of one check. `token` makes their names unique; `runtime` is the contest's."""

    settings: ClusterSettings
    token: str
    contest: str = "probe"
    runtime: Runtime = Runtime.RUNC
    port: int = LISTENER_PORT

    def listener_job(self) -> dict[str, Any]:
        """Returns the Job that listens, with the control container beside it."""
        listen_address = f"$(POD_ADDRESSES):{self.port}"
        address = {"name": "POD_ADDRESSES", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}
        job = self._render_job(
            LISTENER_NAME,
            self._container(LISTENER_NAME, "--listen", listen_address, "--seconds", str(LISTEN_SECONDS))
            | {"env": [address]},
            self._container(CONTROL_CONTAINER, "--control", listen_address, "--seconds", "30") | {"env": [address]},
        )
        # The name servers that pods usually get are targets: the control reads them from its own resolv.conf.
        spec = job["spec"]["template"]["spec"]
        del spec["dnsConfig"]
        spec["dnsPolicy"] = "ClusterFirst"
        return job

    def network_job(self, targets: list[Target]) -> dict[str, Any]:
        """Returns the Job that tries to reach these targets, and those in its environment.

        It has a driver's processors, so that it begins as early as a driver could have a player begin.
        """
        arguments = [argument for target in targets for argument in ("--connect", str(target))]
        address = {"name": "NODE_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
        container = self._container(PROBE_CONTAINER, *arguments, cpus=self.settings.driver_cpus)
        return self._render_job(PROBE_CONTAINER, container | {"env": [address]})

    def storage_job(self, files: Sequence[str] = ()) -> dict[str, Any]:
        """Returns the Job that writes to the volume, as its controller and drivers do, and looks for files there.

        `files` are paths below `cluster.folder`, which is the same folder as a round's `--out`.
        """
        mount = {"name": "work", "mountPath": "/work"}
        above = f"{self.settings.folder}/" if self.settings.folder else ""
        find_arguments = [argument for file in files for argument in ("--find", f"{above}{file}")]
        arguments = ("--storage", "/work", *find_arguments, "--seconds", "10")
        job = self._render_job("storage", self._container("storage", *arguments) | {"volumeMounts": [mount]})
        spec = job["spec"]["template"]["spec"]
        spec["volumes"] = [{"name": "work", "persistentVolumeClaim": {"claimName": self.settings.claim}}]
        spec["securityContext"]["fsGroup"] = self.settings.user
        spec["securityContext"]["fsGroupChangePolicy"] = "OnRootMismatch"
        return job

    def _render_job(self, kind: str, *containers: dict[str, Any]) -> dict[str, Any]:
        """Returns a player's Job with other containers: labels, scheduling, runtime and network are a player's."""
        match_job = Job(job_id(probe=kind), Stage.CLASSIFY, "probe")
        attempt = Attempt(RoundRef(self.contest, "probe", "probe", digest(f"probe {self.token}")), match_job, 1)
        job = render_job(attempt, _PLACEHOLDER_IMAGE, SandboxPolicy(runtime=self.runtime), self.settings, JOB_SECONDS)
        job["metadata"]["name"] = f"sparring-{kind}-{self.token}"
        job["metadata"]["labels"] = attempt.labels()  # without a queue: a check does not wait
        spec = job["spec"]
        spec["suspend"] = False
        del spec["podFailurePolicy"]  # which names the containers of a match
        spec["ttlSecondsAfterFinished"] = JOB_SECONDS
        spec["template"]["metadata"]["annotations"] = attempt.annotations()  # gVisor's are about volumes of a match
        inside = spec["template"]["spec"]
        del inside["initContainers"]
        inside["volumes"], inside["containers"] = [], list(containers)
        return job

    def _container(self, name: str, *arguments: str, cpus: float = 0.2) -> dict[str, Any]:
        """Returns a container of the runner's image that runs `pod probe`."""
        amounts = {"cpu": f"{max(1, round(cpus * 1000))}m", "memory": str(256 * 1024**2), "ephemeral-storage": "16Mi"}
        return {
            "name": name,
            "image": pod_manifest.qualified_image(self.settings.runner, self.settings.registry),
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "-m", "orchestrator"],
            "args": ["pod", "probe", *arguments, "--tell", "/dev/termination-log"],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "resources": {"requests": dict(amounts), "limits": dict(amounts)},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }


def parse_report(message: str | None) -> ProbeReport | None:
    """Returns a probe's report from its termination message, or None if that is not a valid report."""
    try:
        return ProbeReport.model_validate_json(message or "")
    except ValidationError:
        return None
