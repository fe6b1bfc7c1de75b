"""The attempts at one job as a state machine: events in, actions out.

It reads no clock, no volume and no API. Times come with the events, in the controller's seconds. `controller` makes the
events from what it reads, carries out the actions in their order, and hands back the answer of an action that has one.

An attempt is over when its driver wrote its end on the volume, or when its Job or its pod is gone. The next attempt is
assigned before the last one is removed, so that no number of an attempt comes back.

In each group of rows the first that holds is taken. "next" stands for the actions and the state of rows 22 to 25. An
"exit" is the end of a player that its driver could not attribute to anybody (see `oom_correction`). It has no known
cause where it would count against the player although no status shows that the kernel ended it. Where a job has two
players, each of them has its own container's status, and is refused, or at fault, for itself. An event that has no row
in a state comes too late, and changes nothing.

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

Nothing is remembered that the next controller could not find again from the ledger, the volume and the cluster, but for
times and for what nodes have started.
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
"""Attempts one after another that got nowhere, after which a job is given up."""
JOB_NOT_CREATED = AttemptStatus(AttemptState.WAITING, "not made yet", PodRefused)
JOB_CREATED = AttemptStatus(AttemptState.WAITING, "its Job was made", PodRefused)
_OVER = {AttemptState.ENDED, AttemptState.TERMINATING}


class MachineState(StrEnum):
    """Where a job stands, between two events."""

    TO_CREATE = "to create"
    """Its attempt is assigned; the Job was neither created nor seen."""
    ACTIVE = "active"
    """The Job of its attempt exists, or did."""
    ENDING = "ending"
    """Its attempt is over, by the cluster's or the driver's word, and its last files are awaited."""
    CLOSING = "closing"
    """Its end is on the ledger; its driver may still write to its folder."""
    DONE = "done"
    """Nothing is left of it on the cluster and on the volume."""
    PARKED = "parked"
    """It was given up, for another run; its folder stays."""


# Events


@dataclass(frozen=True, slots=True)
class JobAbsent:
    """There is no Job of the attempt, and no driver has taken it."""

    time: float


@dataclass(frozen=True, slots=True)
class JobCreated:
    """The Job was created, or one that is the attempt's was there."""

    time: float


@dataclass(frozen=True, slots=True)
class QuotaExceeded:
    """The Job was not created: the namespace's quota is used up. `message` is the API server's."""

    time: float
    message: str


@dataclass(frozen=True, slots=True)
class JobRefused:
    """The Job was not created, and never would be: the API server finds it invalid."""

    time: float
    error: ClusterRefused


@dataclass(frozen=True, slots=True)
class NameTaken:
    """The Job was not created: one that is not the attempt's has its name."""

    time: float


@dataclass(frozen=True, slots=True)
class AttemptObserved:
    """What there is of an attempt whose Job is there, or was.

    `status` is by the Job and its pod. `batches` are those on the volume behind the first `ActiveJob.batches_read`,
    `end` how the driver says that it ended, `partial_step` what it left half played. `others_may_start`: whether
    another submission's job is under way that may yet show what the nodes start.
    """

    time: float
    status: AttemptStatus
    batches: tuple[EventBatch, ...] = ()
    end: AttemptEnd | None = None
    partial_step: PartialStep | None = None
    others_may_start: bool = False


@dataclass(frozen=True, slots=True)
class FinishedWithoutPlayer:
    """What is left of the job came out, without a player, as these batches."""

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
    """Keep events on the ledger, all or none, before anything else is done."""

    batch: EventBatch


@dataclass(frozen=True, slots=True)
class LogJobEnd:
    """Log the end of a job, as that of a job on this machine is logged.

    `wall_seconds` are those since its Job was created, None where an earlier controller created it.
    """

    attempt: Attempt
    end: JobFinished
    node: str
    wall_seconds: float | None


