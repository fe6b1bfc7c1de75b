"""The controller against a cluster: whatever the API does, every event comes exactly once."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import structlog
from structlog.testing import LogCapture

from orchestrator.domain.events import AttemptFailed, PlayClosed
from orchestrator.errors import (
    ClusterRefused,
    ClusterUnavailable,
    DriverLost,
    LeaseLost,
)
from orchestrator.executors.kubernetes import controller
from orchestrator.executors.kubernetes.shared_volume import NO_ASSIGNMENT, DriverOutcome
from orchestrator.executors.kubernetes.status_file import read_status
from orchestrator.ledger.stores.base import GENESIS
from tests.kubernetes_api.tests.conftest import JOBS, Http

from .scripted_round import (
    QUICK_TIMINGS,
    WHOLE_JOB,
    Driver,
    FakeJobHandle,
    FakeLease,
    Rig,
    alone,
    crashes,
    end,
    hangs,
    in_thread,
    is_spent,
    jobs_of,
    plays,
    rig_on,
    step,
    wait,
)

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@pytest.fixture
def rig(tmp_path) -> Iterator[Rig]:
    """A round on a cluster of its own."""
    yield from alone(tmp_path)


def test_a_plan_is_played_in_order_and_leaves_nothing(rig) -> None:
    """Each step and each end once, needs first; no Job, no folder is left."""
    rig.play(jobs_of("a", "b", "c<a,b"))
    assert [rig.kinds(job) for job in "abc"] == [WHOLE_JOB] * 3
    assert [each.job for each in rig.ledger][-3:] == ["c", "c", "c"]
    assert rig.left_over() == []
    assert read_status(rig.exchange.folder).jobs == []


def test_a_last_word_is_read_before_its_pod_has_ended(rig) -> None:
    """The next job begins when a result lies on the volume: neither after the next look nor when the pod is gone."""

    def lingers(driver: Driver) -> int:
        code = plays(driver)
        driver.hang()  # until its Job is deleted: no object of the cluster changes before that
        return code

    rig.script = lingers
    thread, errors = in_thread(
        lambda: rig.play(jobs_of("a", "b<a"), timings=replace(QUICK_TIMINGS, refresh_interval=600))
    )
    thread.join(120)
    assert (thread.is_alive(), errors) == (False, [])
    assert [rig.kinds(job) for job in "ab"] == [WHOLE_JOB] * 2


def test_the_end_of_a_job_is_logged(rig, monkeypatch) -> None:
    """As the engine on this machine logs it: a pod's own log goes with the pod."""
    logged = LogCapture()  # a logger of its own, with its own level: another test may have configured logging for good
    alone = structlog.wrap_logger(structlog.PrintLogger(), processors=[logged], wrapper_class=structlog.BoundLogger)
    monkeypatch.setattr(controller, "_log", alone)
    rig.play(jobs_of("a", "b"))
    ends = {each["job"]: each for each in logged.entries if each["event"] == "job_finished"}
    assert ends.keys() == {"a", "b"}
    said = {"contest": "cup", "round": "final", "stage": "classify", "submission": "team-a", "attempt": 1}
    assert said.items() <= ends["a"].items()
    assert ends["a"]["node"] == "node-1"


def test_a_driver_that_finds_no_assignment_says_where_it_looked(rig) -> None:
    """The controller's --out is not on the claim: that is what is said, and no last word is waited for."""

    def elsewhere(driver: Driver) -> int:
        driver.text = f"store: {NO_ASSIGNMENT} in /work/job\n"
        return 3

    rig.script = elsewhere
    began = time.monotonic()
    with rig.parks(DriverLost, r"no assignment in /work/job.* --out"):
        rig.play(jobs_of("a"), timings=replace(QUICK_TIMINGS, driver_exit_grace=600))
    assert time.monotonic() - began < 60
    assert rig.kinds("a") == [f"driver-lost:{number}" for number in (1, 2, 3)]


def test_what_crashes_and_what_is_spent_goes_on(rig) -> None:
    """A driver that ends without a word costs an attempt; one whose player is spent goes on with its half step."""
    rig.scripts = {("a", 1): crashes, ("b", 1): is_spent}
    rig.play(jobs_of("a", "b"))
    assert rig.kinds("a") == ["0", "driver-lost:1", "1", "end"]
    assert rig.kinds("b") == ["store:1", "0", "1", "end"]
    assert [half.completed for half in rig.halves if half] == [3]
    assert rig.left_over() == []
    [told] = [each for each in rig.ledger if isinstance(each, AttemptFailed) and each.job == "a"]
    assert "driver ended with exit code 137" in told.message


