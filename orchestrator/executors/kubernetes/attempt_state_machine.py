"""The attempts at one job as a state machine: events in, actions out.

It reads no clock, no volume and no API. Times come with the events, in the controller's seconds. `controller` makes the
events from what it reads, carries out the actions in their order, and returns an action's answer as another event.

An attempt is over when its driver wrote its end on the volume, or when its Job or its pod is gone. The next attempt is
assigned before the last one is removed, so that no number of an attempt comes back.

In each group of rows the first that holds is taken. "next" stands for the actions and the state of rows 22 to 25. An
"exit" is the end of a player whose cause its driver could not see (see `oom_correction`). It has no known cause if it
would count against the player although no status shows that the kernel ended it. In a job with two players, each has
its own container's status, and is refused, or at fault, for itself. An event that has no row in a state comes too late,
and changes nothing.

    row | event: condition                                     | actions                                | next state
    TO_CREATE: the attempt is assigned, and its Job was neither created nor seen
     1  | JobAbsent: before the time of the next try           | -                                      | TO_CREATE
     2  | JobAbsent: otherwise                                 | CreateJob                              | TO_CREATE
     3  | JobCreated                                           | -                                      | ACTIVE
     4  | QuotaExceeded                                        | -                                      | TO_CREATE
     5  | JobRefused                                           | KeepBatch, ParkJob                     | PARKED
     6  | NameTaken                                            | KeepBatch, ParkJob                     | PARKED
     7  | AttemptObserved: the Job is there after all          | rows 8 to 21                           | ACTIVE
    ACTIVE: the Job exists. ENDING: besides, the attempt is over, and its last files are awaited
        for each batch that was not read before:
     8  | AttemptObserved: the cause of an exit may still come | -, and no row below                    | same
     9  | AttemptObserved: an exit has no known cause          | KeepBatch, next                        | next
    10  | AttemptObserved: the ledger has the batch            | -                                      | same
    11  | AttemptObserved: the batch has the end of the job    | KeepBatch, LogJobEnd, row 27 or 28     | CLOSING
    12  | AttemptObserved: any other batch                     | KeepBatch                              | same
        then, where "ended" means that the driver wrote its end, and every batch that it counts was read:
    13  | AttemptObserved: ended, partial step as in row 8     | -                                      | same
    14  | AttemptObserved: ended, partial step as in row 9     | KeepBatch, next                        | next
    15  | AttemptObserved: ended, finished or with a fault     | KeepBatch, next                        | next
    16  | AttemptObserved: ended, another player is needed     | next                                   | next
    17  | AttemptObserved: the deadline passed before it began | next                                   | next
    18  | AttemptObserved: over, and files may still come      | -                                      | ENDING
    19  | AttemptObserved: over                                | KeepBatch, next                        | next
    20  | AttemptObserved: waits too long to start             | KeepBatch, next                        | next
    21  | AttemptObserved: otherwise                           | -                                      | ACTIVE
        the next attempt:
    22  | next: nodes refuse this player and no other          | FinishWithoutPlayer                    | same
    23  | next: nodes refuse it, and may refuse others         | AssignAttempt, DeleteJob, RemoveFolder | TO_CREATE
    24  | next: the third attempt that got nowhere             | DeleteJob, ParkJob                     | PARKED
    25  | next: otherwise                                      | AssignAttempt, DeleteJob, RemoveFolder | TO_CREATE
        the answer to row 22:
    26  | FinishedWithoutPlayer                                | KeepBatch                              | CLOSING
    CLOSING: the end of the job is on the ledger, and its driver may still write to its folder
    27  | AttemptObserved: the driver may still write          | -                                      | CLOSING
    28  | AttemptObserved: it ended, or had time to            | DeleteJob, RemoveFolder, CompleteJob   | DONE
    DONE, PARKED: the job is over for this controller

The machine keeps no state that the next controller could not find again in the ledger, on the volume and in the
cluster, except times and which players the nodes have started.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from orchestrator.domain.assignment import PartialStep
from orchestrator.domain.events import Event, JobFinished, StepFinished
from orchestrator.domain.plan import Job, Stage
from orchestrator.errors import (
    ClusterRefused,
    DriverLost,
    InfrastructureFault,
    PlayerLost,
    PlayerRefused,
    PodRefused,
)
from orchestrator.executors.base import EventBatch
from orchestrator.executors.kubernetes.active_job import ActiveJob, fault_from_code
from orchestrator.executors.kubernetes.attempt_status import AttemptState, AttemptStatus, describe_quota
from orchestrator.executors.kubernetes.labels import Attempt
from orchestrator.executors.kubernetes.pod_manifest import ATTACK, PLAYER
from orchestrator.executors.kubernetes.shared_volume import AttemptEnd, DriverOutcome
from orchestrator.executors.kubernetes.start_failures import NodeStartHistory, refused_submission
from orchestrator.executors.kubernetes.timings import ControllerTimings

MAX_FRUITLESS_ATTEMPTS = 3
"""Consecutive attempts without progress after which a job is given up."""
JOB_NOT_CREATED = AttemptStatus(AttemptState.WAITING, "not made yet", PodRefused)
JOB_CREATED = AttemptStatus(AttemptState.WAITING, "its Job was made", PodRefused)
_ENDED_STATES = {AttemptState.ENDED, AttemptState.TERMINATING}


class MachineState(StrEnum):
    """The state of a job between two events."""

    TO_CREATE = "to create"
    """Its attempt is assigned; the Job was neither created nor seen."""
    ACTIVE = "active"
    """The Job of its attempt exists, or existed."""
    ENDING = "ending"
    """Its attempt is over, as the cluster or the driver says, and its last files are awaited."""
    CLOSING = "closing"
    """Its end is in the ledger; its driver may still write to its folder."""
    DONE = "done"
    """Its Jobs and folders are removed from the cluster and the volume."""
    PARKED = "parked"
    """The job was given up until another run; its folder stays."""


# Events


@dataclass(frozen=True, slots=True)
class JobAbsent:
    """There is no Job of the attempt, and no driver has taken it."""

    time: float


@dataclass(frozen=True, slots=True)
class JobCreated:
    """The Job was created, or existed already as this attempt's."""

    time: float


