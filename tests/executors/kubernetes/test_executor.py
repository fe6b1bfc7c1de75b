"""The Kubernetes engine as execution sees it: the seam's promises; tests/executors/kubernetes has what may go wrong."""

from collections.abc import Iterator

import pytest

from orchestrator import plugins
from orchestrator.domain.events import JobFinished
from orchestrator.executors.kubernetes.executor import KubernetesExecutor
from tests.executors.kubernetes.scripted_round import WHOLE_JOB, FakeJobHandle, Rig, alone, jobs_of


@pytest.fixture
def rig(tmp_path) -> Iterator[Rig]:
    """A round on a cluster of its own."""
    yield from alone(tmp_path)


def test_it_is_found_by_its_name() -> None:
    """As every engine is."""
    assert plugins.load_plugin("executors", "kubernetes") is KubernetesExecutor


def test_a_job_starts_only_when_its_needs_were_kept(rig) -> None:
    """While the caller holds the last event of a job, nothing that needs it is assigned or made."""
    happened = rig.run(jobs_of("a", "b<a"))
    for batch in happened:
        rig.ledger += batch
        if isinstance(batch[-1], JobFinished):
            assert {each.job for each in rig.drivers} <= {"a"} or "a" in rig.done
    assert [rig.kinds(job) for job in "ab"] == [WHOLE_JOB] * 2


def test_what_is_done_is_not_played_again(rig) -> None:
    """A finished plan costs two lists, and no Job."""
    plan = jobs_of("a", "b<a")
    rig.play(plan)
    rig.cluster.api.calls.clear()
    assert list(rig.run(plan)) == []
    assert all(verb in {"list", "watch"} for verb, _ in rig.cluster.api.calls)
    assert len(rig.drivers) == 2


def test_a_plan_that_cannot_be_done_is_said_to_be(rig) -> None:
    """What waits for a job that is not in the plan is named, after the rest was played."""
    with pytest.raises(ValueError, match="b wait for jobs that are not in it"):
        rig.play(jobs_of("a", "b<nobody"))
    assert rig.kinds("a") == WHOLE_JOB


def test_no_devices_are_asked_about(rig) -> None:
    """The cluster chooses: `suits` is never asked, and every performance is made without a device."""
    devices = []

    def perform(job, device):
        devices.append(device)
        return FakeJobHandle(rig, job)

    def never(job, device):
        raise AssertionError(device)

    for batch in KubernetesExecutor(rig.site()).run(jobs_of("a"), frozenset(), perform, never):
        rig.ledger += batch
    assert (devices, rig.kinds("a")) == ([None], WHOLE_JOB)
