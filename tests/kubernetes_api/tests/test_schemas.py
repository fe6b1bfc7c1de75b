"""What the test cluster refuses: by the schemas of three minor versions, and by rules that no schema holds.

Kubernetes documentation: API concepts, "Field validation"; API conventions, "Validation"; Jobs; Labels and Selectors.
"""

import pytest

from tests.kubernetes_api import Cluster, Fakes, Settings, versions

from .conftest import JOBS, MAPS, Http, container, make_job, make_map, pod_spec


def causes(answer) -> dict[str, str]:
    """The fields that a 422 complains of, with the kinds of their faults."""
    assert (answer.code, answer.json["reason"]) == (422, "Invalid"), answer.text
    return {each["field"]: each["reason"] for each in answer.json["details"]["causes"]}


@pytest.mark.parametrize("version", versions())
def test_three_minor_versions_are_known(version) -> None:
    """Each of the last three has its own schemas, takes a Job, and refuses what is no Job."""
    with Cluster(Fakes(), settings=Settings(version=version)) as cluster:
        ask = Http(cluster.url)
        assert ask("GET", "/version").json["gitVersion"] == f"v{version}"
        assert ask("POST", JOBS, make_job("a")).code == 201
        assert ask("POST", JOBS, make_job("b", bogus=1)).code == 400
    assert len(set(versions())) == 3


def test_a_wrong_type_cannot_be_read(http_) -> None:
    """400 BadRequest: the body is not a Job at all."""
    answer = http_("POST", JOBS, make_job("a", backoffLimit="none"))
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")
    assert 'Job in version "v1" cannot be handled as a Job' in answer.json["message"]
    assert "spec.backoffLimit" in answer.json["message"]


def test_a_missing_field_and_an_unknown_value_have_their_causes(http_) -> None:
    """422 Invalid, one cause per field."""
    nameless = make_job("a")
    del nameless["spec"]["template"]["spec"]["containers"][0]["name"]
    assert causes(http_("POST", JOBS, nameless)) == {"spec.template.spec.containers[0].name": "FieldValueRequired"}
    no_template = make_job("a")
    del no_template["spec"]["template"]
    assert causes(http_("POST", JOBS, no_template)) == {"spec.template": "FieldValueRequired"}


def test_unknown_fields_are_refused_dropped_or_warned_of(http_) -> None:
    """`fieldValidation` decides; Warn and Ignore store the object without the field."""
    strict = http_("POST", JOBS, make_job("a", bogus=1), fieldValidation="Strict")
    assert strict.code == 400
    assert strict.json["message"].endswith('strict decoding error: unknown field "spec.bogus"')
    warned = http_("POST", JOBS, make_job("a", bogus=1), fieldValidation="Warn")
    assert warned.code == 201
    assert warned.headers["warning"] == '299 - "unknown field \\"spec.bogus\\""'
    assert "bogus" not in warned.json["spec"]
    ignored = http_("POST", JOBS, make_job("b", bogus=1), fieldValidation="Ignore")
    assert ignored.code == 201
    assert "warning" not in ignored.headers


def test_a_request_that_says_nothing_is_treated_as_the_settings_say() -> None:
    """`Warn` is what a real server does."""
    with Cluster(Fakes(), settings=Settings(unknown="Warn")) as cluster:
        assert Http(cluster.url)("POST", JOBS, make_job("a", bogus=1)).code == 201


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a.", "x" * 254])
def test_a_name_that_is_no_subdomain_is_refused(http_, name) -> None:
    """Object Names and IDs, "DNS Subdomain Names"."""
    assert causes(http_("POST", MAPS, make_map(name))) == {"metadata.name": "FieldValueInvalid"}


def test_an_object_needs_a_name(http_) -> None:
    """Neither name nor generateName: 422."""
    assert causes(http_("POST", MAPS, {"metadata": {}})) == {"metadata.name": "FieldValueRequired"}


@pytest.mark.parametrize(("key", "value"), [("a b", "x"), ("/x", "x"), ("a", "-"), ("a", "x" * 64)])
def test_a_label_that_is_none_is_refused(http_, key, value) -> None:
    """Labels and Selectors, "Syntax and character set"."""
    assert causes(http_("POST", MAPS, make_map("a", {key: value}))) == {"metadata.labels": "FieldValueInvalid"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"backoffLimit": -1}, "spec.backoffLimit"),
        ({"activeDeadlineSeconds": -1}, "spec.activeDeadlineSeconds"),
        ({"template": {"spec": pod_spec(restartPolicy="Always")}}, "spec.template.spec.restartPolicy"),
        ({"template": {"spec": {"containers": [container()]}}}, "spec.template.spec.restartPolicy"),
        ({"completionMode": "Indexed", "completions": 1}, "spec.completionMode"),
        ({"template": {"spec": pod_spec(container("a"), container("a"))}}, "spec.template.spec.containers[1].name"),
        ({"template": {"spec": pod_spec({"name": "a"})}}, "spec.template.spec.containers[0].image"),
        (
            {"template": {"spec": pod_spec(container(volumeMounts=[{"name": "v", "mountPath": "/v"}]))}},
            "spec.template.spec.containers[0].volumeMounts[0].name",
        ),
        (
            {"template": {"spec": pod_spec(container(resources={"requests": {"cpu": 2}, "limits": {"cpu": 1}}))}},
            "spec.template.spec.containers[0].resources.requests",
        ),
        (
            {"template": {"spec": pod_spec(container(resources={"limits": {"memory": "much"}}))}},
            "spec.template.spec.containers[0].resources.limits",
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "FailJob"}]}},
            "spec.podFailurePolicy.rules[0]",
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]}},
            "spec.podFailurePolicy.rules[0].onExitCodes.values",
        ),
        (
            {
                "podFailurePolicy": {
                    "rules": [
                        {"action": "Count", "onExitCodes": {"containerName": "no", "operator": "In", "values": [1]}}
                    ]
                }
            },
            "spec.podFailurePolicy.rules[0].onExitCodes.containerName",
        ),
        (
            {
                "podReplacementPolicy": "TerminatingOrFailed",
                "podFailurePolicy": {
                    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
                },
            },
            "spec.podReplacementPolicy",
        ),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(http_, spec, field) -> None:
    """Jobs: the rules that the schema does not hold, each at its field."""
    assert list(causes(http_("POST", JOBS, make_job("a", **spec)))) == [field]