@dataclass(frozen=True, slots=True)
class QuotaExceeded:
    """The Job was not created: the namespace's quota is used up. `message` is the API server's."""

    time: float
    message: str


@dataclass(frozen=True, slots=True)
class JobRefused:
    """The Job was not created, and never can be: the API server says that it is invalid."""

    time: float
    error: ClusterRefused


@dataclass(frozen=True, slots=True)
class NameTaken:
    """The Job was not created: a Job that is not this attempt's has its name."""

    time: float


@dataclass(frozen=True, slots=True)
class AttemptObserved:
    """What the cluster and the volume show of an attempt whose Job exists, or existed.

    `status` is derived from the Job and its pod. `batches` are those on the volume after the first
    `ActiveJob.batches_read`, `end` is the driver's end, `partial_step` the step that it left unfinished.
    `others_may_start`: whether another submission's active job may still show that the nodes start players.
    """

    time: float
    status: AttemptStatus
    batches: tuple[EventBatch, ...] = ()
    end: AttemptEnd | None = None
    partial_step: PartialStep | None = None
    others_may_start: bool = False


@dataclass(frozen=True, slots=True)
class FinishedWithoutPlayer:
    """The rest of the job was played without the player, with these batches of events."""

    time: float
    batches: tuple[EventBatch, ...]


AttemptEvent = JobAbsent | JobCreated | QuotaExceeded | JobRefused | NameTaken | AttemptObserved | FinishedWithoutPlayer


# Actions


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the Job of an attempt. The answer: JobCreated, QuotaExceeded, JobRefused or NameTaken."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class KeepBatch:
    """Store events in the ledger, all or none, before the next action."""

    batch: EventBatch


@dataclass(frozen=True, slots=True)
class LogJobEnd:
    """Log the end of a job like that of a job on this machine.

    `wall_seconds` are those since its Job was created, None if an earlier controller created it.
    """

    attempt: Attempt
    end: JobFinished
    node: str
    wall_seconds: float | None


