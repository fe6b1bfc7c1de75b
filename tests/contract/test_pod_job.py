"""Whole jobs in pods: a perturb and a classify job through their performances, and what a second start does to one."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from orchestrator.domain import events
from orchestrator.domain.outcomes import OnMissing, OnViolation
from orchestrator.domain.plan import Cell, Job, Plan, Stage
from orchestrator.domain.policy import SandboxPolicy
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Budget, Isolation, Limits, Norm, Task
from orchestrator.errors import PodUsedUp
from orchestrator.execution.job_runner import JobRunner
from orchestrator.execution.planner import make_plan
from orchestrator.execution.round_context import RoundContext
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.stores.memory import MemoryBlobs
from orchestrator.sandboxes.base import ImageSource

from . import brightest_quarter
from .pods import OnePod

pytestmark = [
    pytest.mark.docker,
    pytest.mark.parametrize("backend", ["docker", "pod"], indirect=True, scope="module"),
]
LIMITS = Limits(memory=256 * 1024 * 1024, ready_seconds=30.0, perturb_batch=8, perturb_seconds=10.0, restarts=2)


@pytest.fixture(scope="module")
def players(engine) -> Callable[[str], str]:
    """Returns `image(submission)`: see quarters.builder."""
    return brightest_quarter.builder(engine)


@pytest.fixture
def setting(backend, players, run) -> Callable[..., RoundContext]:
    """Returns `setting(submissions...)`: a round between these players on this backend."""

    def make(*names: str) -> RoundContext:
        samples = brightest_quarter.samples()
        ids = {name: players(name) for name in names}
        submissions = [
            Submission(name, name, "team", Side(name.partition("_")[0]), ids[name], ids[name]) for name in names
        ]
        budget = Budget(Norm.LINF, Fraction(20))
        return RoundContext(
            contest="pods",
            round="r",
            run=run,
            task=Task("quarters", samples.classes, samples.shape, len(samples), samples.digest, budget),
            samples=samples,
            policy=SandboxPolicy(LIMITS),
            isolation=Isolation.ATTACK,
            labels=True,
            on_missing=OnMissing.HELD,
            on_violation=OnViolation.FORFEIT,
            replay=SamplingDesign(power=0.5, cheat=0.1),
            seed=1,
            secret=b"s" * 32,
            roster=Roster(tuple(submissions)),
            images={name: backend.admit(ImageSource(image=ids[name])) for name in names},
            backend=backend,
            blobs=MemoryBlobs(),
            clock=time.monotonic,
        )

    return make


def planned(setting: RoundContext) -> tuple[Plan, RoundView]:
    """Returns the round's plan, each defence against clean pictures and every attack, and a record with it."""
    attacks = [None, *(attack.id for attack in setting.roster.by_side(Side.ATTACK))]
    plan = make_plan(setting, [Cell(d.id, attack) for d in setting.roster.by_side(Side.DEFENCE) for attack in attacks])
    jobs = [
        events.JobRecord(
            id=job.id,
            stage=job.stage,
            submission=job.submission,
            cells=tuple(events.CellRecord(defence=cell.defence, attack=cell.attack) for cell in job.cells),
            keys=job.keys,
        )
        for job in plan.jobs
    ]
    return plan, RoundView(setting.blobs, [events.PlanMade(jobs=jobs)])


def first(plan: Plan, stage: Stage) -> Job:
    """Returns the plan's first job of a stage."""
    return next(job for job in plan.jobs if job.stage is stage)


@pytest.fixture
def played(backend) -> Callable[..., list[events.Event]]:
    """Returns `played(setting, record, job, happened)`: plays a job as a driver does, in the one pod that it has.

    What it handed out is returned and added to `happened` at once, and applied to the record.
    """
    made = []

    def play(setting: RoundContext, record: RoundView, job: Job, happened: list[events.Event] | None = None) -> list:
        happened = [] if happened is None else happened

        def emit(*new: events.Event) -> None:
            happened.extend(new)
            for event in new:
                record.apply(event)

        if backend.name == "pod":
            made.append(OnePod(backend.client, backend.workspace, template=backend.prepared()))
            setting = replace(setting, backend=made[-1])
        JobRunner(job, setting, record, None).run(emit)
        return happened

    yield play
    for pods in made:
        for pod in pods.made:  # the template is the backend's
            pod.delete()


@pytest.fixture(scope="module")
def remembered() -> dict[str, list]:
    """What each backend's jobs came to, by what was played."""
    return {}


def test_a_perturb_and_a_classify_job(setting, played, remembered):
    """Both jobs end with every step on record and one sandbox each; the arrays are the same on every backend."""
    round_ = setting("attack_honest", "defence_honest")
    plan, record = planned(round_)
    arrays = []
    for stage in (Stage.PERTURB, Stage.CLASSIFY):
        for job in (job for job in plan.jobs if job.stage is stage):
            happened = played(round_, record, job)
            assert isinstance(happened[-1], events.JobFinished)
            steps = [event for event in happened if isinstance(event, events.StepFinished)]
            assert [fault for step in steps for fault in step.faults] == []
            [sandbox] = [each for event in happened for each in event.sandboxes]
            # A busy machine may take longer to end a player than the half second that it has after `bye`.
            assert (sandbox.ending, sandbox.code) in {("clean", 0), ("stopped", None)}
            assert sandbox.cpu_seconds > 0
            assert sandbox.peak_bytes > 1024 * 1024
            arrays += [record.read_array(step, name).tolist() for step in steps for name in sorted(step.blobs)]
    assert len(arrays) == 2 * 5 + 2  # two batches of eight candidates; clean and attacked pictures
    remembered.setdefault("honest", arrays)
    assert arrays == remembered["honest"]


def test_a_crash_in_the_last_step(setting, played):
    """A job whose player dies when nothing is left to ask needs no other: it ends with its fault, in a pod too."""
    round_ = setting("attack_crashes", "defence_honest")
    plan, record = planned(round_)
    alive = threading.active_count()
    happened = played(round_, record, first(plan, Stage.PERTURB))
    steps = [event for event in happened if isinstance(event, events.StepFinished)]
    assert [[(fault.code, fault.pictures) for fault in step.faults] for step in steps] == [[], [("died", 8)]]
    assert [(each.ending, each.code) for step in steps for each in step.sandboxes] == [("crashed", 3)]
    assert threading.active_count() == alive


def test_a_job_that_needs_a_second_player(setting, backend, played):
    """Docker replaces a player. A pod has no other: PodUsedUp, once, with the steps that are finished."""
    round_ = setting("attack_hangs", "defence_honest")
    round_ = replace(round_, policy=SandboxPolicy(replace(LIMITS, perturb_batch=4, perturb_seconds=1.0)))
    plan, record = planned(round_)
    job, happened = first(plan, Stage.PERTURB), []
    if backend.name == "docker":
        played(round_, record, job, happened)
        # The second batch of each sandbox hangs.
        assert [len(event.faults) for event in happened[:-1]] == [0, 1, 0, 1]
        return
    with pytest.raises(PodUsedUp):
        played(round_, record, job, happened)
    assert [event.kind for event in happened] == ["step_finished"] * 2  # no attempt failed
    assert [fault.code for event in happened for fault in event.faults] == ["deadline"]
    played(round_, record, job, happened)  # the job goes on in another pod
    assert [event.kind for event in happened] == ["step_finished"] * 4 + ["job_finished"]
    assert [len(event.faults) for event in happened[:-1]] == [0, 1, 0, 1]
