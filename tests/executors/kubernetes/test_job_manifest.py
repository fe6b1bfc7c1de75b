"""A Job that any of the last three versions takes, that the cluster never repeats, and that outlasts its attempt."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from orchestrator.domain.plan import Stage
from orchestrator.domain.tasks import Limits
from orchestrator.executors.kubernetes.job_manifest import active_deadline
from orchestrator.executors.kubernetes.labels import RoundRef
from tests.kubernetes_api import Cluster, Fakes, Node, eventually, versions
from tests.kubernetes_api.schemas import validator
from tests.kubernetes_api.tests.conftest import Http

from .pod_security import quality, violations
from .rendering import COMMANDS, NAMES, POLICIES, SETTINGS, attempt, image, joined, rendered

MINORS = versions()
_numbers = itertools.count()
KUEUE = Draft202012Validator(
    {
        "type": "object",
        "properties": {
            "metadata": {
                "properties": {
                    "labels": {
                        "required": ["kueue.x-k8s.io/queue-name"],
                        "properties": {
                            "kueue.x-k8s.io/queue-name": {"pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
                        },
                    }
                }
            },
            "spec": {
                "required": ["suspend"],
                "properties": {
                    "suspend": {"const": True},
                    "template": {
                        "properties": {
                            "spec": {
                                "properties": {
                                    "containers": {
                                        "items": {
                                            "properties": {
                                                "resources": {"required": ["requests"]},
                                            },
                                            "required": ["resources"],
                                        }
                                    }
                                }
                            }
                        }
                    },
                },
            },
        },
    }
)
"""What Kueue wants of a Job: the label on the Job itself, suspended at creation, requests in every container.

Source: https://kueue.sigs.k8s.io/docs/tasks/run/jobs/ ("Define the Job"), and for the label's value, the name of a
LocalQueue, https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/.
"""


def complaints(made: dict[str, Any]) -> list[str]:
    """Returns what the schemas of the last three minor versions say against an object, unknown fields included."""
    as_sent = json.loads(json.dumps(made))
    kind = made["apiVersion"], made["kind"]
    found = ((minor, validator(minor, *kind).iter_errors(as_sent)) for minor in MINORS)
    return [f"{minor}: {error.json_path}: {error.message}" for minor, errors in found for error in errors]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """A cluster that takes Jobs and has nowhere to run them."""
    with Cluster(Fakes(), ()) as made:
        ask = Http(made.url)
        for name in ("sparring", "cup"):
            assert ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).code == 201
        yield made


def create(ask: Http, made: dict[str, Any], *, dry: bool = False) -> Any:
    """Creates a Job as the controller does."""
    more = {"dryRun": "All"} if dry else {}
    path = f"/apis/batch/v1/namespaces/{made['metadata']['namespace']}/jobs"
    return ask("POST", path, made, fieldValidation="Strict", **more)


@pytest.mark.parametrize(("held", "policy", "stage"), list(itertools.product(SETTINGS, POLICIES, Stage)))
def test_every_job_is_taken(cluster, held, policy, stage):
    """Schemas of three minor versions and the server's own rules, under any settings, policy and stage."""
    made = rendered(policy=policy, asked=attempt(stage), **held)
    assert complaints(made) == []
    answer = create(Http(cluster.url), made)
    assert answer.code in {201, 409}, answer.text
    assert answer.code == 201 or answer.json["reason"] == "AlreadyExists"


