"""The admission policies of k8s/components let in what this software makes, and refuse what breaks one of their rules.

Kubernetes documentation: Validating Admission Policy. Their expressions are evaluated by another implementation of CEL
than the API server's, which knows no types: what the server's compiler would refuse is not seen here.
"""

import json

import pytest

from orchestrator.executors.kubernetes.probe_job import ProbeJobs
from orchestrator.executors.kubernetes.settings import ClusterSettings

from .overlays import FOLDER, Object, documents, refusals
from .rendering import joined, rendered

PODS_POLICY, DOORS_POLICY = "components/admission/pods.yaml", "components/admission/doors.yaml"


@pytest.fixture
def admitted() -> Object:
    """The policy for pods."""
    return documents((FOLDER / PODS_POLICY).read_text("utf-8"))[0]


@pytest.mark.slow
def test_the_admission_policy_lets_in_what_we_make(admitted) -> None:
    """Pods of matches, of every probe, and the controller's."""
    settings = ClusterSettings()
    probes = ProbeJobs(settings, "t")
    made = [
        rendered(),
        rendered(queue="q"),
        joined(),
        probes.listener_job(),
        probes.network_job([]),
        probes.storage_job(),
    ]
    for each in made:
        assert refusals(admitted, each["spec"]["template"]) == []
    [controller] = documents((FOLDER / "base" / "controller.yaml").read_text("utf-8"))
    assert refusals(admitted, controller["spec"]["template"]) == []


SPOILT = {
    "debugs": lambda spec: spec.update(ephemeralContainers=[{"name": "d", "image": "i", "securityContext": {}}]),
    "root file system": lambda spec: spec["containers"][0]["securityContext"].pop("readOnlyRootFilesystem"),
    "limits": lambda spec: spec["initContainers"][0]["resources"]["limits"].pop("memory"),
    "token": lambda spec: spec.pop("automountServiceAccountToken"),
    "secrets": lambda spec: spec["volumes"].append({"name": "s", "secret": {"secretName": "sparring-registry"}}),
    "second time": lambda spec: spec.update(restartPolicy="OnFailure"),
    "digest": lambda spec: spec["containers"][0].update(image="registry.example/team/entry:1"),
    "mounts memory": lambda spec: spec["containers"][0]["volumeMounts"].append({"name": "work", "mountPath": "/w"}),
    "read-only": lambda spec: spec["containers"][0]["volumeMounts"][0].pop("readOnly"),
    "last words": lambda spec: spec["containers"][0].pop("terminationMessagePath"),
    "bounded": lambda spec: spec["volumes"][1]["emptyDir"].pop("sizeLimit"),
    "two users": lambda spec: spec["containers"][1]["securityContext"].update(
        runAsUser=spec["containers"][0]["securityContext"]["runAsUser"]
    ),
    "no process": lambda spec: spec.update(shareProcessNamespace=True),
}
"""What the policy's messages speak of -> how a match's pod is made to break it."""
OF_THE_ATTACK = {
    "digest": lambda spec: spec["containers"][1].update(image="registry.example/team/entry:1"),
    "mounts memory": lambda spec: spec["containers"][1]["volumeMounts"].append({"name": "tmp", "mountPath": "/other"}),
    "read-only": lambda spec: spec["containers"][1]["volumeMounts"][0].pop("readOnly"),
    "last words": lambda spec: spec["containers"][1].pop("terminationMessagePath"),
    "bounded": lambda spec: spec["volumes"][5]["emptyDir"].pop("sizeLimit"),
}
"""The same for what the second player of a query job's pod has."""


@pytest.mark.parametrize(
    ("what", "spoil"),
    [
        *(pytest.param(what, spoil, id=f"player: {what}") for what, spoil in SPOILT.items()),
        *(pytest.param(what, spoil, id=f"attack: {what}") for what, spoil in OF_THE_ATTACK.items()),
    ],
)
def test_the_admission_policy_refuses(admitted, what, spoil) -> None:
    """Each rule refuses a pod that breaks it, and no other rule does."""
    template = json.loads(json.dumps(joined()["spec"]["template"]))
    spoil(template["spec"])
    [message] = refusals(admitted, template)
    assert what in message


def test_a_pod_that_breaks_a_rule_may_be_let_go(admitted) -> None:
    """The Job controller takes its finalizer off, or a pod that is older than the policy could never be removed."""
    before = json.loads(json.dumps(joined()["spec"]["template"]))
    SPOILT["digest"](before["spec"])
    after = json.loads(json.dumps(before))
    before["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    assert refusals(admitted, after, before) == []
    SPOILT["debugs"](after["spec"])
    assert len(refusals(admitted, after, before)) > 1


def test_every_rule_of_the_admission_policy_is_broken_above(admitted) -> None:
    """No message but is spoken of."""
    messages = [each["message"] for each in admitted["spec"]["validations"]]
    assert [message for message in messages if not any(what in message for what in SPOILT)] == []


def test_nobody_enters_a_pod_of_a_match() -> None:
    """exec, attach, port-forward: into the controller's pod and no other, for whoever it is."""
    [policy, binding] = documents((FOLDER / DOORS_POLICY).read_text("utf-8"))
    name = rendered()["metadata"]["name"]
    assert refusals(policy, {}, name=f"{name}-x7k2p") != []
    assert refusals(policy, {}, name="sparring-controller-6d4cf56db6-x7k2p") == []
    [rule] = policy["spec"]["matchConstraints"]["resourceRules"]
    assert {"pods/exec", "pods/attach", "pods/portforward"} <= set(rule["resources"])
    assert rule["operations"] == ["CONNECT"]
    assert binding["spec"]["validationActions"] == ["Deny"]
