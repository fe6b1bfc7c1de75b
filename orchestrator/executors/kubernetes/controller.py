"""The controller: lists the cluster's objects, passes events to jobs' state machines, and carries out their actions.

`attempt_state_machine` decides what happens to a job, and in which order. The controller makes the events from the
cluster and the volume, and carries out each action only while it holds the lease. Kubernetes schedules the pods.

The controller keeps no state that it could not find again in the ledger, on the volume and in a list, so it may be
killed and started again at any moment. Every pass costs one list of Jobs and one of pods; watches only start the next
pass sooner. Jobs and folders of finished attempts are removed at once, so that no pass grows with them.
"""

import time
from collections.abc import Callable, Hashable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Protocol

from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.events import PlayClosed, StepFinished
from orchestrator.domain.ids import JobId
from orchestrator.domain.job_failures import parked_event
from orchestrator.domain.node_placement import nodes_played_on
from orchestrator.domain.plan import Job, Plan, Stage
from orchestrator.errors import ClusterRefused
from orchestrator.executors.base import EventBatch
from orchestrator.executors.kubernetes.active_job import resume_job
from orchestrator.executors.kubernetes.api import JOBS, Api
from orchestrator.executors.kubernetes.api_response import Object
from orchestrator.executors.kubernetes.attempt_state_machine import (
    Action,
    AssignAttempt,
    AttemptEvent,
    AttemptMachine,
    AttemptObserved,
    CompleteJob,
    CreateJob,
    DeleteJob,
    FinishedWithoutPlayer,
    FinishWithoutPlayer,
    JobAbsent,
    JobCreated,
    JobRefused,
    KeepBatch,
    LogJobEnd,
    MachineState,
    NameTaken,
    ParkJob,
    QuotaExceeded,
    RemoveFolder,
)
from orchestrator.executors.kubernetes.attempt_status import derive_status
from orchestrator.executors.kubernetes.cluster_view import ClusterView, Snapshot
from orchestrator.executors.kubernetes.labels import ATTEMPT_LABEL, JOB_LABEL, ROUND_LABEL, Attempt, RoundRef
from orchestrator.executors.kubernetes.shared_volume import SharedVolume
from orchestrator.executors.kubernetes.start_failures import NodeStartHistory, others_may_start
from orchestrator.executors.kubernetes.status_file import ActiveAttempt, StatusFile
from orchestrator.executors.kubernetes.timings import ControllerTimings
from orchestrator.logs import get_logger

FULLY_POLLED_ATTEMPTS = 20
"""With more active attempts than this, their folders are polled less often than `volume_poll_interval` says."""
_INVALID_JOB_STATUSES = {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}

MakeAssignment = Callable[[Job, PartialStep | None], Assignment]
"""Returns the rest of a job; the partial step is what its last attempt left."""
PlayWithoutPlayer = Callable[[Assignment, str, str], list[EventBatch]]
"""Plays the rest of a job as if the player of a submission had failed to start, for a reason; returns the events."""

_log = get_logger()


class LeaseHolder(Protocol):
    """The right to run the round: see executors.kubernetes.lease."""

    def ensure_held(self) -> None:
        """Raises LeaseLost if another controller may hold the lease."""
        ...


@dataclass(frozen=True)
class ControllerDeps:
    """What a controller needs: the API, the shared volume, the round of its objects, and a function that renders Jobs.

    `max_jobs` is the most Jobs at a time. `render_job` returns the Job of an attempt, `finish_without_player` the
    events of a job whose player the runtime refuses to start. `uses_gpus`: whether players get GPUs.
    """

    api: Api
    shared_volume: SharedVolume
    round_ref: RoundRef
    render_job: Callable[[Attempt], Object]
    finish_without_player: PlayWithoutPlayer
    lease: LeaseHolder
    status_file: StatusFile
    max_jobs: int = 20
    uses_gpus: bool = False
    timings: ControllerTimings = field(default_factory=ControllerTimings)
    clock: Callable[[], float] = time.monotonic


