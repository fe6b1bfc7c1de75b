"""The test cluster's Job controller.

Kubernetes documentation: Jobs ("Job termination and cleanup", "Pod failure policy", "Suspending a Job", "Pod
replacement policy", "Terminal Job conditions", "Tracking of Jobs with finalizers"); Automatic Cleanup for Finished
Jobs.
"""

import pytest

from tests.kubernetes_api import eventually

from .conftest import JOBS, PODS, Http, conditions, container, events_about, make_job

IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


def done(cluster, name: str = "a") -> dict[str, str]:
    """Waits until a Job has ended; returns its true conditions with their reasons."""
    eventually(lambda: {"Complete", "Failed"} & set(conditions(cluster.read("jobs", name, group="batch"))), name)
    cluster.settle()
    return conditions(cluster.read("jobs", name, group="batch"))


def job(cluster, name: str = "a") -> dict:
    """A Job as it is now."""
    return cluster.read("jobs", name, group="batch")


def running(cluster, name: str = "a") -> dict:
    """Waits for the running pod of a Job, and returns it."""

    def found() -> list:
        return [
            each
            for each in cluster.pods_of(name)
            if each["status"].get("phase") == "Running" and not each["metadata"].get("deletionTimestamp")
        ]

    return eventually(found, f"a running pod of {name}")[0]


def test_a_job_makes_one_pod_that_is_its_own(cluster, http_) -> None:
    """Name, labels, owner and finalizer of the pod are those that the documentation promises."""
    made = http_("POST", JOBS, make_job("a", container(code=None))).json
    pod = running(cluster)
    held = pod["metadata"]
    assert held["name"].startswith("a-")
    assert held["labels"]["job-name"] == held["labels"]["batch.kubernetes.io/job-name"] == "a"
    assert held["labels"]["batch.kubernetes.io/controller-uid"] == made["metadata"]["uid"]
    [owner] = held["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", made["metadata"]["uid"], True)
    assert held["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    cluster.settle()
    assert (job(cluster)["status"]["active"], job(cluster)["status"]["ready"]) == (1, 1)
    assert events_about(cluster, "a") == [("SuccessfulCreate", f"Created pod: {held['name']}")]


def test_a_job_whose_pod_succeeds_is_complete(cluster, batch) -> None:
    """SuccessCriteriaMet, then Complete; counted once; times set; the pod is let go and kept."""
    batch.create_namespaced_job(namespace="default", body=make_job("a"))
    assert done(cluster) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}
    status = batch.read_namespaced_job(name="a", namespace="default").status
    assert (status.succeeded, status.failed, status.active, status.ready, status.terminating) == (1, None, None, 0, 0)
    assert status.completion_time >= status.start_time
    [pod] = cluster.pods_of("a")
    assert pod["metadata"].get("finalizers") == []
    assert events_about(cluster, "a")[-1] == ("Completed", "Job completed")


def test_a_job_whose_pod_fails_is_failed(cluster, http_) -> None:
    """With backoffLimit 0 one failure is enough; FailureTarget, then Failed, with one reason."""
    http_("POST", JOBS, make_job("a", container(code=3)))
    assert done(cluster) == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    assert job(cluster)["status"]["failed"] == 1
    assert "completionTime" not in job(cluster)["status"]
    assert events_about(cluster, "a")[-1] == ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    assert len(cluster.pods_of("a")) == 1


def test_a_backoff_limit_allows_further_pods(cluster, http_) -> None:
    """With a limit of 2 three pods fail before the Job does."""
    http_("POST", JOBS, make_job("a", container(code=1), backoffLimit=2))
    assert done(cluster)["Failed"] == "BackoffLimitExceeded"
    assert len(cluster.pods_of("a")) == 3
    assert job(cluster)["status"]["failed"] == 3


def test_a_failed_pod_is_replaced_after_a_while(timed, clock) -> None:
    """10 s after the first failure, 20 s after the second ("exponential back-off delay (10s, 20s, 40s ...)")."""
    Http(timed.url)("POST", JOBS, make_job("a", container(code=1), backoffLimit=5))
    eventually(lambda: job(timed)["status"].get("failed") == 1)
    for seconds, count in ((9, 1), (1.5, 2), (18, 2), (3, 3)):
        timed.settle()
        clock.advance(seconds)
        eventually(lambda count=count: len(timed.pods_of("a")) == count)
        timed.settle()
        assert len(timed.pods_of("a")) == count