def test_no_more_than_so_many_jobs_are_in_flight(rig) -> None:
    """`most` bounds the Jobs that there are; a place that is free is filled without waiting for the next look."""
    rig.most, most = 2, 0

    def counts(driver: Driver) -> int:
        nonlocal most
        most = max(most, sum(rig.job(each.name) is not None for each in rig.drivers))
        return plays(driver)

    rig.script = counts
    rig.play(jobs_of(*"abcdef"), timings=replace(QUICK_TIMINGS, refresh_interval=20))
    assert (most, len(rig.done)) == (2, 6)


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("create", "jobs"), ("list", "jobs"), ("list", "pods"), ("delete", "jobs")],
)
@pytest.mark.parametrize("fault", ["429", "500", "500 after", "503", "cut", "cut after"])
def test_a_passing_fault_changes_nothing(rig, verb, resource, fault) -> None:
    """Before the deed or after it, with an answer or without: what is played is the same."""
    code, _, after = fault.partition(" ")
    rig.cluster.faults.retry_after = 0
    if code == "cut":
        rig.cluster.faults.disconnect(verb=verb, resource=resource, times=2, after=bool(after))
    else:
        when = "after" if after else "before"
        rig.cluster.faults.next(int(code), verb=verb, resource=resource, times=2, when=when)
    rig.play(jobs_of("a", "b<a"))
    assert [rig.kinds(job) for job in "ab"] == [WHOLE_JOB] * 2
    assert len(rig.drivers) == 2
    assert len(rig.cluster.faults.seen) == 2
    assert rig.left_over() == []


def test_a_cluster_that_stays_away_ends_the_run(rig) -> None:
    """What passes is asked again for so long; then it is an infrastructure fault, and the next run goes on."""
    rig.cluster.faults.next(503, verb="create", times=1000)
    with pytest.raises(ClusterUnavailable, match=r"create jobs: .* 503 .* asked \d+ times"):
        rig.play(jobs_of("a"), api=rig.api(0.3))
    rig.cluster.faults.next(503, verb="create", times=0)
    rig.cluster.faults._waiting.clear()
    rig.play(jobs_of("a"))
    assert rig.kinds("a") == WHOLE_JOB


def test_a_missing_right_ends_the_run_at_once(rig) -> None:
    """403 is no quota: nothing is played, and the message names the right."""
    rig.cluster.faults.next(403, verb="create", resource="jobs")
    with pytest.raises(ClusterRefused, match=r"create jobs: .*give the rights in k8s/base"):
        rig.play(jobs_of("a", "b"))
    assert rig.ledger == []


def test_a_job_that_cannot_be_made_does_not_hold_up_the_others(rig) -> None:
    """422 is the Job's own: it is on record, the others are played, and then it is raised."""

    def render(attempt):
        made = rig.render(attempt)
        return made if attempt.job.id != "a" else made | {"spec": made["spec"] | {"backoffLimit": -1}}

    with rig.parks(ClusterRefused, match="backoffLimit"):
        rig.play(jobs_of("a", "b", "c<a"), render_job=render)
    assert [rig.kinds(job) for job in "abc"] == [["cluster-refused:1"], WHOLE_JOB, []]


def test_a_foreign_job_of_the_same_name_is_left_alone(rig) -> None:
    """It is neither taken over nor deleted."""
    plan = jobs_of("a")
    name = rig.attempt(plan, "a").name
    body = rig.render(rig.attempt(plan, "a"))
    body["metadata"]["labels"] = {"app": "mine"}
    body["spec"]["suspend"] = True
    Http(rig.cluster.url)("POST", JOBS, body)
    with rig.parks(ClusterRefused, match="is not this round's"):
        rig.play(plan)
    assert rig.job(name)["metadata"]["labels"] == {"app": "mine"}


@pytest.mark.parametrize("broken", ["dropped", "silent"])
def test_watches_are_only_hints(rig, broken) -> None:
    """Watches that are cut all the time, or say nothing: a look comes all the same."""
    stop = threading.Event()
    if broken == "silent":
        rig.cluster.faults.disconnect(verb="watch", times=10**6)

    def cut() -> None:
        while not stop.wait(0.01):
            rig.cluster.faults.drop_watches()

    cutter, _ = in_thread(cut)
    rig.play(jobs_of("a", "b<a", "c<b"))
    stop.set()
    cutter.join()
    assert [rig.kinds(job) for job in "abc"] == [WHOLE_JOB] * 3


def test_watches_shorten_the_wait(rig) -> None:
    """With a look every 20 s, three jobs one after another take less than one such wait."""
    thread, errors = in_thread(
        lambda: rig.play(jobs_of("a", "b<a", "c<b"), timings=replace(QUICK_TIMINGS, refresh_interval=20))
    )
    thread.join(120)
    assert (thread.is_alive(), errors) == (False, [])
    assert [rig.kinds(job) for job in "abc"] == [WHOLE_JOB] * 3


def test_a_list_from_the_past_is_not_believed(rig) -> None:
    """A list that is older than a Job looks as if somebody had deleted it; nothing is lost by that."""
    gate = threading.Event()

    def slow(driver: Driver) -> int:
        driver.hang(gate)
        return plays(driver)

    rig.script = slow
    rig.cluster.faults.stale_lists("jobs", times=12)
    calls = rig.cluster.api.calls
    thread, errors = in_thread(
        lambda: rig.play(jobs_of("a"), timings=replace(QUICK_TIMINGS, refresh_interval=0.05, driver_kill_grace=0.1))
    )
    wait(lambda: calls["list", "jobs"] > 10 and rig.drivers, "ten lists from the past")
    assert calls["get", "jobs"] > 5
    gate.set()
    thread.join(120)
    assert (errors, rig.kinds("a"), len(rig.drivers)) == ([], WHOLE_JOB, 1)


