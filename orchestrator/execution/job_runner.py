"""Plays one job, with its retries.

A job is a sequence of steps. The runner emits each step as soon as it is finished, so a killed orchestrator loses only
the step in progress. An infrastructure fault ends the attempt, and the next attempt plays the remaining steps. The
runner gives the job up after `MAX_ATTEMPTS` consecutive attempts that failed at the same step (rule X1), or when an
unavailable backend does not come back.
"""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential

from orchestrator.domain import events
from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.plan import Job, Stage
from orchestrator.domain.submissions import Side
from orchestrator.errors import GaveUp, InfrastructureFault, PlayerAbsent, PodUsedUp
from orchestrator.execution import query_steps, retry
from orchestrator.execution.fault_budget import FaultBudget
from orchestrator.execution.fresh_copy import FreshCopy
from orchestrator.execution.job_input import events_for_job
from orchestrator.execution.job_steps import JobSteps, StepResult
from orchestrator.execution.player_pool import PlayerPool, SandboxExit, child_process_oom_faults
from orchestrator.execution.query_steps import OrganizerQuerySteps, SubmittedQuerySteps, UnstartedDefenceSteps
from orchestrator.execution.round_context import RoundContext
from orchestrator.executors.base import Emit, FreeSlot, keep_slot
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.ledger.read_model import RoundView
from orchestrator.logs import get_logger

MAX_ATTEMPTS = 3

_log = get_logger()