@dataclass(frozen=True, slots=True)
class AssignAttempt:
    """Write down what an attempt is to play: what is left of the job, beginning with a half-played step."""

    attempt: Attempt
    partial_step: PartialStep | None


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the Job of an attempt, with its pod."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class RemoveFolder:
    """Remove the folder of an attempt: everything in it is on the ledger, or in the next assignment."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class FinishWithoutPlayer:
    """Find out what is left of the job comes to without a player. The answer: FinishedWithoutPlayer.

    `submission` is the one whose player nodes refuse.
    """

    job: Job
    partial_step: PartialStep | None
    submission: str
    reason: str


@dataclass(frozen=True, slots=True)
class ParkJob:
    """Give a job up until another run, and keep why.

    `submission` is the one with which no other job is begun in this run; empty where it may be either of two players.
    """

    job: Job
    error: InfrastructureFault
    submission: str


@dataclass(frozen=True, slots=True)
class CompleteJob:
    """Take a job as finished, so that those that need it may begin."""

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
    """What is to be made of reports in which a player may have ended without a word: see `oom_correction`."""

    CLEAR = auto()
    """They are kept as they are: no such end, or none that is held against the player."""
    PENDING = auto()
    """The status of the player's container may yet explain it."""
    OUT_OF_MEMORY = auto()
    """The kernel ended the player at its memory limit."""
    UNKNOWN = auto()
    """It would be held against the player, and nobody can say that the player did it."""


