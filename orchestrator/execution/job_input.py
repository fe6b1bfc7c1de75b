"""What of a round's record one job reads, so that it can be played where the whole record is not.

The events fold to a record that is to this job what the whole one is: who reads more than this is wrong there, which
tests/execution/test_one_player_per_process.py shows by playing whole rounds from both.
"""

from collections.abc import Iterator

from orchestrator.domain import events
from orchestrator.domain.plan import Job, Stage
from orchestrator.errors import StoreFault
from orchestrator.execution.round_context import RoundContext
from orchestrator.ledger.read_model import RoundView


def events_for_job(job: Job, setting: RoundContext, record: RoundView) -> list[events.Event]:
    """Returns the round's opening, the players that the job reads of, the jobs among them, and what these came to.

    The job's own failed attempts are there too, for whoever counts them.

    Raises:
        StoreFault: the round was never opened.
    """
    if record.round.opened is None:
        raise StoreFault("the ledger is empty: no round was opened here")
    attacks = {cell.attack for cell in job.cells if cell.attack is not None}
    who = attacks | {job.submission}
    read = [
        planned
        for planned in record.round.planned
        if planned.id == job.id
        or (planned.stage is Stage.PERTURB and planned.submission in who)
        or (planned.stage is Stage.CLASSIFY and job.stage is Stage.REPLAY and planned.submission == job.submission)
    ]
    found: list[events.Event] = [record.round.opened]
    found += [
        events.SubmissionAdmitted(**{name: getattr(known, name) for name in _ADMISSION_FIELDS})
        for known in setting.roster
        if known.id in who
    ]
    found.append(events.PlanMade(jobs=read))
    for planned in read:
        found += _results_of_job(planned.id, record, whole=planned.id == job.id)
    found += [failure for failure in record.round.failures if failure.job == job.id]
    if record.round.answers is not None and record.round.replay_head is not None:
        found.append(events.AnswersCommitted(head=record.round.replay_head, answers=record.round.answers))
    return found


_ADMISSION_FIELDS = tuple(name for name in events.SubmissionAdmitted.model_fields if name != "kind")


def _results_of_job(job: str, record: RoundView, *, whole: bool) -> Iterator[events.Event]:
    """Yields a job's steps and its end; `whole`: with the sandboxes, which only the job itself counts."""
    for _, step in sorted(record.round.steps.get(job, {}).items()):
        yield step if whole else step.model_copy(update={"sandboxes": []})
    if (end := record.round.finished.get(job)) is not None:
        yield end if whole else end.model_copy(update={"sandboxes": []})
