"""The driver of a pod: plays the one job that the controller put down, with the one player that the pod has.

What it is told and what it says goes through a folder (see cluster.exchange); nothing of a round's ledger is here.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from orchestrator import plugins
from orchestrator.arena.performance import Performance
from orchestrator.arena.setting import Setting
from orchestrator.backends.base import Backend, Source
from orchestrator.cluster.exchange import Outbox, Outcome
from orchestrator.domain.assignment import Assignment
from orchestrator.domain.events import Event
from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Cell, Job
from orchestrator.domain.tasks import Budget, Norm, Task
from orchestrator.errors import InfrastructureFault, PodSpent, StoreFault
from orchestrator.intake.contest_file import ContestFile
from orchestrator.record import Record
from orchestrator.stores.base import Blobs
from orchestrator.wiring import machine
from orchestrator.wiring.conditions import conditions
from orchestrator.wiring.folders import blobs_in


@dataclass(frozen=True, slots=True)
class Place:
    """Where things are in the driver's container: the attempt's folder, the blobs, and the FIFOs of the pod."""

    job: Path
    blobs: Path
    io: Path


def play(place: Place, who: str) -> Outcome:
    """Plays what is left of the job and says how it ended; `who` names this driver.

    Raises:
        PodSpent: another driver took the job before.
        StoreFault: the volume cannot be used; nothing can be said.
        Cancelled: the pod is being ended; nothing is said.
    """
    outbox, backend = Outbox(place.job), machine.backend("fifo", place.io)
    try:
        return _play(outbox, performing(outbox.take(who), blobs_in(place.blobs), backend))
    finally:
        backend.sweep(ended=who)  # where no player was needed, one still waits to be started


def _play(outbox: Outbox, performance: Performance) -> Outcome:
    try:
        performance.run(outbox.put)
    except PodSpent:
        outbox.leave(Outcome.SPENT, performance.half)
        return Outcome.SPENT
    except InfrastructureFault as fault:
        outbox.leave(Outcome.FAULT, performance.half, fault.code, str(fault))
        return Outcome.FAULT
    outbox.leave(Outcome.FINISHED)
    return Outcome.FINISHED


def unplayed(assignment: Assignment, blobs: Blobs, why: str) -> list[tuple[Event, ...]]:
    """Returns what is left of a job as it comes out where its player is never started: what to keep together, in order.

    Raises:
        StoreFault: the assignment is not whole, or a blob cannot be kept.
    """
    from orchestrator.cluster.unstarted import Unstarted  # noqa: PLC0415  a controller's; a driver's start is short

    told: list[tuple[Event, ...]] = []
    backend = Unstarted(machine.backend("fifo", Path()), why)
    performing(assignment, blobs, backend).run(lambda *happened: told.append(happened))
    return told


def performing(assignment: Assignment, blobs: Blobs, backend: Backend) -> Performance:
    """Returns the performance of what was assigned. Raises StoreFault where the assignment is not whole."""
    record = Record(blobs, assignment.events)
    setting = _setting(assignment, record, blobs, backend)
    return Performance(_job(assignment, record), setting, record, None, assignment.half)


def _job(assignment: Assignment, record: Record) -> Job:
    planned = record.round.jobs.get(assignment.job)
    if planned is None:
        raise StoreFault(f"job {assignment.job} is not in its assignment; use one version of the runner")
    cells = tuple(Cell(cell.defence, cell.attack) for cell in planned.cells)
    return Job(JobId(planned.id), planned.stage, planned.submission, cells, keys=planned.keys)


def _setting(assignment: Assignment, record: Record, blobs: Blobs, backend: Backend) -> Setting:
    opened = record.round.opened
    if opened is None:
        raise StoreFault(f"the round of job {assignment.job} is not in its assignment; use one version of the runner")
    file, task = ContestFile.model_validate(opened.contest), opened.task
    rules = plugins.find("contests", file.format).rules_type.model_validate(file.rules)
    channels, height, width = task.shape
    player = record.round.jobs[assignment.job].submission
    return Setting(
        **(conditions(file, rules) | {"run": assignment.run}),
        round=opened.round,
        task=Task(
            name=task.name,
            classes=tuple(task.classes),
            shape=(channels, height, width),
            count=task.count,
            digest=task.digest,
            budget=Budget(Norm(task.norm), Fraction(task.epsilon)),
        ),
        samples=record.samples,
        secret=bytes.fromhex(assignment.secret),
        roster=record.round.roster,
        images={player: backend.admit(Source(image=assignment.image))},
        backend=backend,
        blobs=blobs,
    )
