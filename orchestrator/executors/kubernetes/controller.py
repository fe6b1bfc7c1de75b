"""The controller: lists what is there, compares it with what is wanted, acts, and waits for the next look.

It remembers nothing that it could not find again from the ledger, the exchange and a list, so it may be killed and
started again at any moment. Every look costs one list of Jobs and one of pods; watches only make the next one come
sooner. Jobs and folders of what is finished are removed at once, so no look grows with them. Kubernetes schedules.

An attempt is over when its driver has said so on the volume, or when its Job or pod is gone and nothing was said. Then
the next one is assigned before the old one is removed, so that numbers never come back.
"""

import time
from collections.abc import Callable, Generator, Hashable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Protocol

from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.events import AnswersCommitted, StepFinished
from orchestrator.domain.ids import JobId
from orchestrator.domain.parking import parked_event
from orchestrator.domain.places import played_on
from orchestrator.domain.plan import Job, Plan, Stage
from orchestrator.errors import (
    ClusterRefused,
    DriverLost,
    InfrastructureFault,
    PlayerLost,
    PlayerRefused,
    PodLost,
    PodRefused,
)
from orchestrator.executors.kubernetes.active_job import ActiveJob, EventBatch, fault_from_code, resume_job
from orchestrator.executors.kubernetes.api import JOBS, Api
from orchestrator.executors.kubernetes.api_response import Object
from orchestrator.executors.kubernetes.attempt_status import AttemptState, AttemptStatus, derive_status, describe_quota
from orchestrator.executors.kubernetes.cluster_view import ClusterView, Snapshot
from orchestrator.executors.kubernetes.labels import ATTEMPT_LABEL, JOB_LABEL, ROUND_LABEL, Attempt, RoundRef
from orchestrator.executors.kubernetes.shared_volume import AttemptEnd, DriverOutcome, SharedVolume
from orchestrator.executors.kubernetes.start_failures import MIN_START_FAILURES, NodeStartHistory, others_may_start
from orchestrator.executors.kubernetes.status_file import ActiveAttempt, StatusFile
from orchestrator.executors.kubernetes.timings import ControllerTimings

MAX_FRUITLESS_ATTEMPTS = 3
"""Attempts one after another that got nowhere, after which a job is given up."""
FULLY_POLLED_ATTEMPTS = 20
"""Attempts under way whose folders are glanced at as often as `Pace.glance` says; of more, more seldom."""
_INVALID_JOB_STATUSES = {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}

JOB_CREATED = AttemptStatus(AttemptState.WAITING, "its Job was made", PodRefused)

MakeAssignment = Callable[[Job, PartialStep | None], Assignment]
"""Returns what is left of a job; the half-played step is what its last attempt left."""
FinishWithoutPlayer = Callable[[Assignment, str], list[EventBatch]]
"""Returns what is left of a job as it comes out where the player cannot be started, for the reason given."""


class LeaseHolder(Protocol):
    """The right to run the round: see cluster.lease."""

    def check(self) -> None:
        """Raises LeaseLost where another controller may have it."""
        ...


@dataclass(frozen=True)
class ControllerDeps:
    """Where a round is played: the API, the exchange, whose objects they are, and how a Job is written.

    `most` is how many Jobs there may be at a time. `render` returns the Job of an attempt, `unplayed` what a job comes
    to whose player the runtime refuses. `gpus`: whether players get any.
    """

    api: Api
    exchange: SharedVolume
    bout: RoundRef
    render: Callable[[Attempt], Object]
    unplayed: FinishWithoutPlayer
    lease: LeaseHolder
    board: StatusFile
    most: int = 20
    gpus: bool = False
    pace: ControllerTimings = field(default_factory=ControllerTimings)
    clock: Callable[[], float] = time.monotonic