class JobRunner:
    """Plays one job on one device."""

    def __init__(
        self,
        job: Job,
        context: RoundContext,
        view: RoundView,
        device: str | None,
        partial_step: PartialStep | None = None,
        *,
        copy: FreshCopy | None = None,
    ) -> None:
        self._job, self._context, self._view, self._device = job, context, view, device
        self._partial_step = partial_step
        self._carried_sandboxes = [] if partial_step is None else list(partial_step.sandboxes)
        finished = view.steps(job.id)
        # Seeds continue after the recorded sandboxes: those that a killed orchestrator lost are started again.
        recorded = [*self._carried_sandboxes, *(sandbox for step in finished.values() for sandbox in step.sandboxes)]
        sandbox_numbers = itertools.count(sum(not sandbox.submission for sandbox in recorded))
        self._copy = copy or (FreshCopy.of(context, job.submission) if job.stage is Stage.REPLAY else None)
        self._pool = PlayerPool(
            context,
            context.roster[job.submission],
            job.id,
            lambda: context.secret_seed("seed", *job.seed_parts, str(next(sandbox_numbers))),
            device=device,
            prestart_allowed=device is None and not self._joins_attack,
            fresh_copy=self._copy,
        )
        self._attack_pool = self._make_attack_pool()
        if partial_step is not None:
            self._pool.latest_seed = partial_step.seed
        self._begin_attempt(finished)
        self._running = False
        self._free_slot: FreeSlot = keep_slot
        self._deferred_events: tuple[events.StepFinished, ...] = ()
        self._log = _log.bind(
            contest=context.contest,
            round=context.round,
            job=job.id,
            stage=job.stage.value,
            submission=job.submission,
            **({"attack": job.cells[0].attack} if job.stage is Stage.QUERY else {}),
        )

    @property
    def _joins_attack(self) -> bool:
        """Whether a submitted attack plays as well, and queries the defence."""
        job = self._job
        return job.stage is Stage.QUERY and all(c.attack not in self._context.organizer_attacks for c in job.cells)

    def _make_attack_pool(self) -> PlayerPool | None:
        """Returns the pool of the attack that queries, or None; the backend knows its sandboxes as job `ID-attack`."""
        if not self._joins_attack:
            return None
        context, (cell,) = self._context, self._job.cells
        if context.attack_backend is not None:
            context = replace(context, backend=context.attack_backend)
        device = context.attack_devices.get(self._device) if self._device else None
        attack = context.roster[cell.attack or ""]
        return PlayerPool(context, attack, f"{self._job.id}-attack", lambda: 0, device=device)

    def prepare(self) -> None:
        """Starts the first sandbox in the background, unless faults used up the budget or a replay is resumed.

        The next session of a resumed replay may need the seed of an earlier one.
        """
        is_resumed_replay = self._job.stage is Stage.REPLAY and self._view.steps(self._job.id)
        if not is_resumed_replay and not self._pool.budget.exhaustion_reason:
            self._pool.prestart()

    def assignment(self, partial_step: PartialStep | None = None) -> Assignment:
        """Returns the rest of the job for another process to play; `partial_step` is what the previous process left.

        Raises:
            StoreFault: the round was never opened.
        """
        context = self._context
        needs_attack = self._joins_attack and not query_steps.attack_is_over(context, self._view.steps(self._job.id))
        attack = self._job.cells[0].attack if needs_attack else None
        return Assignment(
            job=self._job.id,
            run=context.run,
            secret=context.secret.hex(),
            image=context.images[self._job.submission].digest,
            attack_image=context.images[attack].digest if attack else "",
            events=events_for_job(self._job, context, self._view),
            partial_step=partial_step,
        )

    @property
    def partial_step(self) -> PartialStep | None:
        """What another process needs to continue after `run` raised, beyond the events."""
        return self._partial_step

    def cancel(self) -> None:
        """Cancels the whole round: every running job ends itself. Closes this job's pools if it does not run yet."""
        self._context.cancelled.set()
        if not self._running:
            for pool in self._pools:
                pool.close()
            self._discard_copy()

    def run(self, emit: Emit, free_slot: FreeSlot = keep_slot) -> None:
        """Plays the remaining steps and emits their events; JobFinished comes last.

        If the last step is known to be the last, it is emitted in one batch with JobFinished, and `free_slot` is called
        when its last question was answered.

        Raises:
            InfrastructureFault: the attempts are used up, or the fault is one that is not retried in this process.
            PodUsedUp: the job needs another player, and this pod has none left. Finished steps were emitted, and the
                next pod continues with `partial_step`.
            Cancelled: the operator ended the round.
        """
        self._running, self._free_slot = True, free_slot
        finished = self._view.steps(self._job.id)
        started_at = self._context.clock()

        failures = retry.FailureStreak(len(finished))

        def record_failure(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            code = error.code if isinstance(error, InfrastructureFault) else "infrastructure"
            failures.count_failure(len(finished))
            self._log.warning("attempt_failed", attempt=state.attempt_number, code=code, reason=str(error))
            emit(events.AttemptFailed(job=self._job.id, attempt=state.attempt_number, code=code, message=str(error)))

        retrying = Retrying(
            stop=lambda _: failures.length >= MAX_ATTEMPTS,
            wait=wait_exponential(multiplier=0.5, max=10),
            retry=retry_if_exception(_may_retry),
            after=record_failure,
            before_sleep=lambda _: self._wait_for_backend(emit),
            reraise=True,
        )
        try:
            for attempt in retrying:
                with attempt:
                    self._attempt(emit, finished, attempt.retry_state.attempt_number)
        except InfrastructureFault:
            self._carry_over(len(finished))
            raise
        finally:
            self._discard_copy()
        self._finish(emit, finished, self._context.clock() - started_at)

    def _discard_copy(self) -> None:
        """Removes the fresh copy that a replay's sandboxes ran from, if there is one."""
        if self._copy:
            self._copy.discard()

    def _wait_for_backend(self, emit: Emit) -> None:
        """Waits until the backend is available, which uses up no attempt. Raises BackendUnavailable or Cancelled."""
        context = self._context
        waited = retry.wait_for_backend(context.backend, context.clock, context.cancelled)
        if waited:
            self._log.warning("backend_was_away", seconds=round(waited, 1))
            emit(events.BackendReturned(job=self._job.id, seconds=waited))

    def _attempt(self, emit: Emit, finished: dict[int, events.StepFinished], number: int) -> None:
        if number > 1:
            self._begin_attempt(finished)
        steps = self._steps()
        try:
            self._begin_step(len(finished), number)
            for outcome in steps.play_remaining(finished):
                step = self._step_event(outcome)
                if outcome.last:
                    self._deferred_events = (step,)
                else:
                    self._emit_step(emit, step)
                finished[step.step] = step  # only after it is stored: a job's record has no gaps
                self._partial_step = None
                self._begin_step(len(finished), number)
        except PodUsedUp:
            self._partial_step = steps.partial_step()
            raise
        finally:
            with ExitStack() as ending:  # closes the second pool even if closing the first fails
                for pool in self._pools:
                    ending.callback(pool.close)

    @property
    def _pools(self) -> list[PlayerPool]:
        return [self._pool, *([self._attack_pool] if self._attack_pool else [])]

    def _begin_step(self, step: int, attempt: int) -> None:
        for pool in self._pools:
            pool.ambiguous_exits.begin_step(step, attempt)

    def _steps(self) -> JobSteps | OrganizerQuerySteps | SubmittedQuerySteps:
        if self._attack_pool and self._context.unstarted:
            return self._steps_of_unstarted(self._attack_pool)
        if self._attack_pool:
            return SubmittedQuerySteps(self._job, self._context, self._pool, self._attack_pool, self._partial_step)
        if self._job.stage is Stage.QUERY:
            return OrganizerQuerySteps(self._job, self._context, self._pool, self._partial_step)
        return JobSteps(self._job, self._context, self._view, self._pool, self._partial_step, self._free_slot)

    def _steps_of_unstarted(self, attack_pool: PlayerPool) -> SubmittedQuerySteps:
        """Returns the steps of a query job one of whose two players cannot be started."""
        context = self._context
        if context.unstarted == self._job.submission:
            return UnstartedDefenceSteps(self._job, context, self._pool, attack_pool, self._partial_step)
        without_replay = replace(context, replay=SamplingDesign(power=0))  # the defence cannot be asked again
        return SubmittedQuerySteps(self._job, without_replay, self._pool, attack_pool, self._partial_step)

    def _begin_attempt(self, finished: dict[int, events.StepFinished]) -> None:
        """Prepares the pools for an attempt; what faults cost in finished steps counts against the budget."""
        replacement_due = self._partial_step is not None and self._partial_step.replacement_due
        self._pool.begin_attempt(self._fault_budget(finished), replacement_due=replacement_due)
        if self._attack_pool:
            self._attack_pool.begin_attempt(FaultBudget.for_attack(self._context.limits))

    def _emit_step(self, emit: Emit, step: events.StepFinished) -> None:
        """Emits a step. If storing it fails it is played again, and the next event records its sandboxes."""
        try:
            emit(step)
        except InfrastructureFault:
            self._carried_sandboxes += step.sandboxes
            raise

    def _carry_over(self, step: int) -> None:
        """Adds to `partial_step` the sandboxes that no event records, and the seed of the latest one."""
        if sandboxes := self._take_sandbox_records():
            partial_step = self._partial_step or PartialStep(step=step, completed=0)
            # With two players, another process may be needed for the attack: then the defence had no fault.
            due = self._pool.replacement_due if self._attack_pool else partial_step.replacement_due
            self._partial_step = partial_step.model_copy(
                update={"sandboxes": sandboxes, "seed": self._pool.latest_seed, "replacement_due": due}
            )

    def _finish(self, emit: Emit, finished: dict[int, events.StepFinished], wall: float) -> None:
        seconds = sum(step.seconds for step in finished.values())
        faults = sum(fault.pictures for step in finished.values() for fault in step.faults)
        self._log.info(
            "job_finished",
            seconds=round(seconds, 3),
            wall=round(wall, 3),
            faults=faults,
        )
        emit(
            *self._deferred_events,
            events.JobFinished(
                job=self._job.id,
                stage=self._job.stage,
                submission=self._job.submission,
                device=self._device,
                seconds=seconds,
                sandboxes=self._take_sandbox_records(),
            ),
        )

    def _step_event(self, outcome: StepResult) -> events.StepFinished:
        """Returns the ledger event of a step, with the sandboxes that ended since the previous step."""
        job = self._job
        self._pool.latest_seed = None
        sandboxes = self._take_sandbox_records()
        return events.StepFinished(
            job=job.id,
            stage=job.stage,
            submission=job.submission,
            step=outcome.number,
            cells=[events.CellRecord(defence=cell.defence, attack=cell.attack) for cell in outcome.cells],
            blobs=outcome.blobs,
            faults=[*outcome.faults, *_oom_faults(sandboxes, outcome.faults)],
            seconds=outcome.seconds,
            fault_seconds=outcome.fault_seconds,
            sandboxes=sandboxes,
            fresh=outcome.fresh,
            fresh_copy=self._copy.digest if self._copy and self._pool.runs_from_copy else "",
            session=outcome.session,
            transcript=outcome.transcript,
            attack_seconds=outcome.attack_seconds,
        )

    def _fault_budget(self, finished: dict[int, events.StepFinished]) -> FaultBudget:
        """Returns the fault budget that this job has left."""
        context = self._context
        steps: list[events.StepFinished | PartialStep] = [*finished.values()]
        steps += [self._partial_step] if self._partial_step else []
        faults = [fault for part in steps for fault in part.faults if not fault.submission]
        if self._job.stage is Stage.REPLAY:
            return FaultBudget.for_determinism_check(context.limits, sum(fault.code != GaveUp.code for fault in faults))
        if context.roster[self._job.submission].side is Side.ATTACK:
            budget = FaultBudget.for_attack(context.limits)
        else:
            budget = FaultBudget.for_defence(context.limits, len(self._job.cells))
        budget.spend(sum(part.fault_seconds for part in steps))
        if self._partial_step:
            budget.consecutive_failed_starts = self._partial_step.failed_starts
            budget.divergences = self._partial_step.divergences
        budget.exhausted_before = any(fault.code == GaveUp.code for fault in faults)
        return budget

    def _take_sandbox_records(self) -> list[events.SandboxRecord]:
        """Removes and returns the records of the ended sandboxes that are in no event yet."""
        records = [*self._carried_sandboxes, *map(self._sandbox_record, self._pool.take_exits())]
        if self._attack_pool:
            attack = self._job.cells[0].attack
            own = map(self._sandbox_record, self._attack_pool.take_exits())
            records += [record.model_copy(update={"submission": attack}) for record in own]
        self._carried_sandboxes.clear()
        return records

    def _sandbox_record(self, sandbox_exit: SandboxExit) -> events.SandboxRecord:
        player_exit = sandbox_exit.exit
        return events.SandboxRecord(
            ending=player_exit.ending.value,
            reason=sandbox_exit.reason,
            code=player_exit.code,
            wall_seconds=player_exit.wall_seconds,
            cpu_seconds=player_exit.cpu_seconds,
            peak_bytes=player_exit.peak_bytes,
            peak_pids=player_exit.peak_pids,
            kills=player_exit.kills,
            sampled=player_exit.sampled,
            stdin_bytes=player_exit.stdin_bytes,
            stdout_bytes=player_exit.stdout_bytes,
            stderr_bytes=player_exit.stderr_bytes,
            stderr=self._context.blobs.put(player_exit.stderr) if player_exit.stderr else None,
        )


def _oom_faults(
    sandboxes: Sequence[events.SandboxRecord], faults: Sequence[events.FaultRecord]
) -> Iterator[events.FaultRecord]:
    """Yields the `child_process_oom_faults` of each submission separately."""
    for submission in dict.fromkeys(sandbox.submission for sandbox in sandboxes):
        own = [sandbox for sandbox in sandboxes if sandbox.submission == submission]
        known = [fault for fault in faults if fault.submission == submission]
        for fault in child_process_oom_faults(own, known):
            yield fault.model_copy(update={"submission": submission})


def _may_retry(error: BaseException) -> bool:
    """Returns whether this process may try again: after an infrastructure fault, unless the pod has no player left."""
    return isinstance(error, InfrastructureFault) and not isinstance(error, PlayerAbsent | PodUsedUp)