def test_several_completions_run_side_by_side(cluster, http_) -> None:
    """As many pods at a time as `parallelism` says, until `completions` have succeeded."""
    http_("POST", JOBS, make_job("a", container(code=None), completions=3, parallelism=2))
    for left in (3, 2, 1):
        eventually(lambda left=left: job(cluster)["status"].get("active") == min(2, left))
        pod = running(cluster)
        cluster.kubelets._hook.running[pod["metadata"]["name"], "main"].end(0)
        eventually(lambda left=left: job(cluster)["status"].get("succeeded") == 4 - left)
    assert done(cluster)["Complete"]


@pytest.mark.parametrize(
    ("rule", "fails"),
    [
        ({"onExitCodes": {"operator": "In", "values": [3, 4]}}, True),
        ({"onExitCodes": {"operator": "In", "values": [4]}}, False),
        ({"onExitCodes": {"operator": "NotIn", "values": [4]}}, True),
        ({"onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}}, True),
        ({"onExitCodes": {"containerName": "other", "operator": "In", "values": [3]}}, False),
    ],
)
def test_a_failure_policy_looks_at_exit_codes(cluster, http_, rule, fails) -> None:
    """FailJob gives the reason PodFailurePolicy with the rule's number; what no rule matches counts as usual."""
    policy = {"rules": [{"action": "FailJob"} | rule]}
    http_("POST", JOBS, make_job("a", container(code=3), container("other", code=0), podFailurePolicy=policy))
    reason = "PodFailurePolicy" if fails else "BackoffLimitExceeded"
    assert done(cluster) == {"FailureTarget": reason, "Failed": reason}
    if fails:
        [pod] = cluster.pods_of("a")
        message = next(each["message"] for each in job(cluster)["status"]["conditions"] if each["type"] == "Failed")
        name = pod["metadata"]["name"]
        expected = f"Container main for pod default/{name} failed with exit code 3 matching FailJob rule at index 0"
        assert message == expected


def test_rules_are_tried_in_their_order(cluster, http_) -> None:
    """The first that matches decides: Count before FailJob leaves the backoff limit to decide."""
    codes = {"onExitCodes": {"operator": "In", "values": [3]}}
    policy = {"rules": [{"action": "Count"} | codes, {"action": "FailJob"} | codes]}
    http_("POST", JOBS, make_job("a", container(code=3), podFailurePolicy=policy))
    assert done(cluster)["Failed"] == "BackoffLimitExceeded"


def test_an_ignored_disruption_gets_another_pod(cluster, http_) -> None:
    """Ignore does not count, even with backoffLimit 0: the same Job makes a new pod once the old one has ended."""
    http_("POST", JOBS, make_job("a", container(code=None), podFailurePolicy={"rules": [IGNORE]}))
    first = running(cluster)["metadata"]["name"]
    assert http_("POST", f"{PODS}/{first}/eviction", {"metadata": {"name": first}}).code == 201
    eventually(lambda: [each["metadata"]["name"] for each in cluster.pods_of("a")] not in ([], [first]))
    second = running(cluster)["metadata"]["name"]
    assert second != first
    assert job(cluster)["status"].get("failed") is None
    assert not conditions(job(cluster))


def test_a_disruption_may_fail_the_job(cluster, http_) -> None:
    """FailJob by a condition: nothing is tried again by the Job, and the message says which condition it was."""
    policy = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    http_("POST", JOBS, make_job("a", container(code=None), podFailurePolicy=policy))
    name = running(cluster)["metadata"]["name"]
    http_("POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name}})
    assert done(cluster)["Failed"] == "PodFailurePolicy"
    [message] = {each["message"] for each in job(cluster)["status"]["conditions"]}
    assert message == f"Pod default/{name} has condition DisruptionTarget matching FailJob rule at index 0"


def test_without_a_policy_an_eviction_counts(cluster, http_) -> None:
    """Then it cannot be told from the program's own failure by the Job's reason alone."""
    http_("POST", JOBS, make_job("a", container(code=None)))
    name = running(cluster)["metadata"]["name"]
    http_("POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name}})
    assert done(cluster)["Failed"] == "BackoffLimitExceeded"


@pytest.mark.parametrize("policy", ["Failed", "TerminatingOrFailed"])
def test_a_deadline_ends_the_job_and_its_pod(timed, clock, policy) -> None:
    """The deadline counts from startTime; the pod gets its grace period; Failed comes when it is gone."""
    spec = {"activeDeadlineSeconds": 60, "podReplacementPolicy": policy}
    Http(timed.url)("POST", JOBS, make_job("a", container(code=None), **spec))
    name = running(timed)["metadata"]["name"]
    clock.advance(59)
    timed.settle()
    assert not conditions(job(timed))
    clock.advance(2)
    assert done(timed) == {"FailureTarget": "DeadlineExceeded", "Failed": "DeadlineExceeded"}
    assert timed.read("pods", name) is None
    assert job(timed)["status"]["failed"] == 1
    assert ("DeadlineExceeded", "Job was active longer than specified deadline") in events_about(timed, "a")


def test_a_finished_job_is_deleted_after_its_time(timed, clock) -> None:
    """ttlSecondsAfterFinished: the Job goes, and its pods with it."""
    Http(timed.url)("POST", JOBS, make_job("a", ttlSecondsAfterFinished=100))
    done(timed)
    clock.advance(99)
    timed.settle()
    assert job(timed)
    clock.advance(2)
    eventually(lambda: job(timed) is None and not timed.pods_of("a"))


def test_a_suspended_job_has_no_pods(timed, clock) -> None:
    """Not before it is resumed; the deadline counts from then; suspended again, it loses its pod without a failure."""
    ask = Http(timed.url)
    merge = "application/merge-patch+json"
    ask("POST", JOBS, make_job("a", container(code=None), suspend=True, activeDeadlineSeconds=60))
    eventually(lambda: conditions(job(timed)) == {"Suspended": "JobSuspended"})
    assert "startTime" not in job(timed)["status"]
    clock.advance(1000)
    timed.settle()
    assert timed.pods_of("a") == []
    ask("PATCH", f"{JOBS}/a", {"spec": {"suspend": False}}, media=merge)
    running(timed)
    timed.settle()
    assert conditions(job(timed)) == {}
    assert job(timed)["status"]["startTime"] == "2026-01-01T00:16:40Z"
    ask("PATCH", f"{JOBS}/a", {"spec": {"suspend": True}}, media=merge)
    eventually(lambda: timed.pods_of("a") == [])
    timed.settle()
    assert job(timed)["status"].get("failed") is None
    reasons = [reason for reason, _ in events_about(timed, "a")]
    assert sorted(reasons) == ["Resumed", "SuccessfulCreate", "SuccessfulDelete", "Suspended"]


def test_a_job_waits_for_its_pods_to_end(timed, clock, hook) -> None:
    """FailureTarget is set at once, Failed only when the pod that is left has ended ("Terminal Job conditions")."""
    made = make_job("a", container(code=None), container("stubborn", code=None), activeDeadlineSeconds=60)
    Http(timed.url)("POST", JOBS, made)
    name = running(timed)["metadata"]["name"]
    stubborn = hook.running[name, "stubborn"]
    stubborn.send_signal = lambda number: None
    clock.advance(61)
    eventually(lambda: "FailureTarget" in conditions(job(timed)))
    timed.settle()
    assert "Failed" not in conditions(job(timed))
    assert job(timed)["status"]["terminating"] == 1
    stubborn.end(0)
    assert done(timed)["Failed"] == "DeadlineExceeded"


def test_a_job_that_somebody_else_manages_is_left_alone(cluster, http_) -> None:
    """`managedBy` another controller: no pod, no status."""
    http_("POST", JOBS, make_job("a", managedBy="kueue.x-k8s.io/multikueue"))
    cluster.settle()
    assert cluster.pods_of("a") == []
    assert job(cluster)["status"] == {}


def test_a_pod_that_is_deleted_by_hand_counts_as_failed(cluster, http_) -> None:
    """Without a policy; its Job has used up its limit."""
    http_("POST", JOBS, make_job("a", container(code=None)))
    name = running(cluster)["metadata"]["name"]
    http_("DELETE", f"{PODS}/{name}")
    assert done(cluster)["Failed"] == "BackoffLimitExceeded"
    eventually(lambda: cluster.pods_of("a") == [])


def test_used_up_quota_is_an_event_of_the_job(cluster, http_) -> None:
    """403 on the pod: the Job stays without one, tells FailedCreate in the server's words, and tries again."""
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.nvidia.com/gpu": "1"}}}
    http_("POST", "/api/v1/namespaces/default/resourcequotas", quota)
    gpu = {"limits": {"nvidia.com/gpu": 1}}
    http_("POST", JOBS, make_job("a", container(code=None, resources=gpu)))
    running(cluster)
    http_("POST", JOBS, make_job("b", container(resources=gpu)))
    reason, message = eventually(lambda: events_about(cluster, "b"))[0]
    assert reason == "FailedCreate"
    assert message.startswith('Error creating: pods "b-')
    assert message.endswith(
        "is forbidden: exceeded quota: small, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=1, "
        "limited: requests.nvidia.com/gpu=1"
    )
    cluster.settle()
    used = cluster.read("resourcequotas", "small")["status"]
    assert used == {"hard": {"requests.nvidia.com/gpu": "1"}, "used": {"requests.nvidia.com/gpu": "1"}}
    http_("DELETE", f"{JOBS}/a", propagationPolicy="Background")
    assert done(cluster, "b")["Complete"]