class Controller:
    """Plays the unfinished jobs of one plan."""

    def __init__(
        self, deps: ControllerDeps, plan: Plan, finished_jobs: AbstractSet[JobId], make_assignment: MakeAssignment
    ) -> None:
        self._deps, self._api, self._shared_volume, self._timings = deps, deps.api, deps.shared_volume, deps.timings
        self._plan, self._make_assignment = plan, make_assignment
        self._queue = plan.ready_queue(finished_jobs)
        self._machines: dict[JobId, AttemptMachine] = {}
        self._parked_submissions: set[str] = set()
        self._finished_jobs = finished_jobs
        self._earlier_attempts: dict[JobId, list[int]] = {}
        self._start_history = NodeStartHistory(gpus=deps.uses_gpus)
        self._view = ClusterView(
            deps.api, f"{ROUND_LABEL}={deps.round_ref.label_value}", deps.timings.event_list_interval, deps.clock
        )

    def run(self) -> Iterator[EventBatch]:
        """Yields batches of events until no job can be played. The caller stores each before it takes the next.

        Raises:
            InfrastructureFault: the cluster, the volume or the lease failed.
            ValueError: the remaining jobs need jobs that are not in the plan, and none is parked.
        """
        self._deps.lease.ensure_held()
        self._earlier_attempts = self._find_earlier_attempts()
        try:
            while True:
                seen = self._view.refresh(machine.status for machine in self._machines.values())
                looked: set[str] = set()
                while machines := self._start_ready_jobs(looked):
                    for machine in machines:
                        looked.add(machine.job.attempt.name)
                        yield from self._advance_job(machine, seen)
                self._delete_unneeded_jobs(seen)
                self._write_status()
                if not self._machines:
                    break
                self._wait_for_change()
        finally:
            self._view.close()
        if (left := self._queue.remaining) and not self._parked_submissions:
            raise ValueError(f"the plan cannot be played: {', '.join(left)} wait for jobs that are not in it")

    def _wait_for_change(self) -> None:
        """Waits for the next pass, which comes sooner if a driver wrote its end, so that the next job need not wait."""
        awaited = [each.job.attempt.name for each in self._machines.values() if not each.driver_ended]
        glance = self._timings.volume_poll_interval * max(1.0, len(awaited) / FULLY_POLLED_ATTEMPTS)
        self._view.wait_for_change(
            self._timings.min_interval,
            self._timings.refresh_interval,
            glance,
            lambda: any(map(self._shared_volume.has_ended, awaited)),
        )

    # Where a controller begins

    def _find_earlier_attempts(self) -> dict[JobId, list[int]]:
        """Returns the attempts that an earlier controller assigned; removes the folders of finished jobs."""
        keys = {self._attempt_at(job, 1).job_key: job for job in self._plan.jobs}
        attempts: dict[JobId, list[int]] = {}
        for key, number in self._shared_volume.list_attempts():
            job = keys.get(key)
            if job is not None and job.id in self._finished_jobs:
                self._shared_volume.remove_attempt(self._attempt_at(job, number).name)
            elif job is not None:
                attempts.setdefault(job.id, []).append(number)
        return attempts

    def _start_ready_jobs(self, looked: AbstractSet[str]) -> list[AttemptMachine]:
        """Begins ready jobs while there is room; returns the machines of active jobs that are not in `looked`.

        Jobs that an earlier controller began are taken first.
        """
        while len(self._machines) < self._deps.max_jobs:
            job = self._queue.take(lambda job: self._may_play(job) and job.id in self._earlier_attempts)
            job = job or self._queue.take(self._may_play)
            if job is None:
                break
            self._machines[job.id] = self._begin_job(job)
        return [each for each in self._machines.values() if each.job.attempt.name not in looked]

    def _may_play(self, job: Job) -> bool:
        attacks = {cell.attack for cell in job.cells if job.stage is Stage.QUERY}
        return self._parked_submissions.isdisjoint({job.submission, *attacks})

    def _begin_job(self, job: Job) -> AttemptMachine:
        """Resumes the last attempt at a job, or assigns the first one, or the next if the last assignment is void."""
        self._deps.lease.ensure_held()
        *older, number = sorted(self._earlier_attempts.pop(job.id, [])) or [0]
        last = self._shared_volume.read_assignment(self._attempt_at(job, number).name) if number else None
        partial_step = last.partial_step if last else None
        assignment = self._make_assignment(job, partial_step)
        if last is not None and not _assignment_basis(last) <= _assignment_basis(assignment):
            last, partial_step = None, None  # the ledger lost what it was based on
            assignment = self._make_assignment(job, None)
        if last is None:
            number, older = number + 1, [*older, number]
            self._shared_volume.write_assignment(self._attempt_at(job, number).name, assignment)
        for each in older:
            self._shared_volume.remove_attempt(self._attempt_at(job, each).name)
        resumed = resume_job(self._attempt_at(job, number), assignment, partial_step)
        return AttemptMachine(resumed, self._timings, self._start_history)

    def _attempt_at(self, job: Job, number: int) -> Attempt:
        return Attempt(self._deps.round_ref, job, number)

    # One job

    def _advance_job(self, machine: AttemptMachine, seen: Snapshot) -> Iterator[EventBatch]:
        """Observes the attempt of one job, and carries out the actions that follow."""
        yield from self._handle(machine, self._observe(machine, seen))

    def _handle(self, machine: AttemptMachine, event: AttemptEvent) -> Iterator[EventBatch]:
        """Passes an event to the machine of a job and carries out its actions; an action's answer is an event too."""
        for action in machine.handle(event):
            self._deps.lease.ensure_held()
            match action:
                case KeepBatch(batch):
                    yield batch
                case ParkJob(job, error, submission):
                    del self._machines[job.id]
                    self._parked_submissions.add(submission)
                    yield (parked_event(job, error),)
                case CreateJob(attempt):
                    yield from self._handle(machine, self._create_job(attempt))
                case FinishWithoutPlayer():
                    yield from self._handle(machine, self._finish_without_player(action))
                case _:
                    self._carry_out(action)

    def _carry_out(self, action: Action) -> None:
        """Carries out an action that yields nothing and has no answer."""
        match action:
            case AssignAttempt(attempt, partial_step):
                assignment = self._make_assignment(attempt.job, partial_step)
                self._shared_volume.write_assignment(attempt.name, assignment)
            case DeleteJob(attempt):
                self._view.delete_job(attempt.name)
            case RemoveFolder(attempt):
                self._shared_volume.remove_attempt(attempt.name)
            case LogJobEnd():
                _log_job_end(action)
            case CompleteJob(job):
                del self._machines[job.id]
                self._queue.mark_finished(job.id)

    def _observe(self, machine: AttemptMachine, seen: Snapshot) -> AttemptEvent:
        """Returns what the cluster and the volume show of a job's attempt.

        The order of reading matters, because the driver continues meanwhile. The files that a driver wrote before its
        pod ended are read after the list that shows the end of the pod. `end.json`, which counts the batches, is read
        after the batches: if there are more by then, the count does not match, and the next pass reads them. A driver
        writes the partial step before the end.
        """
        name = machine.job.attempt.name
        to_create = machine.state is MachineState.TO_CREATE
        job = seen.jobs.get(name)
        # Otherwise it makes no difference whether a driver has taken the attempt, and the volume is not read.
        unsure = to_create if job is None else bool(job["spec"].get("suspend"))
        is_taken = unsure and self._shared_volume.is_taken(name)
        if job is None and to_create and not is_taken:
            return JobAbsent(self._deps.clock())
        if job is None:  # a list may be older than the Job
            job = self._api.read(JOBS, name)
        status = derive_status(job, seen.pods_of(job), seen.warnings, taken=is_taken)
        batches = tuple(self._shared_volume.read_batches(name, machine.job.batches_read))
        end = self._shared_volume.read_end(name)
        partial_step = self._shared_volume.read_partial_step(name) if end is not None else None
        may_start = others_may_start(machine.job, (each.job for each in self._machines.values()))
        return AttemptObserved(self._deps.clock(), status, batches, end, partial_step, may_start)

    def _create_job(self, attempt: Attempt) -> AttemptEvent:
        """Creates the Job of an attempt, unless it exists; returns the result as an event.

        Raises:
            ClusterRefused: the API server refuses every Job, not this one.
        """
        try:
            created = self._api.create(JOBS, self._deps.render_job(self._with_pod_needs(attempt)))
        except ClusterRefused as error:
            if error.status == HTTPStatus.FORBIDDEN and "exceeded quota" in str(error):
                return QuotaExceeded(self._deps.clock(), str(error))
            if error.status in _INVALID_JOB_STATUSES:
                return JobRefused(self._deps.clock(), error)
            raise
        if created is None:
            found = self._api.read(JOBS, attempt.name)
            if found is not None and not _is_job_of(attempt, found):
                return NameTaken(self._deps.clock())
        return JobCreated(self._deps.clock())

    def _with_pod_needs(self, attempt: Attempt) -> Attempt:
        """Returns an attempt with what else decides its pod.

        For a replay, these are the nodes to avoid, on which its submission has played: the kernel of such a node may
        still cache the image's files. For a query job, it is whether the attack has still to play.
        """
        if attempt.job.stage not in {Stage.REPLAY, Stage.QUERY}:
            return attempt
        assignment = self._shared_volume.read_assignment(attempt.name)
        if attempt.job.stage is Stage.QUERY:
            return replace(attempt, has_attack=assignment is not None and bool(assignment.attack_image))
        return replace(
            attempt, avoided=nodes_played_on(assignment.events if assignment else (), attempt.job.submission)
        )

    def _finish_without_player(self, action: FinishWithoutPlayer) -> FinishedWithoutPlayer:
        assignment = self._make_assignment(action.job, action.partial_step)
        batches = self._deps.finish_without_player(assignment, action.submission, action.reason)
        return FinishedWithoutPlayer(self._deps.clock(), tuple(batches))

    # The end of a pass

    def _delete_unneeded_jobs(self, seen: Snapshot) -> None:
        """Deletes Jobs of this round that belong to no attempt: of an earlier plan, or made by a late controller."""
        attempt_names = {machine.job.attempt.name for machine in self._machines.values()}
        for job, numbers in self._earlier_attempts.items():
            attempt_names.add(self._attempt_at(self._plan.by_id[job], max(numbers)).name)
        for name in seen.jobs.keys() - attempt_names:
            self._deps.lease.ensure_held()
            self._view.delete_job(name)

    def _write_status(self) -> None:
        self._deps.lease.ensure_held()
        self._deps.status_file.write_attempts(
            ActiveAttempt(each.job.attempt, each.status) for each in self._machines.values()
        )