@pytest.mark.parametrize(("held", "policy"), list(itertools.product(SETTINGS, POLICIES)))
def test_a_job_of_two_players_is_taken(cluster, held, policy):
    """The same with the attack that queries; either player's exit and the driver's end the Job, and are told apart."""
    made = joined(policy, **held)
    assert complaints(made) == []
    made["metadata"]["name"] += f"-{next(_numbers)}"
    assert create(Http(cluster.url), made).code == 201
    rules = [each["onExitCodes"] for each in made["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in each]
    assert [each["containerName"] for each in rules] == ["player", "attack", "driver"]


def test_the_schemas_see_a_wrong_field():
    """A misspelt field and a number that is text are complained of in every version."""
    made = rendered()
    made["spec"]["template"]["spec"]["hostNam"] = "sandbox"
    assert len(complaints(made)) == 3
    made = rendered()
    made["spec"]["backoffLimit"] = "0"
    assert len(complaints(made)) == 3


@pytest.mark.slow
@settings(max_examples=50)
@given(NAMES, NAMES, NAMES, COMMANDS, st.sampled_from(SETTINGS), st.sampled_from(Stage), st.integers(1, 10**9))
def test_no_text_breaks_a_job(cluster, contest, submission, around, command, held, stage, number):
    """Names and words of any kind: the object fits the schemas, is taken, and stays restricted and Guaranteed."""
    bout = RoundRef(contest, around, around, "sha256:" + "c" * 64)
    asked = attempt(stage, submission, number, bout)
    made = rendered(image(*command), asked=asked, **held)
    assert complaints(made) == []
    assert violations(made["spec"]["template"]) == []
    assert quality(made["spec"]["template"]) == "Guaranteed"
    answer = create(Http(cluster.url), made)
    assert answer.code == 201 or answer.json["reason"] == "AlreadyExists", answer.text


def test_the_cluster_never_tries_again():
    """One pod, no second; evictions and exits other than 0 end the Job at once, each by a rule of its own."""
    spec = rendered()["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (1, 1, 0)
    assert spec["podReplacementPolicy"] == "Failed"
    first, *exits = spec["podFailurePolicy"]["rules"]
    assert first["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    codes = [rule["onExitCodes"] for rule in exits]
    assert [(each["containerName"], each["operator"], each["values"]) for each in codes] == [
        ("player", "NotIn", [0]),
        ("driver", "NotIn", [0]),
    ]
    assert {rule["action"] for rule in spec["podFailurePolicy"]["rules"]} == {"FailJob"}
    assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (7200, 86_400)


def test_a_queue_is_a_label_and_a_suspended_job():
    """With `queue` Kueue decides when it starts; without, nothing of Kueue is there."""
    made = rendered(queue="players")
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "players"
    assert not list(KUEUE.iter_errors(made))
    plain = rendered()
    assert plain["spec"]["suspend"] is False
    assert "kueue" not in json.dumps(plain)
    assert list(KUEUE.iter_errors(plain))


def test_job_and_pod_are_found_by_the_same_labels():
    """The pod has every label of its Job but the queue's, its annotations, and that no autoscaler moves it."""
    made = rendered(queue="players")
    pod = made["spec"]["template"]["metadata"]
    assert made["metadata"]["labels"] == pod["labels"] | {"kueue.x-k8s.io/queue-name": "players"}
    assert pod["annotations"] == made["metadata"]["annotations"] | {"karpenter.sh/do-not-disrupt": "true"}
    assert pod["labels"]["sparring/of"] == "c" * 16
    assert made["metadata"]["name"] == attempt().name


def test_the_same_attempt_is_the_same_object():
    """A controller that starts again asks for what is there; another attempt has another name, user and folder."""
    assert rendered() == rendered()
    first, second = rendered(), rendered(asked=attempt(number=2))
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert first["spec"]["template"]["spec"] != second["spec"]["template"]["spec"]


@pytest.mark.parametrize(("codes", "expected"), [((0, 0), "Complete"), ((1, 0), "Failed"), ((0, 3), "Failed")])
def test_the_job_runs_to_its_end(codes, expected):
    """On a cluster with a GPU, a claim and a runtime: its containers start, and their exits end it as they must."""
    hook = Fakes()
    with Cluster(hook, (Node(gpus=1),)) as cluster:
        ask = Http(cluster.url)
        ask("POST", "/api/v1/namespaces", {"metadata": {"name": "sparring"}})
        claim = {
            "metadata": {"name": "sparring-work"},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        assert ask("POST", "/api/v1/namespaces/sparring/persistentvolumeclaims", claim).code == 201
        runtime = {"metadata": {"name": "gvisor"}, "handler": "runsc"}
        assert ask("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime).code == 201
        made = rendered(policy=POLICIES[1])
        for each, code in zip(made["spec"]["template"]["spec"]["containers"], codes, strict=True):
            each["env"].append({"name": "EXIT", "value": str(code)})
        made["spec"]["template"]["spec"]["initContainers"][0]["env"] = [{"name": "EXIT", "value": "0"}]
        assert create(ask, made).code == 201
        place = f"/apis/batch/v1/namespaces/sparring/jobs/{made['metadata']['name']}"

        def ended() -> set[str]:
            conditions = ask("GET", place).json.get("status", {}).get("conditions") or []
            return {each["type"] for each in conditions if each["status"] == "True"} & {"Complete", "Failed"}

        eventually(ended)
        assert ended() == {expected}


@given(
    st.sampled_from(Stage),
    st.integers(1, 50),
    st.integers(1, 10_000),
    st.builds(
        Limits,
        ready_seconds=st.floats(0.1, 1e4),
        perturb_seconds=st.floats(0.1, 1e5),
        classify_seconds=st.floats(0.1, 1e3),
        perturb_batch=st.integers(1, 4096),
        classify_batch=st.integers(1, 4096),
    ),
    st.floats(1, 1e5),
)
def test_the_backstop_is_past_all_that_may_be(stage, cells, pictures, limits, pending):
    """Waiting, getting ready and every question at its limit take less; it is a number that the API takes."""
    played = attempt(stage, cells=cells).job
    found = active_deadline(played, limits, pictures, pending)
    asking = limits.perturb_limit(pictures)
    if played.cells:
        asking = limits.classify_seconds * pictures * cells / limits.classify_batch
    assert isinstance(found, int)
    assert min(pending + limits.ready_seconds + asking, 2**31 - 3601) + 3600 <= found < 2**31


def test_the_backstop_of_two_players_is_past_what_both_may_take():
    """Each query may be a question of its own, whose reply waits; the attack's own time and start come on top."""
    limits = Limits(
        ready_seconds=100, perturb_seconds=1000, classify_seconds=7, perturb_batch=4, classify_batch=64, restarts=0
    )
    queried = attempt(Stage.QUERY).job
    found = active_deadline(queried, limits, 10_000, 50.0, 10, 0.5)
    assert found == 50 + 2 * 100 + 10_000 * 7.5 + 3 * 1000 + 3600
    assert active_deadline(queried, limits, 10_000, 50.0) == 50 + 100 + 157 * 7 + 3600


def test_a_backstop_without_measure_is_still_a_number():
    """Limits of any size give at most what fits: 68 years."""
    limits = Limits(ready_seconds=1e308, perturb_seconds=1e308)
    assert active_deadline(attempt(Stage.PERTURB).job, limits, 10**6, 1e308) == 2**31 - 1
