"""What a test may break, and what the cluster says then.

Kubernetes documentation: API Priority and Fairness; API conventions, "HTTP Status codes"; "Success and Error codes"
with `Retry-After`.
"""

import http.client

import pytest
from kubernetes.client import ApiException

from .conftest import JOBS, MAPS, make_job, make_map


def test_too_many_requests_says_when_to_come_again(cluster, http_) -> None:
    """429 with Retry-After, in the header and in the details; it is used up after so many times."""
    cluster.faults.retry_after = 7
    cluster.faults.next(429, verb="create", resource="configmaps", times=2)
    answers = [http_("POST", MAPS, make_map("a")) for _ in range(3)]
    assert [each.code for each in answers] == [429, 429, 201]
    assert answers[0].headers["retry-after"] == "7"
    assert answers[0].json["reason"] == "TooManyRequests"
    assert answers[0].json["details"]["retryAfterSeconds"] == 7


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (409, "Conflict"),
        (410, "Expired"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
    ],
)
def test_any_answer_can_be_an_error(cluster, http_, code, reason) -> None:
    """Each with the reason that clients look at."""
    cluster.faults.next(code)
    answer = http_("GET", MAPS)
    assert (answer.code, answer.json["reason"], answer.json["status"]) == (code, reason, "Failure")
    assert http_("GET", MAPS).code == 200


def test_a_fault_meets_only_those_it_is_meant_for(cluster, http_) -> None:
    """By verb, resource with its subresource, and name."""
    cluster.faults.next(500, verb="get", resource="configmaps", name="b")
    for name in "ab":
        http_("POST", MAPS, make_map(name))
    assert http_("GET", f"{MAPS}/a").code == 200
    assert http_("GET", MAPS).code == 200
    assert http_("GET", f"{MAPS}/b").code == 500
    http_("POST", JOBS, make_job("j", suspend=True))
    cluster.faults.next(503, resource="jobs/status")
    assert http_("GET", f"{JOBS}/j").code == 200
    assert http_("GET", f"{JOBS}/j/status").code == 503
    assert cluster.faults.seen == [(500, "get", "configmaps"), (503, "get", "jobs/status")]


def test_an_answer_may_be_lost_after_the_deed(cluster, http_) -> None:
    """500 although the object was created: the second try is AlreadyExists, as with a real time-out."""
    cluster.faults.next(500, verb="create", when="after")
    assert http_("POST", MAPS, make_map("a")).code == 500
    assert http_("GET", f"{MAPS}/a").code == 200
    assert http_("POST", MAPS, make_map("a")).json["reason"] == "AlreadyExists"


@pytest.mark.parametrize("after", [False, True])
def test_a_connection_may_end_without_an_answer(cluster, http_, after) -> None:
    """Before the deed or after it."""
    cluster.faults.disconnect(verb="create", after=after)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        http_("POST", MAPS, make_map("a"))
    assert http_("GET", f"{MAPS}/a").code == (200 if after else 404)


def test_the_official_client_gets_the_status(cluster, batch) -> None:
    """ApiException with code and body."""
    cluster.faults.next(503, verb="list", resource="jobs")
    with pytest.raises(ApiException) as failed:
        batch.list_namespaced_job(namespace="default")
    assert failed.value.status == 503
    assert '"reason": "ServiceUnavailable"' in failed.value.body


def test_every_call_is_counted(cluster, http_) -> None:
    """By verb and resource: what a controller costs a server can be measured."""
    http_("POST", MAPS, make_map("a"))
    http_("GET", f"{MAPS}/a")
    http_("GET", f"{MAPS}/a")
    assert cluster.api.calls == {("create", "configmaps"): 1, ("get", "configmaps"): 2}
