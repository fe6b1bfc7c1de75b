"""The controller and its pods: what keeps them waiting, and what takes them away, is said and is never the player's."""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from orchestrator.domain.events import AttemptFailed
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.tasks import Limits
from orchestrator.errors import (
    ImagePullFailed,
)
from orchestrator.executors.kubernetes.shared_volume import DriverOutcome
from tests.kubernetes_api import Node
from tests.kubernetes_api.tests.conftest import JOBS, PODS, Http

from .rendering import image, rendered
from .scripted_round import (
    QUICK_TIMINGS,
    TIMINGS,
    WHOLE_JOB,
    Driver,
    Rig,
    alone,
    board,
    clusters,
    end,
    hangs,
    in_thread,
    jobs_of,
    plays,
    pod_of,
    rig_on,
    soon,
    step,
    wait,
    words,
)

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@pytest.fixture
def rig(tmp_path) -> Iterator[Rig]:
    """A round on a cluster of its own."""
    yield from alone(tmp_path)


DISRUPTIONS: dict[str, tuple[Callable[[Rig, str, str], object], str]] = {
    "job deleted": (
        lambda rig, job, _: Http(rig.cluster.url)("DELETE", f"{JOBS}/{job}"),
        r"its Job (was|is being) deleted",
    ),
    "pod deleted": (lambda rig, _, pod: Http(rig.cluster.url)("DELETE", f"{PODS}/{pod}"), "its pod was deleted"),
    "evicted": (
        lambda rig, _, pod: Http(rig.cluster.url)("POST", f"{PODS}/{pod}/eviction", {"metadata": {"name": pod}}),
        "was evicted",
    ),
    "node pressure": (lambda rig, _, pod: rig.cluster.kubelets.evict_for("default", pod), "low on resource: memory"),
    "preempted": (lambda rig, _, pod: rig.cluster.preempt("default", pod), "was preempted"),
    "driver out of memory": (
        lambda rig, _, pod: rig.cluster.kubelets.oom_kill("default", pod, "driver"),
        "OOMKilled",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", DISRUPTIONS)
def test_what_the_cluster_takes_away_is_never_the_players_fault(rig, how) -> None:
    """Its finished step stays, the attempt is on record as ours, and the next one plays the rest."""
    plan = jobs_of("a", "b")
    rig.scripts, rig.linger = {("a", 1): hangs}, 5.0
    act, said = DISRUPTIONS[how]
    name = rig.attempt(plan, "a").name
    thread, errors = in_thread(
        lambda: rig.play(plan, timings=replace(QUICK_TIMINGS, termination_grace=20, driver_kill_grace=0.6))
    )
    act(rig, name, pod_of(rig, name))
    # Its driver lingers until the controller has looked: what is seen first says most.
    wait(lambda: not thread.is_alive() or re.search(said, " ".join(board(rig).values())), "the reason on the board")
    for driver in rig.drivers:
        driver.end(143)
    thread.join(120)
    assert (thread.is_alive(), errors) == (False, [])
    code = "driver-lost" if "driver" in how else "pod-lost"
    assert rig.kinds("a") == ["0", f"{code}:1", "1", "end"]
    assert rig.kinds("b") == WHOLE_JOB
    [told] = [each for each in rig.ledger if isinstance(each, AttemptFailed)]
    assert re.search(said, told.message)
    assert rig.left_over() == []


def test_a_lost_node_costs_an_attempt_and_its_zombie_is_not_heard(tmp_path) -> None:
    """The pod of a silent node is given up; when the node comes back, what its driver still says is not read."""
    with clusters((Node("n1", cpu="64", pods=500), Node("n2", cpu="64", pods=500))) as (cluster, hook):
        rig = rig_on(cluster, hook, tmp_path)
        back = threading.Event()

        def zombie(driver: Driver) -> int:
            driver.take()
            driver.outbox.write_events(step("a", 0))
            back.wait(10)
            driver.outbox.write_events(step("a", 1, seconds=99), end("a", seconds=99))
            driver.outbox.write_end(DriverOutcome.FINISHED)
            return 0

        def late(driver: Driver) -> int:
            cluster.nodes.restore(lost)
            back.set()
            wait(lambda: not hook.fakes.running or rig.drivers[0]._ended.is_set(), "the zombie's last words")
            soon()
            return plays(driver)

        rig.scripts = {("a", 1): zombie, ("a", 2): late}
        plan = jobs_of("a")
        name = rig.attempt(plan, "a").name
        thread, errors = in_thread(lambda: rig.play(plan))
        lost = cluster.read("pods", pod_of(rig, name))["spec"]["nodeName"]
        cluster.nodes.lose(lost, kill=False)
        thread.join(120)
        assert (thread.is_alive(), errors) == (False, [])
        assert rig.kinds("a") == ["0", "pod-lost:1", "1", "end"]
        assert {each.seconds for each in rig.ledger if hasattr(each, "seconds")} == {1.0}
        assert "node that does not answer" in rig.ledger[1].message


def test_a_node_that_admits_no_pod_costs_an_attempt(tmp_path) -> None:
    """The next attempt prefers another node: one that is always free would get all of them."""
    with clusters((Node("n1", cpu="64", pods=500), Node("n2", cpu="64", pods=500))) as (cluster, hook):
        rig = rig_on(cluster, hook, tmp_path)
        cluster.kubelets.reject("n1", "UnexpectedAdmissionError", "Allocate failed: no healthy devices present")
        rig.play(jobs_of("a"))
        assert rig.kinds("a") == ["pod-lost:1", *WHOLE_JOB]
        assert "UnexpectedAdmissionError: Pod was rejected: Allocate failed" in rig.ledger[0].message


@pytest.mark.slow
def test_a_silent_node_that_comes_back_in_time_costs_nothing(tmp_path) -> None:
    """Before its pods are told to go, the node is waited for, and the board says so."""
    with clusters(None, replace(TIMINGS, toleration=300)) as (cluster, hook):
        rig = rig_on(cluster, hook, tmp_path)
        gate = threading.Event()

        def slow(driver: Driver) -> int:
            driver.take()
            driver.outbox.write_events(step("a", 0))
            driver.hang(gate)
            driver.outbox.write_events(step("a", 1), end("a"))
            driver.outbox.write_end(DriverOutcome.FINISHED)
            return 0

        rig.script, plan = slow, jobs_of("a")
        thread, errors = in_thread(lambda: rig.play(plan))
        pod_of(rig, rig.attempt(plan, "a").name)
        wait(lambda: words(rig) == "plays on node node-1", "words about the play")  # the node has reported the start
        cluster.nodes.lose("node-1", kill=False)
        wait(lambda: words(rig) == "its node node-1 does not answer", "words about the node")
        cluster.nodes.restore("node-1")
        gate.set()
        thread.join(120)
        assert (errors, rig.kinds("a"), len(rig.drivers)) == ([], WHOLE_JOB, 1)


def test_an_image_that_cannot_be_pulled_is_waited_for(rig) -> None:
    """The board says which and why; when it is there, the attempt goes on."""
    runner = next(
        iter(
            {
                each["image"]
                for each in rig.render(rig.attempt(jobs_of("a"), "a"))["spec"]["template"]["spec"]["initContainers"]
            }
        )
    )
    rig.cluster.images.refuse(runner, "rpc error: \x1b[31mno such image")
    thread, errors = in_thread(lambda: rig.play(jobs_of("a")))
    wait(lambda: "ImagePullBackOff" in words(rig) or "ErrImagePull" in words(rig), "words about the image")
    assert runner in words(rig)
    assert "\x1b" not in words(rig)
    rig.cluster.images.allow(runner)
    thread.join(120)
    assert (errors, rig.kinds("a"), rig.drivers[0].number) == ([], WHOLE_JOB, 1)


@pytest.mark.slow
def test_an_image_that_never_comes_ends_its_job(rig) -> None:
    """Each attempt is given up after `pending`; after three, the other jobs are played and the error is raised."""
    plan = jobs_of("a", "b")

    def render(attempt):
        made = rig.render(attempt)
        if attempt.job.id == "a":
            made["spec"]["template"]["spec"]["initContainers"][0]["image"] = "registry.example/gone:1"
        return made

    rig.cluster.images.refuse("registry.example/gone:1")
    with rig.parks(ImagePullFailed, match=r"registry.example/gone:1"):
        rig.play(plan, render_job=render, timings=replace(QUICK_TIMINGS, pending_timeout=0.2))
    assert rig.kinds("a") == ["image-pull:1", "image-pull:2", "image-pull:3"]
    assert rig.kinds("b") == WHOLE_JOB


def test_the_players_image_is_named_where_the_driver_gave_up_for_it(rig) -> None:
    """A driver whose player never came says that it was lost; the pod says why."""

    def nobody(driver: Driver) -> int:
        driver.take()
        wait(lambda: "cannot start" in words(rig), "the player's image on the board")
        driver.outbox.write_end(DriverOutcome.FAULT, None, "sandbox-lost", "nobody opened 'ctl'")
        return 0

    player = image().reference
    rig.cluster.images.refuse(player)
    rig.script = nobody
    with rig.parks(ImagePullFailed, match=re.escape(player[:30])):
        rig.play(jobs_of("a"))
    assert rig.kinds("a") == [f"image-pull:{number}" for number in (1, 2, 3)]


@pytest.mark.slow
def test_a_gpu_that_is_not_free_is_named(tmp_path) -> None:
    """In words for people while it waits, and as `unschedulable` when it was given up."""
    policy = SandboxPolicy(Limits(memory=2**24, cpus=0.01, gpus=1))
    with clusters((Node("n1"), Node("n2"))) as (cluster, hook):
        rig = rig_on(cluster, hook, tmp_path)

        def render(attempt):
            return rendered(image(), policy, attempt, namespace="default", driver_memory=2**26)

        thread, errors = in_thread(
            lambda: rig.play(jobs_of("a"), render_job=render, timings=replace(QUICK_TIMINGS, pending_timeout=0.5))
        )
        wait(lambda: words(rig) == "insufficient nvidia.com/gpu: 0 of 2 nodes have one free", "words about GPUs")
        thread.join(120)
        assert errors == []
        assert [event.code for event in rig.parked] == ["unschedulable"]
        assert rig.kinds("a") == ["unschedulable:1", "unschedulable:2", "unschedulable:3"]


@pytest.mark.parametrize("name", ["count/jobs.batch", "pods"])
def test_quota_is_waited_for_without_end(rig, name) -> None:
    """Whether the Job or its pod is over the quota: it waits, in words, longer than any other wait may last."""
    ask = Http(rig.cluster.url)
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {name: "0"}}}
    assert ask("POST", QUOTAS, quota).code == 201
    thread, errors = in_thread(lambda: rig.play(jobs_of("a"), timings=replace(QUICK_TIMINGS, pending_timeout=0.2)))
    wait(lambda: words(rig).startswith("waits for quota: exceeded quota: small"), f"words about quota: {words(rig)}")
    thread.join(0.6)
    assert thread.is_alive()
    assert ask("DELETE", f"{QUOTAS}/small").code == 200
    thread.join(120)
    assert (errors, rig.kinds("a")) == ([], WHOLE_JOB)


