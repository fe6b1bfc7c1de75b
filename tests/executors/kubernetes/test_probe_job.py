"""Probes are Jobs as players' Jobs are, and their word holds for a day."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.domain.policy import Runtime
from orchestrator.executors.kubernetes import probe_job
from orchestrator.executors.kubernetes.connectivity_probe import Reachability, Target, TargetResult
from orchestrator.executors.kubernetes.probe_job import (
    NetworkOutcome,
    ProbeJobs,
    ProbeRecord,
    judge_record,
    judge_results,
)
from tests.kubernetes_api import versions
from tests.kubernetes_api.schemas import validator

from .pod_security import quality, violations
from .rendering import SETTINGS, rendered, settings_of

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SAME = (
    *("runtimeClassName", "nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets", "hostUsers"),
    *("hostname", "dnsPolicy", "dnsConfig", "hostNetwork", "hostPID", "hostIPC", "enableServiceLinks"),
    *("automountServiceAccountToken", "serviceAccountName", "shareProcessNamespace", "restartPolicy"),
)
"""What of a pod decides where it runs, in which network, and with whose rights."""


def made(held: dict, runtime: Runtime = Runtime.RUNC) -> dict[str, dict]:
    """The Jobs of a check."""
    probes = ProbeJobs(settings_of(**held), "0a1b2c3d", "cup", runtime)
    targets = [Target("listener-1", "tcp", "10.0.0.1", 8080)]
    return {"listener": probes.listener_job(), "probe": probes.network_job(targets), "storage": probes.storage_job()}


@pytest.mark.parametrize("held", SETTINGS)
def test_the_probe_is_where_and_what_players_are(held) -> None:
    """Same place, same network, same rights, and the labels by which policies choose pods."""
    player = rendered(**held)["spec"]["template"]
    tried = made(held)["probe"]["spec"]["template"]
    for name in SAME:
        assert tried["spec"].get(name) == player["spec"].get(name), name
    assert tried["metadata"]["labels"].keys() == player["metadata"]["labels"].keys()
    for key in ("name", "component", "managed-by", "version"):
        label = f"app.kubernetes.io/{key}"
        assert tried["metadata"]["labels"][label] == player["metadata"]["labels"][label]
    assert "volumes" not in tried["spec"] or tried["spec"]["volumes"] == []


def test_a_probe_begins_as_early_as_a_driver() -> None:
    """It has a driver's processors: where policies apply late, a later one may find a network closed that was open."""
    for cpus in (0.25, 1.0):
        [*_, driver] = rendered(driver_cpus=cpus)["spec"]["template"]["spec"]["containers"]
        [probe] = made({"driver_cpus": cpus})["probe"]["spec"]["template"]["spec"]["containers"]
        assert probe["resources"]["limits"]["cpu"] == driver["resources"]["limits"]["cpu"]


@pytest.mark.parametrize("held", SETTINGS)
@pytest.mark.parametrize("runtime", Runtime)
def test_every_probe_would_be_taken(held, runtime) -> None:
    """Schemas of three versions, Pod Security, quality of service; no queue holds it back."""
    for job in made(held, runtime).values():
        as_sent = json.loads(json.dumps(job))
        for version in versions():
            assert [e.message for e in validator(version, "batch/v1", "Job").iter_errors(as_sent)] == []
        template = job["spec"]["template"]
        assert violations(template) == []
        assert quality(template) == "Guaranteed"
        assert job["spec"]["suspend"] is False
        assert not any("kueue" in key for key in job["metadata"]["labels"])
        assert job["metadata"]["name"].endswith("-0a1b2c3d")
        assert "podFailurePolicy" not in job["spec"]
        # A hint about a volume that is not there has gVisor's shim refuse the pod.
        assert not any("gvisor" in key for key in template["metadata"]["annotations"])
    [container] = made(held)["probe"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][-2:] == ["--tell", container["terminationMessagePath"]]


def test_the_probe_of_a_round_is_no_job_of_it() -> None:
    """The label by which a controller finds its own is another for each check."""
    one, other = ProbeJobs(settings_of(), "a").storage_job(), ProbeJobs(settings_of(), "b").storage_job()
    assert one["metadata"]["labels"]["sparring/of"] != other["metadata"]["labels"]["sparring/of"]


def tried(**answers: str) -> list[TargetResult]:
    """What a probe says; names have hyphens for underscores."""
    return [
        TargetResult(name=name.replace("_", "-"), reachability=Reachability(answer)) for name, answer in answers.items()
    ]


@pytest.mark.parametrize(
    ("said", "outcome", "reached"),
    [
        (tried(listener_1="silent", api="silent", node="silent"), NetworkOutcome.BLOCKED, []),
        (tried(listener_1="connected", api="silent"), NetworkOutcome.CONNECTED, ["listener-1"]),
        (tried(listener_1="silent", api="connected", dns_1="connected"), NetworkOutcome.CONNECTED, ["api", "dns-1"]),
        (tried(listener_1="silent", node="refused"), NetworkOutcome.CONNECTED, ["node"]),
        (tried(listener_1="refused", node="refused", api="silent"), NetworkOutcome.BLOCKED, []),
        (tried(listener_1="refused", node="refused", api="connected"), NetworkOutcome.CONNECTED, ["api"]),
        (tried(listener_1="silent", listener_2="connected"), NetworkOutcome.CONNECTED, ["listener-2"]),
        (tried(api="silent"), NetworkOutcome.UNKNOWN, []),
        ([], NetworkOutcome.UNKNOWN, []),
    ],
)
def test_a_probe_is_judged_by_what_answered(said, outcome, reached) -> None:
    """Silence proves something only where the listener was tried; a refusal is an answer unless the network refuses."""
    assert judge_results(said) == (outcome, reached)


def record(outcome: NetworkOutcome = NetworkOutcome.BLOCKED, hours: float = 1, **more) -> ProbeRecord:
    """A record of some hours ago."""
    return ProbeRecord(probed_at=NOW - timedelta(hours=hours), outcome=outcome, operator="me@here", **more)


def test_a_blocked_probe_holds_for_a_day() -> None:
    """And not a minute longer."""
    assert judge_record(record(hours=0), NOW).allowed
    assert judge_record(record(hours=24), NOW).allowed
    old = judge_record(record(hours=24.1), NOW)
    assert not old.allowed
    assert "24 hours old" in old.reason


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (None, "never probed"),
        (record(NetworkOutcome.CONNECTED, reached_targets=["api", "dns-1"]), "reached api, dns-1"),
        (record(NetworkOutcome.UNKNOWN, detail="no pod"), "proved nothing: no pod"),
        (record(hours=-2), "still to come"),
    ],
)
def test_everything_else_does_not_hold(held, why) -> None:
    """With the reason, and what to run."""
    verdict = judge_record(held, NOW)
    assert not verdict.allowed
    assert why in verdict.reason
    assert "sparring cluster check" in verdict.reason or "set the clocks" in verdict.reason


def test_a_record_is_kept_and_read_again() -> None:
    """As a ConfigMap that every version takes; what is none is no record."""
    held = record(NetworkOutcome.CONNECTED, reached_targets=["api"])
    kept = probe_job.record_config_map(held, "cup")
    assert probe_job.read_record(kept) == held
    assert [e.message for v in versions() for e in validator(v, "v1", "ConfigMap").iter_errors(kept)] == []
    assert probe_job.read_record(None) is None
    assert probe_job.read_record({"data": {"probe.json": '{"outcome": "blocked"}'}}) is None
    assert probe_job.read_record({"data": None}) is None