@dataclass
class _AttemptMemory:
    """What is remembered of one attempt, besides what is on the ledger.

    `queued` from a wait that nobody gives up until the pod has a node. `node` is the pod's, once it has one, also when
    the pod is gone. `loss` is the status that says most of why an attempt was lost. Times are None where nothing has
    begun.
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
        """Notes where the attempt stands."""
        status = event.status
        waits = status.state is AttemptState.WAITING and not status.node
        self.status, self.queued = status, status.waits_indefinitely or (self.queued and waits)
        self.node = status.node or self.node  # a pod that is gone has none
        self.driver_ended = event.end is not None

    def set_loss(self, status: AttemptStatus) -> AttemptStatus:
        """Notes the status of an attempt that is over, and returns the one that says why.

        What was seen first says most, later the pod is gone; but a Job may say why only after its pod was told to go.
        """
        self.loss = status if status.fault is DriverLost else self.loss or status
        return self.loss


class AttemptMachine:
    """Plays one job: `job` is the record of the attempt under way, `state` is where the job stands.

    Args:
        job: the job, with the attempt that was assigned last.
        timings: how long the machine waits for what.
        start_history: what the nodes have started, shared by all jobs of a round; this one notes its own starts there.
    """

    def __init__(self, job: ActiveJob, timings: ControllerTimings, start_history: NodeStartHistory) -> None:
        self.job, self.state = job, MachineState.TO_CREATE
        self._timings, self._start_history = timings, start_history
        self._state_since = 0.0
        self._memory = _AttemptMemory()

    @property
    def status(self) -> AttemptStatus:
        """Where the attempt stands, for people."""
        return self._memory.status

    @property
    def driver_ended(self) -> bool:
        """Whether the attempt's driver was seen to have ended, so that nothing more of it need be waited for."""
        return self._memory.driver_ended

    def handle(self, event: AttemptEvent) -> list[Action]:
        """Returns what is to be done, in this order.

        `job` is ahead of the ledger until that is done. A controller that cannot do it has to stop; the next one begins
        with what the ledger and the volume have.

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
        """Keeps what the driver handed out, before anything is made of how the attempt stands."""
        actions: list[Action] = []
        for batch in event.batches:
            unrecorded = self.job.unrecorded(batch)
            cause, containers = self._find_exit_cause(unrecorded, event)
            if cause is _ExitCause.PENDING:
                return actions  # this batch is read again; what follows it stands on it
            if cause is _ExitCause.UNKNOWN:
                return [*actions, *self._lose_player(containers, event)]
            for container in containers:
                unrecorded = self.job.with_oom(unrecorded, container)
            actions += self._keep_batch(batch, unrecorded, event)
            if self.state is MachineState.CLOSING:
                return [*actions, *self._close_job(event)]
        return [*actions, *self._assess_attempt(event, was_queued=was_queued)]

    def _keep_batch(self, batch: EventBatch, unrecorded: EventBatch, event: AttemptObserved) -> list[Action]:
        """Keeps the part of a batch that is not on the ledger, with the node on which its steps were played."""
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
        """Returns what the status of the players' containers makes of ends that the driver could not attribute.

        With it come the containers whose players were out of memory, or the first one whose end has no known cause.
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
        """Ends an attempt whose player in the first of these containers ended, and nobody can say why."""
        return self._fail_attempt(PlayerLost(event.status.player_exits.of(containers[0])), event)

    def _assess_attempt(self, event: AttemptObserved, *, was_queued: bool) -> list[Action]:
        """Decides whether the attempt is over, everything that it handed out being kept."""
        end, status = event.end, event.status
        if end is not None and self.job.batches_read >= end.batches:
            return self._conclude_attempt(event, end)
        if _never_began(status, was_queued=was_queued):
            return self._begin_next_attempt(self.job.remaining(self.job.resumed_step), event, counts=False)
        if end is not None or status.state in _OVER:
            return self._await_last_files(event)
        return self._continue_attempt(event)

    def _conclude_attempt(self, event: AttemptObserved, end: AttemptEnd) -> list[Action]:
        """Ends an attempt whose driver has said how it ended."""
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
        """Waits for the last files of an attempt that is over; then it was lost."""
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
        """Lets an attempt wait or run, unless it has waited for a node or an image for too long."""
        status, memory = event.status, self._memory
        self._enter(MachineState.ACTIVE, event.time)
        if status.state is AttemptState.RUNNING:
            memory.loss = None  # it was told to go, and did not; or a list was older than the one before
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
        """Tidies up; a batch behind the end of the job is not kept, as no other controller would look at the job."""
        if not isinstance(event, AttemptObserved):
            return []
        self._memory.observe(event)
        return self._close_job(event)

    def _close_job(self, event: AttemptObserved) -> list[Action]:
        """Tidies up once the driver does not write to its folder any more."""
        over = event.end is not None or event.status.state in _OVER
        if not over and event.time - self._state_since < self._timings.driver_exit_grace:
            return []
        attempt = self.job.attempt
        self._enter(MachineState.DONE, event.time)
        return [DeleteJob(attempt), RemoveFolder(attempt), CompleteJob(attempt.job)]

    # What becomes of the job

    def _fail_attempt(self, error: InfrastructureFault, event: AttemptObserved) -> list[Action]:
        """Ends an attempt that was lost: what it left half played is not used."""
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
        """Has the next attempt go on with `partial_step`, or gives the job up, or ends it without its player.

        `counts`: whether this attempt is one of those that got nowhere, where it finished nothing.
        """
        following = self.job.next_attempt(partial_step, counts_as_played=counts)
        refused = refused_submission(following)
        if refused and self._start_history.starts_others(following, refused):
            reason = str(following.give_up_reason)
            return [FinishWithoutPlayer(self.job.attempt.job, partial_step, refused, reason)]
        retry_at = 0.0
        if refused and event.others_may_start:
            retry_at = event.time + self._timings.start_retry_interval
        elif following.fruitless_attempts >= MAX_FRUITLESS_ATTEMPTS:
            return self._park_job(following.give_up_reason, event.time)
        over, self.job, self._memory = self.job.attempt, following, _AttemptMemory(retry_at)
        self._enter(MachineState.TO_CREATE, event.time)
        # Assigned first: attempts' numbers are found again by their folders, so one of them always has to be there.
        return [AssignAttempt(following.attempt, partial_step), DeleteJob(over), RemoveFolder(over)]

    def _finish_without_player(self, event: FinishedWithoutPlayer) -> list[Action]:
        """Keeps what is left of the job as it came out without its player."""
        self._enter(MachineState.CLOSING, event.time)
        return [action for batch in event.batches for action in _kept(batch)]

    def _park_job(self, error: InfrastructureFault, time: float) -> list[Action]:
        """Gives the job up; its folder stays, so that the next controller goes on with the attempt after."""
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
    """Returns whose players must have been started for these events.

    In a query job the attack has ended before it is known, and its defence may not have been asked.
    """
    steps = [event for event in batch if isinstance(event, StepFinished)]
    asked = {step.submission for step in steps if step.stage is not Stage.QUERY or step.seconds}
    return asked | {sandbox.submission for step in steps for sandbox in step.sandboxes if sandbox.submission}


def _never_began(status: AttemptStatus, *, was_queued: bool) -> bool:
    """Whether a Job's deadline passed while its attempt was queued, or before there was a pod at all."""
    overdue = status.state is AttemptState.ENDED and status.fault is DriverLost and not status.driver_exited
    return overdue and (was_queued or not status.had_pod)