@dataclass(frozen=True, slots=True)
class AssignAttempt:
    """Write the assignment of an attempt: the rest of the job, beginning with a partial step."""

    attempt: Attempt
    partial_step: PartialStep | None


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the Job of an attempt, with its pod."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class RemoveFolder:
    """Remove the folder of an attempt: everything in it is in the ledger, or in the next assignment."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class FinishWithoutPlayer:
    """Play the rest of the job without the player. The answer: FinishedWithoutPlayer.

    `submission` is the one whose player the nodes refuse to start.
    """

    job: Job
    partial_step: PartialStep | None
    submission: str
    reason: str


@dataclass(frozen=True, slots=True)
class ParkJob:
    """Give a job up until another run, and store the reason.

    No other job of `submission` is begun in this run; it is empty if either of two players may be the cause.
    """

    job: Job
    error: InfrastructureFault
    submission: str


@dataclass(frozen=True, slots=True)
class CompleteJob:
    """Mark a job as finished, so that jobs that need it may begin."""

    job: Job


Action = (
    CreateJob
    | KeepBatch
    | LogJobEnd
    | AssignAttempt
    | DeleteJob
    | RemoveFolder
    | FinishWithoutPlayer
    | ParkJob
    | CompleteJob
)


class _ExitCause(Enum):
    """The cause of an exit that the driver could not explain, in a driver's reports: see `oom_correction`."""

    CLEAR = auto()
    """The reports are stored unchanged: there is no such exit, or it does not count against the player."""
    PENDING = auto()
    """The status of the player's container may still explain the exit."""
    OUT_OF_MEMORY = auto()
    """The kernel ended the player at its memory limit."""
    UNKNOWN = auto()
    """The exit would count against the player, and nothing shows that the player caused it."""


@dataclass
class _AttemptMemory:
    """The state of one attempt that is not in the ledger.

    `queued`: from a wait without a time limit until the pod has a node. `node` is the pod's, from when it has one, also
    after the pod is gone. `loss` is the status that best explains why an attempt was lost. A time is None if what it
    measures has not begun.
    """

    retry_at: float = 0.0
    job_created_at: float | None = None
    status: AttemptStatus = JOB_NOT_CREATED
    queued: bool = False
    node: str = ""
    driver_ended: bool = False
    loss: AttemptStatus | None = None
    pending_since: float | None = None
    exit_pending_since: float | None = None

    def observe(self, event: AttemptObserved) -> None:
        """Updates the state from an observation."""
        status = event.status
        waits = status.state is AttemptState.WAITING and not status.node
        self.status, self.queued = status, status.waits_indefinitely or (self.queued and waits)
        self.node = status.node or self.node  # a pod that is gone has none
        self.driver_ended = event.end is not None

    def set_loss(self, status: AttemptStatus) -> AttemptStatus:
        """Records the status of an attempt that is over, and returns the one that explains it.

        The first status explains most, because the pod is gone later; but a Job may give the reason only after its pod
        was told to terminate.
        """
        self.loss = status if status.fault is DriverLost else self.loss or status
        return self.loss


