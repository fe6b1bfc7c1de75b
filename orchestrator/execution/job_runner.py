"""One job played: `play(job, backend)` of the design, with its retries.

A job is a sequence of steps. Each finished step is handed out at once, so that a killed orchestrator loses the step in
flight and nothing else. An infrastructure fault ends the attempt; the steps that are left are tried again. The job is
given up after `ATTEMPTS` attempts one after another that finished no step (rule X1), or when a backend that is away
does not come back.
"""

import itertools

import structlog
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential

from orchestrator.domain import events
from orchestrator.domain.assignment import Assignment, PartialStep
from orchestrator.domain.plan import Job, Stage
from orchestrator.domain.submissions import Side
from orchestrator.errors import GaveUp, InfrastructureFault, PlayerAbsent, PodUsedUp
from orchestrator.execution import retry
from orchestrator.execution.ambiguous_exits import AmbiguousExitTracker
from orchestrator.execution.fault_budget import FaultBudget
from orchestrator.execution.fresh_copy import FreshCopy
from orchestrator.execution.job_input import events_for_job
from orchestrator.execution.job_steps import JobSteps, StepResult
from orchestrator.execution.player_pool import PlayerPool, SandboxExit, child_process_oom_faults
from orchestrator.execution.player_starter import PlayerStarter
from orchestrator.execution.round_context import RoundContext
from orchestrator.executors.base import Emit
from orchestrator.ledger.read_model import RoundView

MAX_ATTEMPTS = 3

_log = structlog.get_logger()


