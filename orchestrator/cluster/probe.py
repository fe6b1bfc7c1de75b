"""Probes of a cluster: Jobs as players' Jobs are, whose one container tries what no player may be able to do.

A network policy is only words where nothing enforces it, and no object of the API tells whether something does. So a
pod with the labels, the runtime and the settings of a player's pod tries to connect out. What it tries has to be there,
or its silence proves nothing: a listener of ours is one target, and a container beside it in its own pod, which no
policy keeps from it, shows that it listens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from orchestrator.backends.base import Image
from orchestrator.cluster import pod
from orchestrator.cluster.job import job
from orchestrator.cluster.names import Attempt, Bout
from orchestrator.cluster.reaching import LISTENER, Reach, Said, Target, Tried
from orchestrator.cluster.settings import ClusterSettings
from orchestrator.domain.ids import digest, job_id
from orchestrator.domain.plan import Job, Stage
from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.text import printable

RECORD = "sparring-network-probe"
"""The ConfigMap that keeps what the last network probe found."""
KEY = "probe.json"
LASTS = timedelta(hours=24)
"""How long a probe's word holds."""
SECONDS = 900
"""After how long a probe's Job is over in any case."""
LISTENS = 600
PORT = 8080
CONTROL, PROBE = "control", "probe"
METADATA = Target("metadata", "tcp", "169.254.169.254", 80)
"""Where clouds hand their credentials to whoever asks."""
_NOBODY = Image(digest("probe"), "probe", ("probe",), None, f"probe@{digest('probe')}")


class Outcome(StrEnum):
    """What a network probe showed."""

    BLOCKED = "blocked"
    """Nothing was reached, and there was something to be reached."""
    CONNECTED = "connected"
    UNKNOWN = "unknown"
    """Nothing was proved: the probe did not run, or its listener did not listen."""


class Record(BaseModel):
    """The last network probe, as the namespace keeps it. `reached` are the targets that answered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: AwareDatetime
    outcome: Outcome
    who: str
    reached: list[str] = []
    runtime_class: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a round may begin on this cluster, and why not."""

    fine: bool
    why: str = ""


def fresh(record: Record | None, now: datetime) -> Verdict:
    """Returns whether a network probe holds: it was blocked, and is not older than 24 hours."""
    remedy = "run `sparring cluster check`"
    if record is None:
        return Verdict(False, f"the network of this cluster was never probed; {remedy}")
    when = f"{record.at:%Y-%m-%d %H:%M} UTC"
    match record.outcome:
        case Outcome.CONNECTED:
            reached = printable(", ".join(record.reached))
            return Verdict(False, f"on {when} a player's pod reached {reached}; mend the network, and {remedy}")
        case Outcome.UNKNOWN:
            return Verdict(False, f"the probe of {when} proved nothing: {printable(record.detail)}; {remedy}")
    if record.at - now > timedelta(minutes=5):
        return Verdict(False, f"the last network probe is of {when}, still to come; set the clocks, and {remedy}")
    if now - record.at > LASTS:
        hours = int((now - record.at) / timedelta(hours=1))
        return Verdict(False, f"the last network probe is {hours} hours old, which is more than 24; {remedy}")
    return Verdict(True)


def read(kept: dict[str, Any] | None) -> Record | None:
    """Returns what a ConfigMap holds, None where it is not there or holds something else."""
    try:
        return Record.model_validate_json(((kept or {}).get("data") or {}).get(KEY, ""))
    except ValidationError:
        return None


def kept(record: Record, namespace: str) -> dict[str, Any]:
    """Returns the ConfigMap of a record."""
    labels = {
        "app.kubernetes.io/name": "sparring",
        "app.kubernetes.io/component": "check",
        "app.kubernetes.io/part-of": "sparring",
        "app.kubernetes.io/managed-by": "sparring",
    }
    metadata = {"name": RECORD, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: record.model_dump_json()}}


def judged(tried: list[Tried]) -> tuple[Outcome, list[str]]:
    """Returns what a probe showed, and which targets answered.

    A refusal came from somewhere, so what refuses was reached, unless the network itself refuses: then a listener,
    which is known to listen, refuses too.
    """
    listeners = [each for each in tried if each.name.startswith(LISTENER)]
    if not listeners:
        return Outcome.UNKNOWN, []
    answers = {Reach.CONNECTED}
    if all(each.reach is not Reach.REFUSED for each in listeners):
        answers.add(Reach.REFUSED)
    reached = [each.name for each in tried if each.reach in answers]
    return (Outcome.CONNECTED if reached else Outcome.BLOCKED), reached