def test_a_queue_is_waited_for_without_end(rig) -> None:
    """A Job that Kueue has not admitted waits in words; when it is admitted, it plays."""
    rig.settings = {"queue": "players"}
    plan = jobs_of("a")
    name = rig.attempt(plan, "a").name
    thread, errors = in_thread(lambda: rig.play(plan, timings=replace(QUICK_TIMINGS, pending_timeout=0.2)))
    wait(lambda: words(rig) == "suspended by Kueue, waits in queue players", "words about the queue")
    thread.join(0.6)
    assert thread.is_alive()
    patch = {"media": "application/merge-patch+json"}
    assert Http(rig.cluster.url)("PATCH", f"{JOBS}/{name}", {"spec": {"suspend": False}}, **patch).code == 200
    thread.join(120)
    assert (errors, rig.kinds("a")) == ([], WHOLE_JOB)


def test_a_job_that_is_suspended_while_it_plays_is_lost(rig) -> None:
    """Its pod is gone and a second one may not play: the next attempt does."""
    rig.scripts, plan = {("a", 1): hangs}, jobs_of("a")
    name = rig.attempt(plan, "a").name
    thread, errors = in_thread(lambda: rig.play(plan))
    pod_of(rig, name)
    patch = {"media": "application/merge-patch+json"}
    Http(rig.cluster.url)("PATCH", f"{JOBS}/{name}", {"spec": {"suspend": True}}, **patch)
    thread.join(120)
    assert (errors, rig.kinds("a")) == ([], ["0", "pod-lost:1", "1", "end"])


