"""Estimates what a round would play (X4): jobs, questions, container starts and time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Cell, Job, Stage
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Isolation
from orchestrator.execution.planner import make_plan
from orchestrator.execution.reusable_jobs import ReusableRound, finished_planned_jobs
from orchestrator.execution.round_context import RoundContext
from orchestrator.integrity import detection_power
from orchestrator.ledger.read_model import RoundView

SecondsPerQuestion = Mapping[tuple[Stage, str], float]
"""Sandbox seconds per question, by stage and submission."""


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """The estimate of one stage of a round.

    `jobs` would be played; `finished` are finished in this round, `reused` in an earlier one of the contest. The other
    fields count `jobs` only: `cells`, `questions` (the most: a forfeited candidate may not be shown), `sandboxes`
    (container starts, without replacements), `expected_seconds` of sandboxes from earlier measurements (None if nothing
    comparable was measured), and `max_seconds` of sandboxes if every deadline is used up.
    """

    stage: Stage
    jobs: int
    finished: int
    reused: int
    cells: int
    questions: int
    sandboxes: int
    expected_seconds: float | None
    max_seconds: float


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """The estimate of a round on one task, stage by stage, and the number of slots that would play at once."""

    task: str
    round: str
    slots: int
    stages: tuple[StageEstimate, ...]

    @property
    def expected_seconds(self) -> float | None:
        """Expected sandbox seconds; None if a stage has no estimate."""
        known = [stage.expected_seconds for stage in self.stages if stage.expected_seconds is not None]
        return sum(known) if len(known) == len(self.stages) else None

    @property
    def max_seconds(self) -> float:
        """Sandbox seconds if every deadline is used up."""
        return sum(stage.max_seconds for stage in self.stages)


@dataclass(frozen=True, slots=True)
class _JobWorkload:
    """The work of one job: questions, container starts, and seconds at most."""

    questions: int
    sandboxes: int
    max_seconds: float


def estimate_run(
    context: RoundContext,
    cells: Sequence[Cell],
    current: ReusableRound,
    earlier_rounds: Sequence[ReusableRound] = (),
    *,
    slots: int = 1,
) -> RunEstimate:
    """Returns the estimate of what would be played of `cells`. Writes nothing and starts nothing.

    `current` is this round so far, `earlier_rounds` are those before it, the latest first. A job with damaged arrays
    counts as not finished.
    """
    rounds = (current, *earlier_rounds)
    finished = [job for past in rounds for job in past.usable_jobs.values()]
    plan = make_plan(context, cells, finished, finished_planned_jobs(current.view, current.usable_jobs))
    before = {job for past in earlier_rounds for job in past.usable_jobs}
    rates = _measured_rates(context, [past.view for past in rounds])
    stages = []
    for stage in Stage:
        stage_jobs = [job for job in plan.jobs if job.stage is stage]
        remaining = [job for job in stage_jobs if job.id not in current.usable_jobs and job.id not in before]
        finished_count = sum(1 for job in stage_jobs if job.id in current.usable_jobs)
        stages.append(
            _estimate_stage(
                context,
                stage,
                remaining,
                rates,
                finished=finished_count,
                reused=len(stage_jobs) - len(remaining) - finished_count,
            )
        )
    return RunEstimate(context.task.name, context.round, slots, tuple(stages))


def _estimate_stage(
    context: RoundContext, stage: Stage, jobs: Sequence[Job], rates: SecondsPerQuestion, *, finished: int, reused: int
) -> StageEstimate:
    workloads = [_job_workload(context, job) for job in jobs]
    expected = [_expected_seconds(rates, job, workload) for job, workload in zip(jobs, workloads, strict=True)]
    known = [seconds for seconds in expected if seconds is not None]
    return StageEstimate(
        stage=stage,
        jobs=len(jobs),
        finished=finished,
        reused=reused,
        cells=sum(len(job.cells) for job in jobs),
        questions=sum(workload.questions for workload in workloads),
        sandboxes=sum(workload.sandboxes for workload in workloads),
        expected_seconds=sum(known) if len(known) == len(jobs) else None,
        max_seconds=sum(workload.max_seconds for workload in workloads),
    )


def _job_workload(context: RoundContext, job: Job) -> _JobWorkload:
    limits, count = context.limits, context.task.count
    seconds, batch = limits.classify_seconds, limits.classify_batch
    sandboxes = 1
    if job.stage is Stage.PERTURB and job.submission in context.picture_sets:
        return _JobWorkload(0, 0, 0.0)
    if job.stage is Stage.QUERY:
        questions = question_count(context, job)
    elif context.roster[job.submission].side is Side.ATTACK:
        seconds, batch = limits.perturb_seconds, limits.perturb_batch
        again = ceil(context.replay.attacks * ceil(count / batch)) * batch
        questions = count if job.stage is Stage.PERTURB else min(count, again)
    else:
        questions = len(job.cells) * count
        if job.stage is Stage.REPLAY:
            mixed = context.isolation is Isolation.ROUND
            cost = detection_power.replay_cost(questions, count, context.replay, batch=batch, mixed=mixed)
            questions, sandboxes = cost.asked, cost.sandboxes
        elif context.isolation is Isolation.PICTURE:
            sandboxes = questions
    starts = (sandboxes + limits.restarts) * limits.ready_seconds
    return _JobWorkload(questions, sandboxes, ceil(questions / batch) * seconds + starts)


def question_count(context: RoundContext, job: Job) -> int:
    """Returns the number of pictures of the task, or for a query job the most pictures that may be asked about."""
    if job.stage is not Stage.QUERY:
        return context.task.count
    count = 0
    for cell in job.cells:
        attack = context.organizer_attacks.get(cell.attack or "")
        if attack is None:
            count += context.task.count * context.access.most_pictures
        else:
            count += attack.pictures(context.task.count) * attack.queries_per_picture
    return count


def _expected_seconds(rates: SecondsPerQuestion, job: Job, work: _JobWorkload) -> float | None:
    """Returns a job's seconds at its submission's own rate, else at its stage's median rate; None without either."""
    stages = (job.stage, Stage.CLASSIFY) if job.cells else (job.stage, Stage.PERTURB)
    for stage in stages:
        if (own_rate := rates.get((stage, job.submission))) is not None:
            return own_rate * work.questions
    for stage in stages:
        if others := [rate for (of, _), rate in rates.items() if of is stage]:
            return median(others) * work.questions
    return None


def _measured_rates(context: RoundContext, records: Iterable[RoundView]) -> dict[tuple[Stage, str], float]:
    """Returns the rates of finished jobs; a sandbox's whole life counts, including its start and loading."""
    questions: dict[tuple[Stage, str], int] = {}
    seconds: dict[tuple[Stage, str], float] = {}
    for record in records:
        for end in record.round.finished_jobs.values():
            if end.submission not in context.images:
                continue  # the submission left, and is not played
            key = (end.stage, end.submission)
            cells = tuple(Cell(cell.defence, cell.attack) for cell in record.round.jobs[end.job].cells)
            steps = record.round.steps.get(end.job, {}).values()
            sandboxes = [sandbox for step in steps for sandbox in step.sandboxes] + end.sandboxes
            job = Job(JobId(end.job), end.stage, end.submission, cells)
            questions[key] = questions.get(key, 0) + _job_workload(context, job).questions
            seconds[key] = seconds.get(key, 0.0) + sum(sandbox.wall_seconds for sandbox in sandboxes)
    return {key: seconds[key] / count for key, count in questions.items() if count}