class JobRunner:
    """One job about to be played on one device."""

    def __init__(
        self, job: Job, setting: RoundContext, record: RoundView, device: str | None, half: PartialStep | None = None
    ) -> None:
        self._job, self._setting, self._record, self._device = job, setting, record, device
        self._half = half
        self._carried = [] if half is None else list(half.sandboxes)
        self._leaves: list[SandboxExit] = []
        self._doubts = AmbiguousExitTracker()
        finished = record.steps(job.id)
        # Seeds go on where those of the sandboxes on record ended: what a killed orchestrator lost is opened again.
        on_record = sum(len(step.sandboxes) for step in finished.values())
        opened = itertools.count(on_record + len(self._carried))
        self._copy = FreshCopy.of(setting, job.submission) if job.stage is Stage.REPLAY else None
        self._entrance = PlayerStarter(
            setting,
            setting.roster[job.submission],
            job.id,
            device,
            lambda: setting.secret_seed("seed", *job.place, str(next(opened))),
            self._leaves,
            self._doubts,
            fresh_copy=self._copy,
        )
        if half is not None and half.seed is not None:
            self._entrance.told.append(half.seed)
        self._casting = self._cast(finished)
        self._running = False
        self._kept_back: tuple[events.StepFinished, ...] = ()
        self._log = _log.bind(
            contest=setting.contest,
            round=setting.round,
            job=job.id,
            stage=job.stage.value,
            submission=job.submission,
        )

    def prepare(self) -> None:
        """Starts the first sandbox in the background, unless none is opened or, in a replay, it may repeat a seed."""
        taken_up = self._job.stage is Stage.REPLAY and self._record.steps(self._job.id)
        if not taken_up and not self._casting.budget.used_up:
            self._casting.prepare()

    def assignment(self, half: PartialStep | None = None) -> Assignment:
        """Returns what is left of the job, for another process to play; `half` is what that left the last time.

        Raises:
            StoreFault: the round was never opened.
        """
        setting = self._setting
        return Assignment(
            job=self._job.id,
            run=setting.run,
            secret=setting.secret.hex(),
            image=setting.images[self._job.submission].digest,
            events=events_for_job(self._job, setting, self._record),
            half=half,
        )

    @property
    def half(self) -> PartialStep | None:
        """What is to be carried over to another process after `run` raised: what no event has."""
        return self._half

    def cancel(self) -> None:
        """Cancels the whole round: every job of it that runs ends itself. This one's waiting sandbox is ended here."""
        self._setting.cancelled.set()
        if not self._running:
            self._casting.close()
            self._discard_copy()

    def run(self, emit: Emit) -> None:
        """Plays what is left of the job and hands out its events, JobFinished last and together with the last step.

        Raises:
            InfrastructureFault: every attempt failed.
            PodUsedUp: it needs another player, and this pod has none; what is finished was handed out, and `half` is
                what it goes on with.
            Cancelled: the operator ended the round.
        """
        self._running = True
        finished = self._record.steps(self._job.id)
        began = self._setting.clock()

        tried = retry.FailureStreak(len(finished))

        def failed(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            code = error.code if isinstance(error, InfrastructureFault) else "infrastructure"
            tried.failed(len(finished))
            self._log.warning("attempt_failed", attempt=state.attempt_number, code=code, reason=str(error))
            emit(events.AttemptFailed(job=self._job.id, attempt=state.attempt_number, code=code, message=str(error)))

        retrying = Retrying(
            stop=lambda _: tried.fruitless >= MAX_ATTEMPTS,
            wait=wait_exponential(multiplier=0.5, max=10),
            retry=retry_if_exception(_may_retry),
            after=failed,
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
            copied = self._discard_copy()
        self._finish(emit, finished, self._setting.clock() - began, copied)

    def _discard_copy(self) -> str:
        """Removes the copy that a replay's sandboxes ran from and returns its digest; empty where there was none."""
        return self._copy.discard() if self._copy else ""

    def _wait_for_backend(self, emit: Emit) -> None:
        """Waits until the backend can play, which takes no attempt. Raises BackendUnavailable, or Cancelled."""
        setting = self._setting
        waited = retry.wait_for_backend(setting.backend, setting.clock, setting.cancelled)
        if waited:
            self._log.warning("backend_was_away", seconds=round(waited, 1))
            emit(events.BackendReturned(job=self._job.id, seconds=waited))

    def _attempt(self, emit: Emit, finished: dict[int, events.StepFinished], number: int) -> None:
        scene = JobSteps(self._job, self._setting, self._record, self._casting, self._half)
        try:
            self._doubts.at(len(finished), number)
            for outcome in scene.steps(finished, self._entrance):
                step = self._step(outcome)
                if outcome.last:
                    self._kept_back = (step,)
                else:
                    self._keep(emit, step)
                finished[step.step] = step  # not before it is kept: a job's record has no holes
                self._half = None
                self._doubts.at(len(finished), number)
        except PodUsedUp:
            self._half = scene.half()
            raise
        finally:
            self._casting.close()
            self._casting = self._cast(finished)

    def _keep(self, emit: Emit, step: events.StepFinished) -> None:
        """Hands out a step. One that cannot be kept is played again: then its sandboxes are in no event."""
        try:
            emit(step)
        except InfrastructureFault:
            self._carried += step.sandboxes
            raise

    def _carry_over(self, step: int) -> None:
        """Adds to what is carried over the sandboxes that no event has, and what the latest of them was told."""
        if sandboxes := self._sandboxes():
            half = self._half or PartialStep(step=step, asked=0)
            self._half = half.model_copy(update={"sandboxes": sandboxes, "seed": self._entrance.latest})

    def _finish(self, emit: Emit, finished: dict[int, events.StepFinished], wall: float, copied: str) -> None:
        seconds = sum(step.seconds for step in finished.values())
        faults = sum(fault.pictures for step in finished.values() for fault in step.faults)
        self._log.info(
            "job_finished",
            seconds=round(seconds, 3),
            wall=round(wall, 3),
            faults=faults,
        )
        emit(
            *self._kept_back,
            events.JobFinished(
                job=self._job.id,
                stage=self._job.stage,
                submission=self._job.submission,
                device=self._device,
                seconds=seconds,
                sandboxes=self._sandboxes(),
                fresh_copy=copied,
            ),
        )

    def _step(self, outcome: StepResult) -> events.StepFinished:
        """Returns a step as the ledger keeps it, with the sandboxes that ended since the last one."""
        job = self._job
        self._entrance.told.clear()
        sandboxes = self._sandboxes()
        return events.StepFinished(
            job=job.id,
            stage=job.stage,
            submission=job.submission,
            step=outcome.number,
            cells=[events.CellRecord(defence=cell.defence, attack=cell.attack) for cell in outcome.cells],
            blobs=outcome.blobs,
            faults=[*outcome.faults, *child_process_oom_faults(sandboxes, outcome.faults)],
            seconds=outcome.seconds,
            fault_seconds=outcome.fault_seconds,
            sandboxes=sandboxes,
            fresh=outcome.fresh,
            session=outcome.session,
        )

    def _cast(self, finished: dict[int, events.StepFinished]) -> PlayerPool:
        """Returns the next attempt's players; what faults cost in finished steps counts."""
        return PlayerPool(
            self._entrance.open,
            self._leaves,
            self._budget(finished),
            ahead=self._device is None,
            replacing=self._half is not None,
        )

    def _budget(self, finished: dict[int, events.StepFinished]) -> FaultBudget:
        """Returns what faults may still cost this job."""
        setting = self._setting
        played: list[events.StepFinished | PartialStep] = [*finished.values()]
        played += [self._half] if self._half else []
        faults = [fault for part in played for fault in part.faults]
        if self._job.stage is Stage.REPLAY:
            return FaultBudget.of_check(setting.limits, sum(fault.code != GaveUp.code for fault in faults))
        if setting.roster[self._job.submission].side is Side.ATTACK:
            budget = FaultBudget.of_attack(setting.limits)
        else:
            budget = FaultBudget.of_defence(setting.limits, len(self._job.cells))
        budget.spend(sum(part.fault_seconds for part in played))
        budget.starts_failed = self._half.failed_starts if self._half else 0
        budget.exhausted = any(fault.code == GaveUp.code for fault in faults)
        return budget

    def _sandboxes(self) -> list[events.SandboxRecord]:
        """Returns the sandboxes that ended and are in no event yet."""
        ended = [*self._carried, *(self._sandbox(leave) for leave in self._leaves)]
        self._carried.clear()
        self._leaves.clear()
        return ended

    def _sandbox(self, leave: SandboxExit) -> events.SandboxRecord:
        ended = leave.exit
        return events.SandboxRecord(
            ending=ended.ending.value,
            reason=leave.reason,
            code=ended.code,
            wall_seconds=ended.wall_seconds,
            cpu_seconds=ended.cpu_seconds,
            peak_bytes=ended.peak_bytes,
            peak_pids=ended.peak_pids,
            kills=ended.kills,
            sampled=ended.sampled,
            stdin_bytes=ended.stdin_bytes,
            stdout_bytes=ended.stdout_bytes,
            stderr_bytes=ended.stderr_bytes,
            stderr=self._setting.blobs.put(ended.stderr) if ended.stderr else None,
        )


def _may_retry(error: BaseException) -> bool:
    """Whether an attempt that failed may be followed by another here: a fault of ours, but where no player is left."""
    return isinstance(error, InfrastructureFault) and not isinstance(error, PlayerAbsent | PodUsedUp)
