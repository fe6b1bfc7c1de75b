"""Probes are made, waited for and removed; what the network probe found is kept in the namespace."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.backends.base import Check, CheckStatus
from orchestrator.cluster import probe
from orchestrator.cluster.api import EVENTS, JOBS, PODS, Api
from orchestrator.cluster.check import APPLY, CONFIG_MAPS
from orchestrator.cluster.probe import CONTROL, PROBE, RECORD, Outcome, Probes, Record
from orchestrator.cluster.reaching import LISTENER, MOST, Reach, Said, Target
from orchestrator.cluster.standing import standing
from orchestrator.domain.policy import Runtime
from orchestrator.domain.text import printable
from orchestrator.errors import ClusterRefused, ClusterUnavailable, InfrastructureFault

_KEEPS = 5
_OWN = 3
"""The targets that a probe finds in its environment, and some room."""
_MOUNT = "let `blobs` and `cluster` in the --out folder be those of the claim's volume, below `cluster.folder`"
_COUNTERS = "kernel counters"
_OWN_KERNEL = (
    "a defence can keep answers from one sandbox to the next by them: play strangers under `runtime: runsc` or `kata`, "
    "or give each defence nodes of its own, and `cluster.replay_nodes: others`; docs/threat-model.md, memory by time"
)
_REMEDY = "docs/run-on-kubernetes.md says what each such wait means"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a probe may take from its making to its end, in seconds, and how it is waited for."""

    seconds: float = 300.0
    between: float = 1.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Ended:
    """What a probe's container said at its end, or else `why` it did not; `addresses` are those of its pod."""

    said: Said | None
    why: str = ""
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What a network probe showed: which targets answered, and what became of each, or what went wrong.

    `counters` are the files with counters of the whole node that its pod could read; None where it did not say.
    """

    outcome: Outcome
    reached: tuple[str, ...]
    detail: str
    counters: tuple[str, ...] | None = None

    def record(self, who: str, now: datetime) -> Record:
        """Returns what is kept of it."""
        return Record(at=now, outcome=self.outcome, who=who, reached=list(self.reached), detail=self.detail)


def storage(api: Api, probes: Probes, patience: Patience, files: Sequence[str] = ()) -> Check:
    """Whether the runner's image can be pulled, its user can write to the volume, and these files are on it."""
    with _made(api, probes.storage(files)) as name:
        ended = _wait(api, name, "storage", patience)
    if ended.said is None or ended.said.error or ended.said.wrote is None:
        why = ended.said.error if ended.said and ended.said.error else ended.why
        who = f"let user {probes.settings.user} (cluster.user) write to the volume's root"
        remedy = f"{who}, or see what the pod waits for: {_REMEDY}"
        return Check("storage and image", CheckStatus.FAIL, printable(why), remedy)
    if ended.said.missing:
        lacking = printable(", ".join(ended.said.missing))
        what = f"claim {probes.settings.claim} has no {lacking}, which was put into --out just now"
        return Check("storage and image", CheckStatus.FAIL, what, _MOUNT)
    said = f"a pod of the runner's image wrote and read 1 MiB in {ended.said.wrote * 1000:.0f} ms"
    return Check("storage and image", CheckStatus.OK, said)


def network(api: Api, probes: Probes, more: list[Target], patience: Patience) -> Seen:
    """Returns what a player's pod could reach of our listener, the name servers, its surroundings, and `more`."""
    with _made(api, probes.listener()) as listener:
        control = _wait(api, listener, CONTROL, patience)
        heard = [each.reach is Reach.CONNECTED for each in control.said.tried] if control.said else []
        if control.said is None or len(heard) != len(control.addresses) or not heard or not all(heard):
            why = (control.said.error if control.said else "") or control.why or "its own pod cannot reach it"
            return Seen(Outcome.UNKNOWN, (), f"the listener does not listen: {printable(why)}")
        targets = [Target(f"{LISTENER}-{n}", "tcp", host, probes.port) for n, host in enumerate(control.addresses, 1)]
        targets += [Target(f"dns-{n}", "udp", host, 53) for n, host in enumerate(control.said.nameservers, 1)]
        with _made(api, probes.probe((targets + more)[: MOST - _OWN])) as name:
            ended = _wait(api, name, PROBE, patience)
        listened = _runs(api, listener, LISTENER)
    if ended.said is None or ended.said.error:
        why = ended.said.error if ended.said else ended.why
        return Seen(Outcome.UNKNOWN, (), f"the probe did not finish: {printable(why)}")
    outcome, reached = probe.judged(ended.said.tried)
    if outcome is Outcome.UNKNOWN:
        return Seen(outcome, (), "the probe did not try the listener")
    if outcome is Outcome.BLOCKED and not listened:
        return Seen(Outcome.UNKNOWN, (), "the listener was gone before the probe ended")
    tried = ", ".join(f"{each.name} {each.reach.value}" for each in ended.said.tried)
    return Seen(
        outcome,
        tuple(reached),
        printable(tried, 1000),
        None if ended.said.counters is None else tuple(ended.said.counters),
    )