def test_a_jobs_name_must_fit_into_a_label(http_) -> None:
    """Its pods carry it: 63 characters, although a name may have 253."""
    assert http_("POST", JOBS, make_job("j" * 63)).code == 201
    refused = causes(http_("POST", JOBS, make_job("j" * 64)))
    assert refused == {"spec.template.labels": "FieldValueInvalid"}


@pytest.mark.parametrize(
    ("time", "code"),
    [
        ("2026-01-01T00:00:00.000001Z", 201),
        ("2026-01-01T00:00:00.000000+00:00", 201),
        ("2026-01-01T00:00:00Z", 400),
        ("now", 400),
    ],
)
def test_a_lease_tells_time_in_microseconds(http_, time, code) -> None:
    """A MicroTime has exactly six digits after the second, also when they are zeros; anything else cannot be read."""
    body = {"metadata": {"name": "lock"}, "spec": {"holderIdentity": "a", "renewTime": time}}
    answer = http_("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", body)
    assert answer.code == code, answer.text


def test_a_selector_of_its_own_must_fit_the_template(http_) -> None:
    """Jobs, "Specifying your own Pod selector": without `manualSelector` the server generates it."""
    made = http_("POST", JOBS, make_job("a", suspend=True)).json
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    assert made["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "a"
    wrong = make_job("b", manualSelector=True, selector={"matchLabels": {"a": "b"}})
    assert list(causes(http_("POST", JOBS, wrong))) == ["spec.template.metadata.labels"]


def test_a_jobs_template_is_immutable(http_) -> None:
    """But a suspended Job that never ran may be steered to nodes ("Mutable Scheduling Directives"): Kueue does."""
    http_("POST", JOBS, make_job("a", container(code=None), suspend=True))
    merge = "application/merge-patch+json"
    steered = {"spec": {"template": {"spec": {"nodeSelector": {"gpu": "a100"}}}}}
    assert http_("PATCH", f"{JOBS}/a", steered, media=merge).code == 200
    altered = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}
    assert list(causes(http_("PATCH", f"{JOBS}/a", altered, media=merge))) == ["spec.template"]
    http_("POST", JOBS, make_job("b", container(code=None)))
    assert list(causes(http_("PATCH", f"{JOBS}/b", steered, media=merge))) == ["spec.template"]
    assert causes(http_("PATCH", f"{JOBS}/b", {"spec": {"completions": 2}}, media=merge))


def test_a_pods_specification_is_immutable(http_) -> None:
    """But for images, the deadline and further tolerations (Pods, "Pod update and replacement")."""
    pods = "/api/v1/namespaces/default/pods"
    http_("POST", pods, {"metadata": {"name": "p"}, "spec": pod_spec(nodeSelector={"no": "node"})})
    merge = "application/merge-patch+json"
    assert http_("PATCH", f"{pods}/p", {"spec": {"activeDeadlineSeconds": 5}}, media=merge).code == 200
    refused = http_("PATCH", f"{pods}/p", {"spec": {"nodeName": "node-1"}}, media=merge)
    assert causes(refused) == {"spec": "FieldValueForbidden"}


def test_what_is_not_simulated_is_refused(http_) -> None:
    """A pod whose containers would be restarted, and a sidecar, cannot pass for something that works."""
    pods = "/api/v1/namespaces/default/pods"
    always = {"metadata": {"name": "p"}, "spec": {"containers": [container()]}}
    assert causes(http_("POST", pods, always)) == {"spec.restartPolicy": "FieldValueInvalid"}
    sidecar = pod_spec(initContainers=[container("s", restartPolicy="Always")])
    refused = http_("POST", pods, {"metadata": {"name": "p"}, "spec": sidecar})
    assert causes(refused) == {"spec.initContainers[0].restartPolicy": "FieldValueInvalid"}


def test_a_custom_resource_is_stored_as_it_is(cluster, http_) -> None:
    """Without a schema nothing is checked but the name; it can be listed and watched like all others."""
    from tests.kubernetes_api import Resource  # noqa: PLC0415  only here

    cluster.serve(Resource("kueue.x-k8s.io", "v1beta1", "localqueues", "LocalQueue"))
    queues = "/apis/kueue.x-k8s.io/v1beta1/namespaces/default/localqueues"
    assert http_("POST", queues, {"metadata": {"name": "q"}, "spec": {"clusterQueue": "all"}}).code == 201
    assert http_("GET", queues).json["items"][0]["spec"] == {"clusterQueue": "all"}
