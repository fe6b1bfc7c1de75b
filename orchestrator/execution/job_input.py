"""Selects the events of a round that one job reads, so that a driver can play the job without the whole ledger.

For this job, the fold of the selected events is the same as that of the whole ledger. Code that reads more would fail
in the driver; tests/execution/test_one_player_per_process.py checks this by playing whole rounds from both.
"""

from collections.abc import Iterator

from orchestrator.domain import events
from orchestrator.domain.plan import Cell, Job, Stage
from orchestrator.errors import StoreFault
from orchestrator.execution.round_context import RoundContext
from orchestrator.ledger.read_model import RoundView


def events_for_job(job: Job, context: RoundContext, view: RoundView) -> list[events.Event]:
    """Returns the round's opening, the submissions and the planned jobs that the job reads, and these jobs' results.

    The job's own failed attempts are included, so that attempts can be counted.

    Raises:
        StoreFault: the round was never opened.
    """
    if view.round.opening is None:
        raise StoreFault("the ledger is empty: no round was opened here")
    attacks = {cell.attack for cell in job.cells if cell.attack is not None}
    submissions = attacks | {job.submission}
    jobs_read = [
        planned
        for planned in view.round.planned_jobs
        if planned.id == job.id
        or (planned.stage is Stage.PERTURB and planned.submission in submissions)
        or (planned.stage is Stage.QUERY and not set(job.cells).isdisjoint(_cells(planned)))
        or (planned.stage is Stage.CLASSIFY and job.stage is Stage.REPLAY and planned.submission == job.submission)
    ]
    job_events: list[events.Event] = [view.round.opening]
    job_events += [
        events.SubmissionAdmitted(**{name: getattr(known, name) for name in _ADMISSION_FIELDS})
        for known in context.roster
        if known.id in submissions
    ]
    job_events.append(events.PlanMade(jobs=jobs_read))
    for planned in jobs_read:
        job_events += _results_of_job(planned.id, view, with_sandboxes=planned.id == job.id)
    job_events += [failure for failure in view.round.failed_attempts if failure.job == job.id]
    if view.round.answers_digest is not None and view.round.replay_head is not None:
        job_events.append(events.PlayClosed(head=view.round.replay_head, answers_digest=view.round.answers_digest))
    return job_events


def _cells(job: events.JobRecord) -> Iterator[Cell]:
    return (Cell(cell.defence, cell.attack) for cell in job.cells)


_ADMISSION_FIELDS = tuple(name for name in events.SubmissionAdmitted.model_fields if name != "kind")


def _results_of_job(job: str, view: RoundView, *, with_sandboxes: bool) -> Iterator[events.Event]:
    """Yields a job's steps and its end; `with_sandboxes`: with their sandboxes, which only the job itself reads."""
    for _, step in sorted(view.round.steps.get(job, {}).items()):
        yield step if with_sandboxes else step.model_copy(update={"sandboxes": []})
    if (end := view.round.finished_jobs.get(job)) is not None:
        yield end if with_sandboxes else end.model_copy(update={"sandboxes": []})