def with_deadline(rig: Rig) -> Callable:
    """Jobs of first attempts have a deadline of one second; those after them may take as long as the machine needs."""

    def render(attempt):
        made = rig.render(attempt)
        made["spec"]["activeDeadlineSeconds"] = 1 if made["metadata"]["name"].endswith("-1") else 600
        return made

    return render


def test_a_deadline_is_the_drivers_not_the_players(rig) -> None:
    """The backstop ends a driver that hangs; what it finished stays. It is set when the first step is there."""
    rig.scripts, plan = {("a", 1): hangs}, jobs_of("a")
    name = rig.attempt(plan, "a").name
    thread, errors = in_thread(lambda: rig.play(plan))
    pod_of(rig, name)
    patch = {"media": "application/merge-patch+json"}
    changed = {"spec": {"activeDeadlineSeconds": 1}}
    assert Http(rig.cluster.url)("PATCH", f"{JOBS}/{name}", changed, **patch).code == 200
    thread.join(120)
    assert errors == []
    assert rig.kinds("a") == ["0", "driver-lost:1", "1", "end"]
    assert "deadline of 1 s" in rig.ledger[1].message


def test_a_deadline_that_passes_in_a_queue_costs_nothing(rig) -> None:
    """An attempt that never got its pod is made again without a word on record, as often as it takes."""
    ask = Http(rig.cluster.url)
    ask("POST", QUOTAS, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}})
    thread, errors = in_thread(lambda: rig.play(jobs_of("a"), render_job=with_deadline(rig)))
    wait(lambda: any(path.name.endswith("-2") for path in rig.exchange.folder.iterdir()), "a second attempt")
    ask("DELETE", f"{QUOTAS}/small")
    thread.join(120)
    assert (errors, rig.kinds("a")) == ([], WHOLE_JOB)


def test_two_pods_of_one_job_play_once(rig) -> None:
    """A pod that is replaced by the Job controller finds the attempt taken: it is lost, and nothing is twice."""
    plan = jobs_of("a")
    rig.scripts = {("a", 1): hangs}
    name = rig.attempt(plan, "a").name
    thread, errors = in_thread(lambda: rig.play(plan))
    pod = pod_of(rig, name)
    Http(rig.cluster.url)("DELETE", f"{PODS}/{pod}", {"gracePeriodSeconds": 0})
    thread.join(120)
    assert errors == []
    assert [each for each in rig.kinds("a") if each in WHOLE_JOB] == WHOLE_JOB
    assert sum("-lost" in each for each in rig.kinds("a")) == 1


def test_a_job_is_deleted_as_soon_as_its_driver_ended(rig) -> None:
    """A player that hangs does not wait for the Job's deadline."""
    rig.players_hang = True
    rig.play(jobs_of("a"))
    wait(lambda: rig.cluster.pods_of(rig.drivers[0].name) == [], "a pod that is gone")
    assert rig.kinds("a") == WHOLE_JOB
