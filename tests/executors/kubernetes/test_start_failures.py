"""Players that no node starts: whose fault that is, and what becomes of their jobs (rule X1)."""

import time
from collections.abc import Iterator

import pytest

from orchestrator.domain.events import StepFinished
from orchestrator.errors import PlayerRefused
from orchestrator.executors.kubernetes.shared_volume import DriverOutcome
from orchestrator.executors.kubernetes.start_failures import MIN_START_FAILURES
from tests.kubernetes_api import Node

from .scripted_round import WHOLE_JOB, Driver, Rig, alone, attempt_board, clusters, died, jobs_of, plays, rig_on, wait


@pytest.fixture
def rig(tmp_path) -> Iterator[Rig]:
    """A round on a cluster of its own."""
    yield from alone(tmp_path)


class Refusing:
    """A runtime that does not start the players of some jobs, or on a node: a file where a volume belongs, for one."""

    def __init__(self, fakes, *jobs: str, node: str = "") -> None:
        self.fakes, self.running, self.jobs, self.node = fakes, fakes.running, jobs, node

    def __call__(self, container, pod):
        """Starts a container, or does not."""
        meant = pod["metadata"]["labels"]["sparring/job"] in self.jobs or pod["spec"]["nodeName"] == self.node
        if container["name"] == "player" and meant:
            raise OSError('mounting "/io": not a directory')
        return self.fakes(container, pod)


def slowly(driver: Driver) -> int:
    """A driver that takes its time."""
    time.sleep(0.5)
    return plays(driver)


def absent(driver: Driver) -> int:
    """A driver whose player never comes, and that says so late."""
    driver.take()
    driver.hang()
    return 137


def reports(driver: Driver) -> int:
    """A driver that says that its player did not come, after the kubelet has said why of this attempt."""
    driver.take()
    wait(lambda: "StartError" in attempt_board(driver), "the kubelet's word, seen by the controller")
    driver.outbox.write_end(DriverOutcome.FAULT, None, "player-absent", "nobody opened 'ctl'")
    return 3


@pytest.mark.slow
@pytest.mark.parametrize("script", [absent, reports])
def test_a_player_that_no_node_starts_is_ours_where_nothing_starts(rig, monkeypatch, script) -> None:
    """No driver can know why, the container's status does; nor can anybody tell whose fault it is (X1)."""
    monkeypatch.setattr(rig.hook, "fakes", Refusing(rig.hook.fakes, "a", "b"))
    rig.script = script
    with rig.parks(PlayerRefused, match=r'StartError: .*mounting "/io": not a directory'):
        rig.play(jobs_of("a", "b"))
    for job in "ab":
        kinds = rig.kinds(job)
        assert kinds == [f"player-refused:{number}" for number in range(1, len(kinds) + 1)]
        assert MIN_START_FAILURES <= len(kinds) <= MIN_START_FAILURES + 2, "one waits for what the other may show"
    assert not rig.unstarted


@pytest.mark.slow
def test_a_player_that_its_node_refuses_pays_where_that_node_starts_others(rig, monkeypatch) -> None:
    """It is tried three times; then its job is played without it, and nothing of the round is held up."""
    monkeypatch.setattr(rig.hook, "fakes", Refusing(rig.hook.fakes, "b"))
    rig.scripts = {("b", number): absent for number in range(1, 9)}
    ledger = rig.play(jobs_of("a", "b<a", "c<b"))
    assert rig.kinds("a") == rig.kinds("c") == WHOLE_JOB
    assert rig.kinds("b") == [*(f"player-refused:{number}" for number in (1, 2, 3)), *WHOLE_JOB]
    assert all(each.faults == [died()] for each in ledger if isinstance(each, StepFinished) and each.job == "b")
    [why] = rig.unstarted
    assert 'StartError: failed to create containerd task: failed to create shim task: mounting "/io"' in why
    assert rig.left_over() == []


@pytest.mark.slow
def test_a_node_that_starts_nobody_costs_one_attempt(tmp_path) -> None:
    """The next attempt prefers another node, although the scheduler would choose the same one again."""
    nodes = tuple(Node(name, cpu="64", pods=500) for name in ("one", "two"))
    with clusters(nodes) as (cluster, hook):
        rig = rig_on(cluster, hook, tmp_path, most=1)
        hook.fakes = Refusing(hook.fakes, node="one")
        rig.script = lambda driver: (absent if driver.pod["spec"]["nodeName"] == "one" else plays)(driver)
        rig.play(jobs_of("a"))
    assert rig.kinds("a") == ["player-refused:1", *WHOLE_JOB]
    assert not rig.unstarted


@pytest.mark.slow
def test_with_gpus_a_node_has_to_start_others_between_two_refusals(rig, monkeypatch) -> None:
    """It is tried until then; its GPU may fail at any moment."""
    monkeypatch.setattr(rig.hook, "fakes", Refusing(rig.hook.fakes, "b"))
    rig.scripts = {("b", number): absent for number in range(1, 99)}
    rig.script = slowly
    rig.play(jobs_of("b", "a", "c<a", "d<c", "e<d", "f<b"), uses_gpus=True)
    assert all(rig.kinds(job) == WHOLE_JOB for job in "acdef")
    assert rig.kinds("b")[-len(WHOLE_JOB) :] == WHOLE_JOB
    refused = rig.kinds("b")[: -len(WHOLE_JOB)]
    assert refused == [f"player-refused:{number}" for number in range(1, len(refused) + 1)]
    assert len(refused) >= MIN_START_FAILURES
    assert len(rig.unstarted) == 1
    assert rig.left_over() == []


@pytest.mark.slow
def test_what_a_node_started_before_it_broke_says_nothing(rig, monkeypatch) -> None:
    """A node whose GPU has failed refuses everybody from then on: that is nobody's fault but ours."""
    refusing = Refusing(rig.hook.fakes)
    monkeypatch.setattr(rig.hook, "fakes", refusing)

    def breaks(driver: Driver) -> int:
        refusing.jobs = ("b", "c")
        return plays(driver)

    rig.script = absent
    rig.scripts = {("a", 1): breaks}
    with rig.parks(PlayerRefused):
        rig.play(jobs_of("a", "b<a", "c<a"), uses_gpus=True)
    assert rig.kinds("a") == WHOLE_JOB
    assert not rig.unstarted