def match_pod(settings: ClusterSettings, policy: SandboxPolicy) -> dict[str, Any]:
    """Returns the specification of a match's pod under this policy, of nobody's image. Raises UsageError."""
    played = Job(job_id(probe="match"), Stage.CLASSIFY, "probe")
    attempt = Attempt(Bout("probe", "probe", "probe", digest("probe")), played, 1)
    spec: dict[str, Any] = pod.template(attempt, _NOBODY, policy, settings)["spec"]
    return spec


@dataclass(frozen=True, slots=True)
class Probes:
    """The Jobs of one check. `token` makes their names its own; `runtime` is the contest's."""

    settings: ClusterSettings
    token: str
    contest: str = "probe"
    runtime: Runtime = Runtime.RUNC
    port: int = PORT

    def listener(self) -> dict[str, Any]:
        """Returns the Job that listens, with the control beside it."""
        here = f"$(POD_ADDRESSES):{self.port}"
        address = {"name": "POD_ADDRESSES", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}
        made = self._job(
            LISTENER,
            self._container(LISTENER, "--listen", here, "--seconds", str(LISTENS)) | {"env": [address]},
            self._container(CONTROL, "--control", here, "--seconds", "30") | {"env": [address]},
        )
        # The name servers that pods usually get are a target: the control reads them from its own resolv.conf.
        spec = made["spec"]["template"]["spec"]
        del spec["dnsConfig"]
        spec["dnsPolicy"] = "ClusterFirst"
        return made

    def probe(self, targets: list[Target]) -> dict[str, Any]:
        """Returns the Job that tries to reach these, and what its environment tells it of."""
        words = [word for each in targets for word in ("--connect", str(each))]
        address = {"name": "NODE_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
        return self._job(PROBE, self._container(PROBE, *words) | {"env": [address]})

    def storage(self, files: Sequence[str] = ()) -> dict[str, Any]:
        """Returns the Job that writes to the volume, as its controller and drivers do, and looks for files there.

        `files` are paths below the folder of the settings, where a round's `--out` shows the same.
        """
        mount = {"name": "work", "mountPath": "/work"}
        above = f"{self.settings.folder}/" if self.settings.folder else ""
        find = [word for each in files for word in ("--find", f"{above}{each}")]
        words = ("--storage", "/work", *find, "--seconds", "10")
        made = self._job("storage", self._container("storage", *words) | {"volumeMounts": [mount]})
        spec = made["spec"]["template"]["spec"]
        spec["volumes"] = [{"name": "work", "persistentVolumeClaim": {"claimName": self.settings.claim}}]
        spec["securityContext"]["fsGroup"] = self.settings.user
        spec["securityContext"]["fsGroupChangePolicy"] = "OnRootMismatch"
        return made

    def _job(self, what: str, *containers: dict[str, Any]) -> dict[str, Any]:
        """Returns a player's Job with other containers in it: labels, place, runtime and network are a player's."""
        played = Job(job_id(probe=what), Stage.CLASSIFY, "probe")
        attempt = Attempt(Bout(self.contest, "probe", "probe", digest(f"probe {self.token}")), played, 1)
        made = job(attempt, _NOBODY, SandboxPolicy(runtime=self.runtime), self.settings, SECONDS)
        made["metadata"]["name"] = f"sparring-{what}-{self.token}"
        made["metadata"]["labels"] = attempt.labels()  # without a queue: a check waits for nobody
        spec = made["spec"]
        spec["suspend"] = False
        del spec["podFailurePolicy"]  # which names the containers of a match
        spec["ttlSecondsAfterFinished"] = SECONDS
        spec["template"]["metadata"]["annotations"] = attempt.annotations()  # gVisor's are about volumes of a match
        inside = spec["template"]["spec"]
        del inside["initContainers"]
        inside["volumes"], inside["containers"] = [], list(containers)
        return made

    def _container(self, name: str, *words: str) -> dict[str, Any]:
        """Returns a container of the runner's image that runs `pod probe`."""
        amounts = {"cpu": "200m", "memory": str(256 * 1024**2), "ephemeral-storage": "16Mi"}
        return {
            "name": name,
            "image": pod.located(self.settings.runner, self.settings.registry),
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "-m", "orchestrator"],
            "args": ["pod", "probe", *words, "--tell", "/dev/termination-log"],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "resources": {"requests": dict(amounts), "limits": dict(amounts)},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }


def heard(message: str | None) -> Said | None:
    """Returns what a probe said in its termination message, None where it said nothing that can be read."""
    try:
        return Said.model_validate_json(message or "")
    except ValidationError:
        return None