def test_a_lease_that_is_lost_stops_everything(rig) -> None:
    """Nothing is yielded, made, deleted or assigned any more."""
    lease = FakeLease()
    happened = rig.run(jobs_of("a", "b<a"), lease=lease)
    rig.ledger += next(happened)
    before, calls = rig.left_over(), dict(rig.cluster.api.calls)
    lease.error = LeaseLost("gone")
    with pytest.raises(LeaseLost):
        next(happened)
    after = rig.cluster.api.calls
    assert all(after[key] == calls.get(key, 0) for key in (("create", "jobs"), ("delete", "jobs")))
    assert rig.left_over() == before
    with pytest.raises(LeaseLost):
        list(rig.run(jobs_of("a"), lease=lease))


def test_a_closed_run_lets_go_and_the_next_adopts(rig) -> None:
    """Jobs go on while nobody looks, and no job is played twice."""
    gate = threading.Event()

    def slow(driver: Driver) -> int:
        driver.take()
        driver.outbox.write_events(step(driver.job, 0))
        driver.hang(gate)
        driver.outbox.write_events(step(driver.job, 1), end(driver.job))
        driver.outbox.write_end(DriverOutcome.FINISHED)
        return 0

    rig.script, plan = slow, jobs_of("a", "b")
    happened = rig.run(plan)
    rig.ledger += next(happened)
    happened.close()
    assert len(rig.left_over()) == 4
    gate.set()
    wait(lambda: all(each._ended.is_set() for each in rig.drivers), "drivers that ended")
    rig.play(plan)
    assert [rig.kinds(job) for job in "ab"] == [WHOLE_JOB] * 2
    assert len(rig.drivers) == 2
    assert rig.left_over() == []


def test_jobs_that_nobody_needs_are_deleted(rig) -> None:
    """Of a plan that was replaced, or of a controller that came too late; another round's are left alone."""
    gate = threading.Event()

    def slow(driver: Driver) -> int:
        driver.hang(gate)
        return 1

    rig.scripts = {("old", 1): slow}
    happened = rig.run(jobs_of("old", "a"))
    for batch in happened:
        rig.ledger += batch
        break
    happened.close()
    other = rig_on(rig.cluster, rig.hook, rig.exchange.folder.parent / "other", "other", script=slow)
    stranger = other.render(other.attempt(jobs_of("a"), "a"))
    assert Http(rig.cluster.url)("POST", JOBS, stranger).code == 201
    rig.play(jobs_of("a"))
    old = rig.attempt(jobs_of("old"), "old").name
    wait(lambda: rig.job(old) is None, "the old plan's Job gone")
    assert other.left_over() == [stranger["metadata"]["name"]]
    gate.set()


def test_an_assignment_whose_steps_were_lost_is_void(rig) -> None:
    """An attempt that builds on arrays which the round takes back is not read; the job begins with the next number."""
    plan = jobs_of("need", "a<need")
    rig.scripts = {("a", 1): hangs}
    happened = rig.run(plan)
    while not any(each.job == "a" for each in rig.ledger):
        rig.ledger += next(happened)
    happened.close()
    rig.ledger = [step("need", 0, blobs={"rows": "sha256:" + "1" * 64}), step("need", 1), end("need")]
    rig.play(plan)
    assert rig.kinds("a") == WHOLE_JOB
    assert {(each.job, each.number) for each in rig.drivers if each.job == "a"} == {("a", 1), ("a", 2)}
    assert rig.left_over() == []


def test_an_assignment_that_follows_from_other_answers_is_void(rig, monkeypatch) -> None:
    """A replay that was assigned, and of which nothing is on record, is assigned anew once the round has grown."""
    plan, assignment = jobs_of("a"), FakeJobHandle.assignment
    answers = ["sha256:" + "1" * 64]

    def closed(act, half=None):
        found = assignment(act, half)
        return found.model_copy(
            update={"events": [*found.events, PlayClosed(head=GENESIS, answers_digest=answers[-1])]}
        )

    monkeypatch.setattr(FakeJobHandle, "assignment", closed)
    rig.scripts = {("a", 1): hangs}
    happened = rig.run(plan)
    assert [each.step for each in next(happened)] == [0]
    happened.close()
    answers.append("sha256:" + "2" * 64)
    rig.play(plan)
    assert rig.kinds("a") == WHOLE_JOB
    told = {each.number: each.assignment.events[-1].answers_digest for each in rig.drivers}
    assert told == dict(enumerate(answers, start=1))
    assert rig.left_over() == []


def test_folders_of_finished_jobs_are_forgotten(rig) -> None:
    """A controller that was killed between the last event and the tidying leaves that to the next."""
    plan = jobs_of("a")
    happened = rig.run(plan)
    while "end" not in rig.kinds("a"):
        rig.ledger += next(happened)
    happened.close()
    assert len(rig.left_over()) == 2
    assert list(rig.run(plan)) == []
    wait(lambda: rig.left_over() == [], "everything gone")