def told(seen: Seen) -> Check:
    """Returns what is shown of a network probe."""
    match seen.outcome:
        case Outcome.BLOCKED:
            return Check("network probe", CheckStatus.OK, f"a player's pod reached nothing ({seen.detail})")
        case Outcome.CONNECTED:
            said = f"a player's pod reached {printable(', '.join(seen.reached))} ({seen.detail})"
            remedy = f"{APPLY}, on a network that enforces policies (Calico, Cilium, Antrea); play nothing here before"
            if not any(name.startswith(LISTENER) for name in seen.reached):
                remedy = "policies hold between pods here, but not towards all else; docs/run-on-kubernetes.md has why"
            return Check("network probe", CheckStatus.FAIL, said, remedy)
        case _:
            return Check("network probe", CheckStatus.FAIL, f"nothing was proved: {seen.detail}", _REMEDY)


def counted(seen: Seen, runtime: Runtime) -> Check | None:
    """Returns what is shown of the counters that players can read, None where nobody looked."""
    if runtime is not Runtime.RUNC:
        return Check(_COUNTERS, CheckStatus.OK, f"{runtime.value}: a pod's kernel is its own, and so are its counters")
    if seen.counters is None:
        return None
    if not seen.counters:
        return Check(_COUNTERS, CheckStatus.OK, "a player's pod reads none of the node's")
    said = f"a player's pod reads counters of the whole node: {', '.join(seen.counters)}"
    return Check(_COUNTERS, CheckStatus.WARN, printable(said, 1500), _OWN_KERNEL)


def keep(api: Api, record: Record, namespace: str) -> None:
    """Keeps a record as the namespace's last one. Raises ClusterUnavailable where others change it all the time."""
    body = probe.kept(record, namespace)
    for _ in range(_KEEPS):
        before = api.read(CONFIG_MAPS, RECORD)
        if before is None:
            if api.create(CONFIG_MAPS, body) is not None:
                return
            continue
        version = {"resourceVersion": before["metadata"]["resourceVersion"]}
        if api.replace(CONFIG_MAPS, body | {"metadata": body["metadata"] | version}) is not None:
            return
    raise ClusterUnavailable(f"ConfigMap {RECORD} changes all the time; is another check running? run again")


def last(api: Api) -> Record | None:
    """Returns what the last network probe of the namespace found, None where there was none."""
    return probe.read(api.read(CONFIG_MAPS, RECORD))


@contextmanager
def _made(api: Api, job: dict[str, Any]) -> Iterator[str]:
    """Makes a Job, yields its name, and removes it. Where that fails, its own time to live does."""
    if api.create(JOBS, job) is None:
        raise ClusterRefused(f"Job {job['metadata']['name']} is there already; run again, which takes another name")
    try:
        yield job["metadata"]["name"]
    finally:
        with suppress(InfrastructureFault):
            api.delete(JOBS, job["metadata"]["name"])


def _wait(api: Api, job: str, container: str, patience: Patience) -> Ended:
    """Waits until a container of a Job's pod has ended."""
    until = patience.clock() + patience.seconds
    while True:
        pods = api.search(PODS, f"batch.kubernetes.io/job-name={job}").items
        for pod in pods:
            status = pod.get("status") or {}
            if (state := _state(status, container).get("terminated")) is not None:
                said = probe.heard(state.get("message"))
                why = (
                    "" if said else f"its container ended with {state.get('exitCode')} ({state.get('reason')}), unheard"
                )
                return Ended(said, why, tuple(each["ip"] for each in status.get("podIPs") or ()))
            if status.get("phase") == "Failed":
                return Ended(None, _waits(api, job, pods))
        if patience.clock() >= until:
            return Ended(None, f"not ended within {patience.seconds:g} s: {_waits(api, job, pods)}")
        patience.sleep(patience.between)


def _runs(api: Api, job: str, container: str) -> bool:
    """Whether a container of a Job's pod runs still."""
    pods = api.search(PODS, f"batch.kubernetes.io/job-name={job}").items
    return any(_state(pod.get("status") or {}, container).get("running") is not None for pod in pods)


def _state(status: dict[str, Any], container: str) -> dict[str, Any]:
    states = (each.get("state") or {} for each in status.get("containerStatuses") or () if each["name"] == container)
    return next(states, {})


def _waits(api: Api, job: str, pods: list[dict[str, Any]]) -> str:
    """Returns what a Job's pod waits for, in words."""
    events = api.search(EVENTS, fields="type=Warning").items
    warnings = {each["involvedObject"]["name"]: f"{each.get('reason')}: {each.get('message')}" for each in events}
    return standing(api.read(JOBS, job), pods, warnings, begun=False).words