class AttemptMachine:
    """The state machine of one job: `job` is its record with the current attempt, `state` its state.

    Args:
        job: the job, with the attempt that was assigned last.
        timings: the time limits of each wait.
        start_history: which players the nodes started, shared by all jobs of a round; the machine adds its own starts.
    """

    def __init__(self, job: ActiveJob, timings: ControllerTimings, start_history: NodeStartHistory) -> None:
        self.job, self.state = job, MachineState.TO_CREATE
        self._timings, self._start_history = timings, start_history
        self._state_since = 0.0
        self._memory = _AttemptMemory()

    @property
    def status(self) -> AttemptStatus:
        """The status of the attempt, for people."""
        return self._memory.status

    @property
    def driver_ended(self) -> bool:
        """Whether the driver's end was read, so that nothing more is expected from it."""
        return self._memory.driver_ended

    def handle(self, event: AttemptEvent) -> list[Action]:
        """Returns the actions to carry out, in this order.

        `job` is ahead of the ledger until they are carried out. A controller that cannot carry them out has to stop;
        the next one begins with what the ledger and the volume have.

        Raises:
            StoreFault: a batch is about another job.
        """
        match self.state:
            case MachineState.TO_CREATE:
                return self._handle_to_create(event)
            case MachineState.ACTIVE | MachineState.ENDING:
                return self._handle_active(event)
            case MachineState.CLOSING:
                return self._handle_closing(event)
            case MachineState.DONE | MachineState.PARKED:
                return []

    # TO_CREATE

    def _handle_to_create(self, event: AttemptEvent) -> list[Action]:
        actions: list[Action] = []
        match event:
            case JobAbsent(time) if time >= self._memory.retry_at:
                actions = [CreateJob(self.job.attempt)]
            case JobCreated(time):
                self._memory.job_created_at, self._memory.status = time, JOB_CREATED
                self._enter(MachineState.ACTIVE, time)
            case QuotaExceeded(time, message):
                description = describe_quota(message)
                self._memory.status = AttemptStatus(AttemptState.WAITING, description, PodRefused, times_out=False)
                self._memory.retry_at = time + self._timings.quota_retry_interval
            case JobRefused(time, error):
                actions = self._refuse(error, time)
            case NameTaken(time):
                name = self.job.attempt.name
                reason = f"a Job named {name} is there and is not this round's; delete it, and run again"
                actions = self._refuse(ClusterRefused(reason), time)
            case AttemptObserved():
                self._enter(MachineState.ACTIVE, event.time)
                actions = self._handle_active(event)
        return actions

    def _refuse(self, error: ClusterRefused, time: float) -> list[Action]:
        """Gives up a job whose Job cannot be created."""
        return [*self._record_failure(error, time), *self._park_job(error, time)]

    # ACTIVE and ENDING

    def _handle_active(self, event: AttemptEvent) -> list[Action]:
        match event:
            case AttemptObserved():
                was_queued = self._memory.queued
                self._memory.observe(event)
                return self._read_batches(event, was_queued=was_queued)
            case FinishedWithoutPlayer():
                return self._finish_without_player(event)
            case _:
                return []

    def _read_batches(self, event: AttemptObserved, *, was_queued: bool) -> list[Action]:
        """Stores the driver's batches before the attempt's status is assessed."""
        actions: list[Action] = []
        for batch in event.batches:
            unrecorded = self.job.unrecorded(batch)
            cause, containers = self._find_exit_cause(unrecorded, event)
            if cause is _ExitCause.PENDING:
                return actions  # this batch is read again, and the following ones after it
            if cause is _ExitCause.UNKNOWN:
                return [*actions, *self._lose_player(containers, event)]
            for container in containers:
                unrecorded = self.job.with_oom(unrecorded, container)
            actions += self._keep_batch(batch, unrecorded, event)
            if self.state is MachineState.CLOSING:
                return [*actions, *self._close_job(event)]
        return [*actions, *self._assess_attempt(event, was_queued=was_queued)]

    def _keep_batch(self, batch: EventBatch, unrecorded: EventBatch, event: AttemptObserved) -> list[Action]:
        """Stores the part of a batch that is not in the ledger, with the node on which its steps were played."""
        node, created_at = self._memory.node, self._memory.job_created_at
        placed = (
            batch_event.model_copy(update={"node": node}) if isinstance(batch_event, StepFinished) else batch_event
            for batch_event in unrecorded
        )
        actions = _kept(tuple(placed))
        self.job.record_batch(batch)
        for submission in _started_players(batch):
            self._start_history.record_start(submission, event.status.node, created_at)
        for batch_event in batch:
            if isinstance(batch_event, JobFinished):
                seconds = None if created_at is None else event.time - created_at
                actions.append(LogJobEnd(self.job.attempt, batch_event, node, seconds))
                self._enter(MachineState.CLOSING, event.time)
        return actions

    def _find_exit_cause(
        self, reports: Sequence[Event | PartialStep], event: AttemptObserved
    ) -> tuple[_ExitCause, list[str]]:
        """Returns what the containers' status says about exits that the driver could not explain.

        Also returns the containers whose players were out of memory, or the first one whose exit has no known cause.
        """
        containers = [each for each in (PLAYER, ATTACK) if self.job.has_ambiguous_exit(reports, each)]
        if not containers:
            return _ExitCause.CLEAR, []
        if self._memory.exit_pending_since is None:
            self._memory.exit_pending_since = event.time
        kills = {container: event.status.oom_kills.of(container) for container in containers}
        waited = event.time - self._memory.exit_pending_since
        if None in kills.values() and waited < self._timings.player_status_grace:
            return _ExitCause.PENDING, []
        self._memory.exit_pending_since = None
        for container, killed in kills.items():
            if not killed and self.job.is_charged_to_player(reports, container):
                return _ExitCause.UNKNOWN, [container]
        full = [container for container, killed in kills.items() if killed]
        return (_ExitCause.OUT_OF_MEMORY if full else _ExitCause.CLEAR), full

    def _lose_player(self, containers: Sequence[str], event: AttemptObserved) -> list[Action]:
        """Ends an attempt whose player in the first of these containers ended for an unknown cause."""
        return self._fail_attempt(PlayerLost(event.status.player_exits.of(containers[0])), event)

    def _assess_attempt(self, event: AttemptObserved, *, was_queued: bool) -> list[Action]:
        """Decides whether the attempt is over, after its batches were stored."""
        end, status = event.end, event.status
        if end is not None and self.job.batches_read >= end.batches:
            return self._conclude_attempt(event, end)
        if _never_began(status, was_queued=was_queued):
            return self._begin_next_attempt(self.job.remaining(self.job.resumed_step), event, counts=False)
        if end is not None or status.state in _ENDED_STATES:
            return self._await_last_files(event)
        return self._continue_attempt(event)

    def _conclude_attempt(self, event: AttemptObserved, end: AttemptEnd) -> list[Action]:
        """Ends an attempt whose driver has written its end."""
        partial_step = event.partial_step
        if partial_step is not None:
            cause, containers = self._find_exit_cause([partial_step], event)
            if cause is _ExitCause.PENDING:
                return []
            if cause is _ExitCause.UNKNOWN:
                return self._lose_player(containers, event)
            for container in containers:
                partial_step = self.job.step_with_oom(partial_step, container)
        if end.outcome is DriverOutcome.FINISHED:  # and no batch has the end of the job
            return self._fail_attempt(DriverLost("its driver said that it finished, and left no end of the job"), event)
        actions: list[Action] = []
        if end.outcome is DriverOutcome.FAULT:
            status, reported = event.status, fault_from_code(end.code, end.message)
            error = status.fault(status.description) if status.stuck_container else reported
            actions = self._record_failure(error, event.time)
        return [*actions, *self._begin_next_attempt(self.job.remaining(partial_step), event)]

    def _await_last_files(self, event: AttemptObserved) -> list[Action]:
        """Waits for the last files of an attempt that is over; if they do not come in time, the attempt was lost."""
        if self.state is not MachineState.ENDING:
            self._enter(MachineState.ENDING, event.time)
        loss = self._memory.set_loss(event.status)
        if event.time - self._state_since < self._last_files_grace(event):
            return []
        error = loss.fault(loss.description)
        if event.end is not None:
            missing = f"its driver handed out {event.end.batches} files, and {self.job.batches_read} are on the volume"
            error = DriverLost(missing)
        return self._fail_attempt(error, event)

    def _last_files_grace(self, event: AttemptObserved) -> float:
        if event.end is not None or event.status.driver_exited:
            return self._timings.driver_exit_grace
        if event.status.state is AttemptState.TERMINATING:
            return self._timings.termination_grace
        return self._timings.driver_kill_grace

    def _continue_attempt(self, event: AttemptObserved) -> list[Action]:
        """Lets an attempt wait or run, or ends it if it has waited too long for a node or an image."""
        status, memory = event.status, self._memory
        self._enter(MachineState.ACTIVE, event.time)
        if status.state is AttemptState.RUNNING:
            memory.loss = None  # the pod did not terminate after all, or a list was older than the one before
        if status.state is not AttemptState.WAITING or not status.times_out:
            memory.pending_since = None
            return []
        if memory.pending_since is None:
            memory.pending_since = event.time
        if event.time - memory.pending_since < self._timings.pending_timeout:
            return []
        return self._fail_attempt(status.fault(status.description), event)

    # CLOSING

    def _handle_closing(self, event: AttemptEvent) -> list[Action]:
        """Closes the job; a batch after the job's end is not stored, as another controller would not read it either."""
        if not isinstance(event, AttemptObserved):
            return []
        self._memory.observe(event)
        return self._close_job(event)

    def _close_job(self, event: AttemptObserved) -> list[Action]:
        """Removes the Job and the folder once the driver does not write to the folder any more."""
        has_ended = event.end is not None or event.status.state in _ENDED_STATES
        if not has_ended and event.time - self._state_since < self._timings.driver_exit_grace:
            return []
        attempt = self.job.attempt
        self._enter(MachineState.DONE, event.time)
        return [DeleteJob(attempt), RemoveFolder(attempt), CompleteJob(attempt.job)]

    # The next attempt, and the end of the job

    def _fail_attempt(self, error: InfrastructureFault, event: AttemptObserved) -> list[Action]:
        """Ends an attempt that was lost; its partial step is not used."""
        recorded = self._record_failure(error, event.time)
        return [*recorded, *self._begin_next_attempt(self.job.remaining(self.job.resumed_step), event)]

    def _record_failure(self, error: InfrastructureFault, time: float) -> list[Action]:
        status = self._memory.loss or self._memory.status
        culprit = self.job.player_in(status.stuck_container)
        if isinstance(error, PlayerRefused):
            self.job.record_start_failure(culprit, status.node, time)
        return _kept(self.job.record_failure(error, culprit))

    def _begin_next_attempt(
        self, partial_step: PartialStep | None, event: AttemptObserved, *, counts: bool = True
    ) -> list[Action]:
        """Assigns the next attempt, which continues with `partial_step`, or parks the job, or ends it without a player.

        `counts`: whether this attempt counts as fruitless if it made no progress.
        """
        last = self._memory.loss or event.status
        following = self.job.next_attempt(
            partial_step, counts_as_played=counts, rejected_by=last.node if last.rejected else ""
        )
        refused = refused_submission(following)
        if refused and self._start_history.starts_others(following, refused):
            reason = str(following.give_up_reason)
            return [FinishWithoutPlayer(self.job.attempt.job, partial_step, refused, reason)]
        retry_at = event.time + self._timings.start_retry_interval if last.rejected else 0.0
        if refused and event.others_may_start:
            retry_at = event.time + self._timings.start_retry_interval
        elif following.fruitless_attempts >= MAX_FRUITLESS_ATTEMPTS:
            return self._park_job(following.give_up_reason, event.time)
        over, self.job, self._memory = self.job.attempt, following, _AttemptMemory(retry_at)
        self._enter(MachineState.TO_CREATE, event.time)
        # Assigned first: folders show the next controller the attempts' numbers, so one folder always has to exist.
        return [AssignAttempt(following.attempt, partial_step), DeleteJob(over), RemoveFolder(over)]

    def _finish_without_player(self, event: FinishedWithoutPlayer) -> list[Action]:
        """Stores the events of the rest of the job, which was played without the player."""
        self._enter(MachineState.CLOSING, event.time)
        return [action for batch in event.batches for action in _kept(batch)]

    def _park_job(self, error: InfrastructureFault, time: float) -> list[Action]:
        """Gives the job up; its folder stays, so that the next controller continues with the next attempt."""
        deletion: list[Action] = [] if self.state is MachineState.TO_CREATE else [DeleteJob(self.job.attempt)]
        self._enter(MachineState.PARKED, time)
        job = self.job
        player = job.last_culprit or ("" if job.attack else job.attempt.job.submission)
        return [*deletion, ParkJob(job.attempt.job, error, player)]

    def _enter(self, state: MachineState, time: float) -> None:
        self.state, self._state_since = state, time


def _kept(batch: EventBatch) -> list[Action]:
    return [KeepBatch(batch)] if batch else []


def _started_players(batch: EventBatch) -> set[str]:
    """Returns the submissions whose players must have been started for these events.

    In a query job the attack is known to have started only when its sandbox has ended, and the defence only if it was
    asked.
    """
    steps = [event for event in batch if isinstance(event, StepFinished)]
    asked = {step.submission for step in steps if step.stage is not Stage.QUERY or step.seconds}
    return asked | {sandbox.submission for step in steps for sandbox in step.sandboxes if sandbox.submission}


def _never_began(status: AttemptStatus, *, was_queued: bool) -> bool:
    """Returns whether a Job's deadline passed while its attempt was queued, or before it had a pod."""
    overdue = status.state is AttemptState.ENDED and status.fault is DriverLost and not status.driver_exited
    return overdue and (was_queued or not status.had_pod)