class Controller:
    """Plays what is left of one plan."""

    def __init__(self, site: ControllerDeps, plan: Plan, done: AbstractSet[JobId], assign: MakeAssignment) -> None:
        self._site, self._api, self._exchange, self._pace = site, site.api, site.exchange, site.pace
        self._plan, self._assign = plan, assign
        self._agenda = plan.agenda(done)
        self._flights: dict[str, ActiveJob] = {}
        self._parked: set[str] = set()  # submissions
        self._done = done
        self._attempts: dict[JobId, list[int]] = {}
        self._starts = NodeStartHistory(gpus=site.gpus)
        self._scenery = ClusterView(site.api, f"{ROUND_LABEL}={site.bout.of}", site.pace.warnings, site.clock)

    def run(self) -> Iterator[EventBatch]:
        """Yields what happens until nothing is left that can be played. Each is kept before the next is asked for.

        Raises:
            InfrastructureFault: the cluster, the volume or the lease failed.
            ValueError: jobs are left that wait for something which nothing in the plan makes, and none is parked.
        """
        self._site.lease.check()
        self._attempts = self._found()
        try:
            while True:
                seen = self._scenery.look(self._flights.values())
                looked: set[str] = set()
                while flights := self._not_in(looked):
                    for flight in flights:
                        looked.add(flight.attempt.name)
                        yield from self._advance(flight, seen)
                self._sweep(seen)
                self._show()
                if not self._flights:
                    break
                self._rest()
        finally:
            self._scenery.close()
        if (left := self._agenda.left) and not self._parked:
            raise ValueError(f"the plan cannot be done: {', '.join(left)} wait for what it does not hold")

    def _rest(self) -> None:
        """Waits for the next look: sooner where a driver has left its last word, so that the next job need not wait."""
        awaited = [flight.attempt.name for flight in self._flights.values() if not flight.ended]
        glance = self._pace.glance * max(1.0, len(awaited) / FULLY_POLLED_ATTEMPTS)
        self._scenery.wait(self._pace.least, self._pace.look, glance, lambda: any(map(self._exchange.ended, awaited)))

    # Where a controller begins

    def _found(self) -> dict[JobId, list[int]]:
        """Returns the attempts that an earlier controller assigned; forgets those of jobs that are finished."""
        keys = {self._attempt(job, 1).key: job for job in self._plan.jobs}
        found: dict[JobId, list[int]] = {}
        for key, number in self._exchange.known():
            job = keys.get(key)
            if job is not None and job.id in self._done:
                self._exchange.forget(self._attempt(job, number).name)
            elif job is not None:
                found.setdefault(job.id, []).append(number)
        return found

    def _not_in(self, looked: AbstractSet[str]) -> list[ActiveJob]:
        """Returns what is under way and was not looked at, after jobs that are ready were taken while there is room.

        Those that were begun before come first.
        """
        while len(self._flights) < self._site.most:
            job = self._agenda.take(lambda job: self._plays(job) and job.id in self._attempts)
            job = job or self._agenda.take(self._plays)
            if job is None:
                break
            self._flights[job.id] = self._begin(job)
        return [each for each in self._flights.values() if each.attempt.name not in looked]

    def _plays(self, job: Job) -> bool:
        return job.submission not in self._parked

    def _begin(self, job: Job) -> ActiveJob:
        """Finds the last attempt at a job again, or assigns the first, or the next where what was assigned is void."""
        self._site.lease.check()
        *older, number = sorted(self._attempts.pop(job.id, [])) or [0]
        before = self._exchange.assigned(self._attempt(job, number).name) if number else None
        half = before.half if before else None
        assignment = self._assign(job, half)
        if before is not None and not _assignment_basis(before) <= _assignment_basis(
            assignment
        ):  # steps were lost since, or it grew
            before, half = None, None
            assignment = self._assign(job, None)
        if before is None:
            number, older = number + 1, [*older, number]
            self._exchange.assign(self._attempt(job, number).name, assignment)
        for each in older:
            self._exchange.forget(self._attempt(job, each).name)
        return resume_job(self._attempt(job, number), assignment, half)

    def _attempt(self, job: Job, number: int) -> Attempt:
        return Attempt(self._site.bout, job, number)

    # One attempt

    def _advance(self, flight: ActiveJob, seen: Snapshot) -> Iterator[EventBatch]:
        """Brings one job on its way: reads what its driver handed out, and decides whether its attempt is over."""
        name, queued = flight.attempt.name, flight.queued
        job = seen.jobs.get(name)
        unsure = not flight.made if job is None else job["spec"].get("suspend")
        begun = bool(unsure) and self._exchange.begun(name)
        if job is None and not flight.made and not begun:
            yield from self._make(flight)
            return
        if job is None:  # a list may be older than what we did since
            job = self._api.read(JOBS, name)
        flight.made = True
        now = derive_status(job, seen.pods_of(job), seen.warnings, begun=begun)
        flight.stands(now)
        if (yield from self._read(flight, now)):
            return
        end = self._exchange.end(name)
        flight.ended = end is not None
        if flight.finished:
            self._finish(flight, now, end)
        elif end is not None and flight.read >= end.batches:
            yield from self._conclude(flight, end, now)
        elif queued and now.state is AttemptState.OVER and now.fault is DriverLost and not now.spoken:
            # The deadline passed while it was queued.
            yield from self._go_on(flight, flight.left(flight.given), counts=False)
        elif end is not None or now.state in {AttemptState.OVER, AttemptState.LEAVING}:
            yield from self._late(flight, now, end)
        else:
            flight.late_since = None
            if (
                now.state is AttemptState.RUNNING
            ):  # it was told to go, and did not; a list may be older than the one before
                flight.verdict = None
            yield from self._wait(flight, now)

    def _make(self, flight: ActiveJob) -> Iterator[EventBatch]:
        """Makes the Job of an attempt, unless it is there."""
        name = flight.attempt.name
        if self._site.clock() < flight.again_at:
            return
        self._site.lease.check()
        try:
            made = self._api.create(JOBS, self._site.render(self._kept_off(flight.attempt)))
        except ClusterRefused as error:
            if error.status == HTTPStatus.FORBIDDEN and "exceeded quota" in str(error):
                flight.standing = AttemptStatus(
                    AttemptState.WAITING, describe_quota(str(error)), PodRefused, bounded=False
                )
                flight.again_at = self._site.clock() + self._pace.quota
                return
            if error.status not in _INVALID_JOB_STATUSES:
                raise
            yield from self._kept(flight.failed(error))
            yield from self._give_up(flight, error)
            return
        if made is None and (there := self._api.read(JOBS, name)) is not None and not self._is_ours(flight, there):
            foreign = ClusterRefused(f"a Job named {name} is there and is not this round's; delete it, and run again")
            yield from self._kept(flight.failed(foreign))
            yield from self._give_up(flight, foreign)
            return
        flight.made, flight.made_at, flight.standing = True, self._site.clock(), JOB_CREATED

    def _kept_off(self, attempt: Attempt) -> Attempt:
        """Returns an attempt with the nodes on which its submission has played, where it is a replay.

        What the kernel of such a node remembers of the image's files would be there for the replay.
        """
        if attempt.job.stage is not Stage.REPLAY:
            return attempt
        assignment = self._exchange.assigned(attempt.name)
        return replace(attempt, avoided=played_on(assignment.events if assignment else (), attempt.job.submission))

    def _is_ours(self, flight: ActiveJob, there: Object) -> bool:
        labels, own = there["metadata"].get("labels") or {}, flight.attempt.labels()
        return all(labels.get(key) == own[key] for key in (ROUND_LABEL, JOB_LABEL, ATTEMPT_LABEL))

    def _kept(self, batch: EventBatch) -> Iterator[EventBatch]:
        """Yields what is to be kept together, if that is anything and this controller still may."""
        if batch:
            self._site.lease.check()
            yield batch

    def _read(self, flight: ActiveJob, now: AttemptStatus) -> Generator[EventBatch, None, bool]:
        """Yields what the driver handed out since the last look; returns whether something of it must still wait."""
        for batch in self._exchange.batches(flight.attempt.name, flight.read):
            fresh = flight.fresh(batch)
            if fresh and flight.is_doubtful(fresh):
                if self._is_held(flight, now):
                    return True
                if now.oom:
                    fresh = flight.settled(fresh)
                elif flight.is_blamed(fresh):
                    yield from self._failed(flight, PlayerLost(now.player))
                    return True
            yield from self._kept(flight.placed(fresh))
            flight.took(batch)
            if any(isinstance(each, StepFinished) for each in batch):
                self._starts.note(flight, now.node)
            flight.log(batch, now.node, self._site.clock())
        return False

    def _is_held(self, flight: ActiveJob, now: AttemptStatus) -> bool:
        """Whether the status of the player's container is still to be waited for."""
        since = flight.held_since = flight.held_since or self._site.clock()
        if now.oom is None and self._site.clock() - since < self._pace.status:
            return True
        flight.held_since = None
        return False

    def _conclude(self, flight: ActiveJob, end: AttemptEnd, now: AttemptStatus) -> Iterator[EventBatch]:
        """Ends an attempt whose driver has said how it ended."""
        half = self._exchange.half(flight.attempt.name)
        if half is not None and flight.is_doubtful([half]):
            if self._is_held(flight, now):
                return
            if now.oom:
                half = flight.settled_half(half)
            elif flight.is_blamed([half]):
                yield from self._failed(flight, PlayerLost(now.player))
                return
        if end.outcome is DriverOutcome.FINISHED:  # and nothing said that the job is
            yield from self._failed(flight, DriverLost("its driver said that it finished, and left no end of the job"))
            return
        if end.outcome is DriverOutcome.FAULT:
            error = now.fault(now.words) if now.stuck else fault_from_code(end.code, end.message)
            yield from self._noted(flight, error)
        yield from self._go_on(flight, flight.left(half))

    def _late(self, flight: ActiveJob, now: AttemptStatus, end: AttemptEnd | None) -> Iterator[EventBatch]:
        """Waits for the last words of an attempt that is over; then it was lost."""
        since = flight.late_since = flight.late_since or self._site.clock()
        # What was seen first says most, later the pod is gone; but a Job may say why only after its pod was told to go.
        verdict = flight.verdict = now if now.fault is DriverLost else flight.verdict or now
        spoken = end is not None or now.spoken
        patience = (
            self._pace.late if spoken else self._pace.leaving if now.state is AttemptState.LEAVING else self._pace.lost
        )
        if self._site.clock() - since < patience:
            return
        error: PodLost = verdict.fault(verdict.words)
        if end is not None:
            error = DriverLost(f"its driver handed out {end.batches} files, and {flight.read} are on the volume")
        yield from self._failed(flight, error)

    def _wait(self, flight: ActiveJob, now: AttemptStatus) -> Iterator[EventBatch]:
        """Gives up an attempt that waits for a node or an image for too long."""
        if now.state is not AttemptState.WAITING or not now.bounded:
            flight.waits_since = None
            return
        flight.waits_since = flight.waits_since or self._site.clock()
        if self._site.clock() - flight.waits_since >= self._pace.pending:
            yield from self._failed(flight, now.fault(now.words))

    # What comes of it

    def _failed(self, flight: ActiveJob, error: InfrastructureFault) -> Iterator[EventBatch]:
        yield from self._noted(flight, error)
        yield from self._go_on(flight, flight.left(flight.given))

    def _noted(self, flight: ActiveJob, error: InfrastructureFault) -> Iterator[EventBatch]:
        if isinstance(error, PlayerRefused):
            flight.refused(self._site.clock())
        yield from self._kept(flight.failed(error))

    def _go_on(self, flight: ActiveJob, half: PartialStep | None, *, counts: bool = True) -> Iterator[EventBatch]:
        """Has the next attempt take over, or gives the job up, or ends it without its player."""
        following = flight.next(half, counts=counts)
        refused = len(following.refusals) >= MIN_START_FAILURES
        if refused and self._starts.others(following):
            self._site.lease.check()
            for batch in self._site.unplayed(self._assign(flight.attempt.job, half), str(following.why)):
                yield from self._kept(batch)
                flight.took(batch)
            return
        if refused and others_may_start(flight, self._flights.values()):
            following.again_at = self._site.clock() + self._pace.refused
        elif following.fruitless >= MAX_FRUITLESS_ATTEMPTS:
            yield from self._give_up(flight, following.why)
            return
        self._site.lease.check()
        self._exchange.assign(following.attempt.name, self._assign(flight.attempt.job, half))
        self._remove(flight)
        self._exchange.forget(flight.attempt.name)
        self._flights[flight.attempt.job.id] = following

    def _give_up(self, flight: ActiveJob, error: InfrastructureFault) -> Iterator[EventBatch]:
        """Parks a job; its folder stays, so that the next controller goes on with the attempt after."""
        self._remove(flight)
        job = flight.attempt.job
        del self._flights[job.id]
        self._parked.add(job.submission)
        yield from self._kept((parked_event(job, error),))

    def _finish(self, flight: ActiveJob, now: AttemptStatus, end: AttemptEnd | None) -> None:
        """Tidies up after a job that is on record, once its driver does not write to its folder any more."""
        since = flight.late_since = flight.late_since or self._site.clock()
        leaves = end is not None or now.state in {AttemptState.OVER, AttemptState.LEAVING}
        if not leaves and self._site.clock() - since < self._pace.late:
            return
        self._remove(flight)
        self._exchange.forget(flight.attempt.name)
        del self._flights[flight.attempt.job.id]
        self._agenda.finished(flight.attempt.job.id)

    def _remove(self, flight: ActiveJob) -> None:
        self._site.lease.check()
        if flight.made:
            self._scenery.delete(flight.attempt.name)

    def _sweep(self, seen: Snapshot) -> None:
        """Deletes Jobs of this round that nobody needs: of an earlier plan, or made by a controller that was late."""
        wanted = {flight.attempt.name for flight in self._flights.values()}
        for job, numbers in self._attempts.items():
            wanted.add(self._attempt(self._plan.by_id[job], max(numbers)).name)
        for name in seen.jobs.keys() - wanted:
            self._site.lease.check()
            self._scenery.delete(name)

    def _show(self) -> None:
        self._site.lease.check()
        self._site.board.show(ActiveAttempt(each.attempt, each.standing) for each in self._flights.values())


def _assignment_basis(assignment: Assignment) -> set[Hashable]:
    """Returns what an assignment builds on: steps, with what they came to, and the answers that replays follow from."""
    steps = (each for each in assignment.events if isinstance(each, StepFinished))
    built: set[Hashable] = {(each.job, each.step, frozenset(each.blobs.items())) for each in steps}
    return built | {each.answers for each in assignment.events if isinstance(each, AnswersCommitted)}
