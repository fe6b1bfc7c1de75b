"""The table of Pod Security sees what it is there for, and the class of service is worked out as the page says."""

from copy import deepcopy
from typing import Any

import pytest

from .pod_security import BASELINE, RESTRICTED, quality, violations
from .rendering import rendered


def good() -> dict[str, Any]:
    """A pod that keeps every rule: one of ours."""
    return deepcopy(rendered()["spec"]["template"])


def first(pod: dict[str, Any]) -> dict[str, Any]:
    """Its player's container."""
    return pod["spec"]["containers"][0]


def context(pod: dict[str, Any], **held: Any) -> None:
    """Changes the player's security context."""
    first(pod)["securityContext"] |= held


CRIMES = {
    "HostProcess": lambda pod: context(pod, windowsOptions={"hostProcess": True}),
    "Host Namespaces": lambda pod: pod["spec"].update(hostPID=True),
    "Privileged Containers": lambda pod: context(pod, privileged=True),
    "Capabilities": lambda pod: context(pod, capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}),
    "HostPath Volumes": lambda pod: pod["spec"]["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
    "Host Ports": lambda pod: first(pod).update(ports=[{"containerPort": 80, "hostPort": 80}]),
    "Host Probes / Lifecycle Hooks": lambda pod: first(pod).update(
        livenessProbe={"tcpSocket": {"host": "10.0.0.1", "port": 80}}
    ),
    "AppArmor": lambda pod: context(pod, appArmorProfile={"type": "Unconfined"}),
    "SELinux": lambda pod: pod["spec"]["securityContext"].update(seLinuxOptions={"type": "spc_t"}),
    "/proc Mount Type": lambda pod: context(pod, procMount="Unmasked"),
    "Seccomp": lambda pod: context(pod, seccompProfile={"type": "Unconfined"}),
    "Sysctls": lambda pod: pod["spec"]["securityContext"].update(sysctls=[{"name": "kernel.msgmax", "value": "1"}]),
    "Volume Types": lambda pod: pod["spec"]["volumes"].append({"name": "net", "nfs": {"server": "a", "path": "/"}}),
    "Privilege Escalation": lambda pod: first(pod)["securityContext"].pop("allowPrivilegeEscalation"),
    "Running as Non-root": lambda pod: context(pod, runAsNonRoot=False),
    "Running as Non-root user": lambda pod: pod["spec"]["initContainers"][0]["securityContext"].update(runAsUser=0),
    "Seccomp (restricted)": lambda pod: (
        pod["spec"]["securityContext"].pop("seccompProfile"),
        first(pod)["securityContext"].pop("seccompProfile"),
    ),
    "Capabilities (restricted)": lambda pod: context(pod, capabilities={"drop": ["NET_RAW"]}),
}


def test_a_good_pod_breaks_nothing():
    """What the crimes below start from is let in."""
    assert violations(good()) == []


@pytest.mark.parametrize("rule", RESTRICTED, ids=lambda rule: rule.control)
def test_each_rule_sees_its_crime(rule):
    """A good pod with one field changed breaks the rule that restricts this field."""
    pod = good()
    CRIMES[rule.control](pod)
    assert list(rule.broken(pod))
    assert any(found.startswith(f"{rule.control}: ") for found in violations(pod))


def test_the_older_annotation_is_looked_at():
    """AppArmor was set by annotations before 1.30, which still count."""
    pod = good()
    pod["metadata"]["annotations"] = {"container.apparmor.security.beta.kubernetes.io/player": "unconfined"}
    assert [found.split(":")[0] for found in violations(pod)] == ["AppArmor"]


def test_a_plain_pod_is_baseline_and_not_restricted():
    """A pod that says nothing about security is let in by baseline; by restricted four controls keep it out."""
    pod = {"spec": {"containers": [{"name": "a", "image": "b"}]}}
    assert violations(pod, BASELINE) == []
    controls = ["Privilege Escalation", "Running as Non-root", "Seccomp (restricted)", "Capabilities (restricted)"]
    assert [found.split(":")[0] for found in violations(pod)] == controls


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1000m", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0.5"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "0", "memory": "1Gi"}}, "Burstable"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}}, "Burstable"),
        ({"limits": {"ephemeral-storage": "1Gi"}}, "BestEffort"),
    ],
)
def test_the_class_of_service(resources, expected):
    """Pod Quality of Service Classes, "Criteria": by processor and memory of every container."""
    pod = good()
    assert quality(pod) == "Guaranteed"
    assert quality({"spec": {"containers": [{"name": "a", "resources": resources}]}}) == expected
    first(pod)["resources"] = {"requests": {"cpu": "1"}}
    assert quality(pod) == "Burstable"
