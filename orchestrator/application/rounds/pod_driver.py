"""The driver of a pod: plays the one job that the controller assigned, with the pod's players.

A pod has one player; in a query job, a second one, the attack that queries the first. Each has a backend of its own.

The driver reads its assignment from a folder and writes its events there (see executors.kubernetes.shared_volume). It
has no access to the round's ledger.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator import composition
from orchestrator.application.rounds.assemble_context import assemble_context
from orchestrator.domain.assignment import Assignment
from orchestrator.domain.events import Event
from orchestrator.domain.ids import JobId
from orchestrator.domain.plan import Cell, Job
from orchestrator.errors import InfrastructureFault, PodUsedUp, StoreFault
from orchestrator.execution.job_runner import JobRunner
from orchestrator.execution.round_context import RoundContext
from orchestrator.executors.kubernetes.shared_volume import AttemptFolder, DriverOutcome
from orchestrator.intake.contest_file import ContestFile
from orchestrator.ledger.read_model import RoundView
from orchestrator.ledger.round_folder import open_blobs
from orchestrator.ledger.season_fold import format_of_round
from orchestrator.ledger.stores.base import Blobs
from orchestrator.sandboxes.base import Backend, ImageSource


@dataclass(frozen=True, slots=True)
class DriverPaths:
    """Paths in the driver's container: the attempt's folder, the blobs, and the folder with the player's FIFOs.

    `attack_io` has the FIFOs of the attack, None if the pod has no second player.
    """

    job: Path
    blobs: Path
    io: Path
    attack_io: Path | None = None


def play_job(place: DriverPaths, who: str) -> DriverOutcome:
    """Plays what is left of the job, and writes and returns how it ended; `who` names this driver.

    Raises:
        PodUsedUp: another driver has taken the job before.
        StoreFault: the volume cannot be used, so no outcome can be written.
        Cancelled: the pod is being ended; no outcome is written.
    """
    outbox, backend = AttemptFolder(place.job), composition.make_backend("pod", place.io)
    attack_backend = None if place.attack_io is None else composition.make_backend("pod", place.attack_io)
    try:
        assignment = outbox.take_assignment(who)
        return _run_job(outbox, make_job_runner(assignment, open_blobs(place.blobs), backend, attack_backend))
    finally:
        for each in filter(None, (backend, attack_backend)):
            each.clean_up(ended_run=who)  # ends a player that waits to be started and was not needed


def _run_job(outbox: AttemptFolder, runner: JobRunner) -> DriverOutcome:
    try:
        runner.run(outbox.write_events)
    except PodUsedUp:
        outbox.write_end(DriverOutcome.NEEDS_PLAYER, runner.partial_step)
        return DriverOutcome.NEEDS_PLAYER
    except InfrastructureFault as fault:
        outbox.write_end(DriverOutcome.FAULT, runner.partial_step, fault.code, str(fault))
        return DriverOutcome.FAULT
    outbox.write_end(DriverOutcome.FINISHED)
    return DriverOutcome.FINISHED


def substitute_events(blobs: Blobs, assignment: Assignment, refused: str, why: str) -> list[tuple[Event, ...]]:
    """Returns the events of a job's remaining steps if a player never starts, as batches to append in order.

    `refused` is the submission whose player never starts. The job's other player, if there is one, is not started
    either, and no fault is charged to it.

    Raises:
        StoreFault: the assignment is incomplete, or a blob cannot be kept.
    """
    from orchestrator.executors.kubernetes.failed_start import FailedStartBackend  # noqa: PLC0415  a controller's; a driver's start is short

    batches: list[tuple[Event, ...]] = []
    unstarted = FailedStartBackend(composition.make_backend("pod", Path()), why)
    runner = make_job_runner(assignment, blobs, unstarted, unstarted, refused)
    runner.run(lambda *batch: batches.append(batch))
    return batches


def make_job_runner(
    assignment: Assignment, blobs: Blobs, backend: Backend, attack_backend: Backend | None = None, refused: str = ""
) -> JobRunner:
    """Returns the runner of the assigned job. Raises StoreFault if the assignment is incomplete.

    `attack_backend` starts the attack of a query job; `refused` is the submission whose player is never started.
    """
    record = RoundView(blobs, assignment.events)
    job = _job(assignment, record)
    context = _round_context(assignment, record, blobs, backend)
    context = replace(context, attack_backend=attack_backend, unstarted=refused)
    return JobRunner(job, context, record, None, assignment.partial_step)


def _job(assignment: Assignment, record: RoundView) -> Job:
    planned = record.round.jobs.get(assignment.job)
    if planned is None:
        raise StoreFault(f"job {assignment.job} is not in its assignment; use one version of the runner")
    cells = tuple(Cell(cell.defence, cell.attack) for cell in planned.cells)
    return Job(JobId(planned.id), planned.stage, planned.submission, cells, keys=planned.keys)


def _round_context(assignment: Assignment, record: RoundView, blobs: Blobs, backend: Backend) -> RoundContext:
    opening = record.round.opening
    if opening is None:
        raise StoreFault(f"the round of job {assignment.job} is not in its assignment; use one version of the runner")
    file = ContestFile.model_validate(opening.contest)
    planned = record.round.jobs[assignment.job]
    images = {planned.submission: backend.admit(ImageSource(image=assignment.image))}
    if assignment.attack_image:
        images[planned.cells[0].attack or ""] = backend.admit(ImageSource(image=assignment.attack_image))
    return assemble_context(
        file,
        format_of_round(opening),
        run=assignment.run,
        round=opening.round,
        task=opening.task.task(),
        samples=record.samples,
        secret=bytes.fromhex(assignment.secret),
        roster=record.round.roster,
        images=images,
        backend=backend,
        blobs=blobs,
    )
