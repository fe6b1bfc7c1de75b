"""Item 27: a replay's pod is kept off the nodes whose kernel remembers what its submission did there in play."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from orchestrator.domain.events import StepFinished
from orchestrator.domain.ids import JobId
from orchestrator.domain.node_placement import nodes_played_on, replayed_where_played
from orchestrator.domain.plan import Job, Plan, Stage
from orchestrator.errors import Unschedulable
from orchestrator.executors.kubernetes.shared_volume import DriverOutcome
from tests.kubernetes_api import Node

from .rendering import attempt, rendered
from .scripted_round import QUICK_TIMINGS, WHOLE_JOB, Driver, Rig, clusters, end, rig_on, step

PLAN = Plan(
    (
        Job(JobId("play"), Stage.CLASSIFY, "red"),
        Job(JobId("other"), Stage.CLASSIFY, "blue"),
        Job(JobId("again"), Stage.REPLAY, "red", needs=frozenset({JobId("play"), JobId("other")})),
    )
)


def plays_its_own(driver: Driver) -> int:
    """A driver that tells of its stage and submission as they are."""
    driver.take()
    job = PLAN.by_id[JobId(driver.job)]
    told = {"stage": job.stage, "submission": job.submission}
    driver.outbox.write_events(step(driver.job, 0, **told))
    driver.outbox.write_events(step(driver.job, 1, **told), end(driver.job, **told))
    driver.outbox.write_end(DriverOutcome.FINISHED)
    return 0


def two(tmp_path, count: int = 2) -> Iterator[Rig]:
    """A round on a cluster of two nodes, one Job at a time: the first is taken where none is better."""
    nodes = tuple(Node(name, cpu="64", pods=500) for name in ("one", "two")[:count])
    with clusters(nodes) as (cluster, hook):
        yield rig_on(cluster, hook, tmp_path, script=plays_its_own, most=1)


@pytest.fixture
def rig(tmp_path) -> Iterator[Rig]:
    """Two nodes."""
    yield from two(tmp_path)


@pytest.fixture
def small(tmp_path) -> Iterator[Rig]:
    """One node."""
    yield from two(tmp_path, 1)


def nodes(rig: Rig) -> dict[str, set[str]]:
    """The nodes on which each job's steps were played, as the ledger has them."""
    steps = [each for each in rig.ledger if isinstance(each, StepFinished)]
    return {job: {each.node for each in steps if each.job == job} for job in ("play", "other", "again")}


@pytest.mark.parametrize("how", ["others-first", "others"])
def test_a_replay_goes_to_another_node(rig, how) -> None:
    """Whoever asked for it: what is on record of the play says where it was, to a later controller too."""
    rig.settings = {"replay_nodes": how}
    rig.play(Plan(PLAN.jobs[:2]))
    assert nodes(rig) == {"play": {"one"}, "other": {"one"}, "again": set()}
    rig.play(PLAN)
    assert nodes(rig)["again"] == {"two"}
    assert replayed_where_played(each for each in rig.ledger if isinstance(each, StepFinished)) == []


@pytest.mark.slow
def test_any_node_is_any_node(rig) -> None:
    """Where nodes are no matter, such as under gVisor and Kata, nothing is asked of the scheduler."""
    rig.settings = {"replay_nodes": "any"}
    rig.play(PLAN)
    assert nodes(rig)["again"] == {"one"}
    assert replayed_where_played(each for each in rig.ledger if isinstance(each, StepFinished)) == ["red"]


def test_with_one_node_a_preference_gives_way(small) -> None:
    """A replay plays where there is no other node, and the record says so."""
    small.play(PLAN)
    assert small.kinds("again") == WHOLE_JOB
    assert replayed_where_played(each for each in small.ledger if isinstance(each, StepFinished)) == ["red"]


@pytest.mark.slow
def test_with_one_node_a_demand_does_not(small) -> None:
    """A replay that may not run there waits for another node, and is parked in the end."""
    small.settings = {"replay_nodes": "others"}
    with small.parks(Unschedulable, "node affinity"):
        small.play(PLAN, timings=replace(QUICK_TIMINGS, pending_timeout=0.2))
    assert small.kinds("other") == WHOLE_JOB


def test_what_is_asked_of_the_scheduler() -> None:
    """Nodes by their names, each on its own, as the API wants it; nothing where nothing is to be avoided."""
    asked = replace(attempt(Stage.REPLAY), avoided=frozenset({"b", "a"}))
    made = rendered(asked=asked)["spec"]["template"]["spec"]
    [preferred] = made["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [each["values"] for each in preferred["preference"]["matchFields"]] == [["a"], ["b"]]
    assert "affinity" not in rendered(asked=attempt(Stage.REPLAY))["spec"]["template"]["spec"]


def test_a_node_that_refused_a_player_is_avoided_where_another_has_room() -> None:
    """In every stage, and beside what keeps a replay off the nodes of its play."""
    refused = replace(attempt(Stage.CLASSIFY), refused_by="c")
    made = rendered(asked=refused, replay_nodes="any")["spec"]["template"]["spec"]
    [preferred] = made["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [each["values"] for each in preferred["preference"]["matchFields"]] == [["c"]]
    replay = replace(attempt(Stage.REPLAY), avoided=frozenset({"a"}), refused_by="c")
    rule = rendered(asked=replay, replay_nodes="others")["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    [demanded] = rule["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [each["values"] for each in demanded["matchFields"]] == [["a"]]
    assert len(rule["preferredDuringSchedulingIgnoredDuringExecution"]) == 1


def test_where_somebody_played() -> None:
    """Steps on no known node, of others, and of replays do not count."""
    steps = [
        step("a", 0, submission="red", node="one"),
        step("a", 1, submission="red"),
        step("b", 0, submission="blue", node="two"),
        step("c", 0, submission="red", stage=Stage.REPLAY, node="three"),
    ]
    assert nodes_played_on(steps, "red") == {"one"}
    assert replayed_where_played(steps) == []
    assert replayed_where_played([*steps, step("d", 0, submission="blue", stage=Stage.REPLAY, node="two")]) == ["blue"]