def _assignment_basis(assignment: Assignment) -> set[Hashable]:
    """Returns what an assignment is based on: steps with their results, and the answers that replays are drawn from."""
    steps = (each for each in assignment.events if isinstance(each, StepFinished))
    built: set[Hashable] = {(each.job, each.step, frozenset(each.blobs.items())) for each in steps}
    return built | {each.answers_digest for each in assignment.events if isinstance(each, PlayClosed)}


def _is_job_of(attempt: Attempt, job: Object) -> bool:
    labels, attempt_labels = job["metadata"].get("labels") or {}, attempt.labels()
    return all(labels.get(key) == attempt_labels[key] for key in (ROUND_LABEL, JOB_LABEL, ATTEMPT_LABEL))


def _log_job_end(action: LogJobEnd) -> None:
    """Logs the end of a job like that of a job on this machine, because a pod's own log is deleted with the pod."""
    attempt, end, wall = action.attempt, action.end, action.wall_seconds
    _log.info(
        "job_finished",
        contest=attempt.round_ref.contest,
        round=attempt.round_ref.round,
        job=end.job,
        stage=end.stage.value,
        submission=end.submission,
        attempt=attempt.number,
        node=action.node,
        seconds=round(end.seconds, 3),
        wall=None if wall is None else round(wall, 3),
    )
