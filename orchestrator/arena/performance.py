"""One job played: `play(job, backend)` of the design, with its retries.

A job is a sequence of steps. Each finished step is handed out at once, so that a killed orchestrator loses the step in
flight and nothing else. An infrastructure fault ends the attempt; the steps that are left are tried again. The job is
given up after `ATTEMPTS` attempts one after another that finished no step (rule X1), or when a backend that is away
does not come back.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import structlog
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential

from orchestrator.arena import casting, patience, replay, steps
from orchestrator.arena.casting import Casting, Leave
from orchestrator.arena.doubts import Doubts
from orchestrator.arena.gate import Gate, asked
from orchestrator.arena.player import Player
from orchestrator.arena.setting import Setting
from orchestrator.backends.base import Order
from orchestrator.domain import events
from orchestrator.domain.plan import Cell, Job, Stage
from orchestrator.domain.rulings import NOT_ASKED
from orchestrator.domain.samples import Candidates, Pixels
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Isolation
from orchestrator.engines.base import Emit
from orchestrator.errors import InfrastructureFault, StoreFault
from orchestrator.record import Record
from orchestrator.stores.base import put_array
from orchestrator.wire.messages import Role
from orchestrator.wire.session import Session

ATTEMPTS = 3
CLASSIFY_STEP = 100
"""Questions to a defence between two entries in the ledger."""

_log = structlog.get_logger()


class Performance:
    """One job about to be played on one device."""

    def __init__(self, job: Job, setting: Setting, record: Record, device: str | None) -> None:
        self._job, self._setting, self._record, self._device = job, setting, record, device
        self._submission = setting.roster[job.submission]
        self._gate = Gate(setting.task.budget, setting.on_missing, setting.on_violation)
        self._leaves: list[Leave] = []
        self._doubts = Doubts()
        self._opened = itertools.count()
        self._casting = self._cast()
        self._running = False
        self._log = _log.bind(
            contest=setting.contest,
            round=setting.round,
            job=job.id,
            stage=job.stage.value,
            submission=job.submission,
        )

    def prepare(self) -> None:
        """Starts the first sandbox in the background."""
        self._casting.prepare()

    def close(self) -> None:
        """Cancels the round. A job that runs ends itself; a sandbox that waits is ended here."""
        self._setting.cancelled.set()
        if not self._running:
            self._casting.close()

    def run(self, emit: Emit) -> None:
        """Plays what is left of the job and hands out its events, JobFinished last.

        Raises:
            InfrastructureFault: every attempt failed.
            Cancelled: the operator ended the round.
        """
        self._running = True
        finished = self._record.steps(self._job.id)
        began = self._setting.clock()

        tried = patience.Tried(len(finished))

        def failed(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            code = error.code if isinstance(error, InfrastructureFault) else "infrastructure"
            tried.failed(len(finished))
            self._log.warning("attempt_failed", attempt=state.attempt_number, code=code, reason=str(error))
            emit(events.AttemptFailed(job=self._job.id, attempt=state.attempt_number, code=code, message=str(error)))

        retrying = Retrying(
            stop=lambda _: tried.fruitless >= ATTEMPTS,
            wait=wait_exponential(multiplier=0.5, max=10),
            retry=retry_if_exception_type(InfrastructureFault),
            after=failed,
            before_sleep=lambda _: self._wait_for_backend(emit),
            reraise=True,
        )
        for attempt in retrying:
            with attempt:
                self._attempt(emit, finished, attempt.retry_state.attempt_number)
        self._finish(emit, finished, self._setting.clock() - began)

    def _wait_for_backend(self, emit: Emit) -> None:
        """Waits until the backend can play, which takes no attempt. Raises BackendUnavailable, or Cancelled."""
        setting = self._setting
        waited = patience.wait(setting.backend, setting.clock, setting.cancelled)
        if waited:
            self._log.warning("backend_was_away", seconds=round(waited, 1))
            emit(events.BackendReturned(job=self._job.id, seconds=waited))

    def _attempt(self, emit: Emit, finished: dict[int, events.StepFinished], number: int) -> None:
        try:
            self._doubts.at(len(finished), number)
            for step in self._steps(finished):
                finished[step.step] = step
                emit(step)
                self._doubts.at(len(finished), number)
            self._casting.retire()
        finally:
            self._casting.close()
            self._casting = self._cast()

    def _finish(self, emit: Emit, finished: dict[int, events.StepFinished], wall: float) -> None:
        seconds = sum(step.seconds for step in finished.values())
        faults = sum(fault.pictures for step in finished.values() for fault in step.faults)
        self._log.info(
            "job_finished",
            seconds=round(seconds, 3),
            wall=round(wall, 3),
            sandboxes=len(self._leaves),
            faults=faults,
        )
        emit(
            events.JobFinished(
                job=self._job.id,
                stage=self._job.stage,
                submission=self._job.submission,
                device=self._device,
                seconds=seconds,
                sandboxes=[self._sandbox(leave) for leave in self._leaves],
            )
        )

    def _steps(self, finished: dict[int, events.StepFinished]) -> Iterator[events.StepFinished]:
        match self._job.stage:
            case Stage.PERTURB:
                return self._perturb(finished)
            case Stage.CLASSIFY:
                return self._classify(finished)
            case Stage.REPLAY:
                return self._replay(finished)

    def _perturb(self, finished: dict[int, events.StepFinished]) -> Iterator[events.StepFinished]:
        setting, samples = self._setting, self._setting.samples
        batch = setting.limits.perturb_batch
        for number, start in enumerate(range(0, len(samples), batch)):
            if number in finished:
                continue
            pixels = samples.pixels[start : start + batch]
            labels = samples.labels[start : start + batch] if setting.labels else None
            played = steps.perturb(self._casting, self._gate, setting.limits, pixels, labels, setting.clock)
            made = played.candidates
            blobs = {
                "index": put_array(setting.blobs, np.arange(start, start + len(pixels), dtype=np.int32)),
                "candidates": put_array(setting.blobs, made.pixels),
                "forfeits": put_array(setting.blobs, made.forfeits),
                "violations": put_array(setting.blobs, made.violations),
                "distances": put_array(setting.blobs, made.distances),
            }
            yield self._step(number, blobs, played.faults, played.seconds)

    def _classify(self, finished: dict[int, events.StepFinished]) -> Iterator[events.StepFinished]:
        setting = self._setting
        questions = self._questions()
        fresh = setting.isolation is Isolation.PICTURE
        shown = self._pictures()
        for number, start in enumerate(range(0, max(1, len(questions)), CLASSIFY_STEP)):
            if number in finished:
                continue
            part = questions[start : start + CLASSIFY_STEP]
            pictures = [shown[cell][picture] for cell, picture in part]
            said = steps.ask(self._casting, setting.limits, pictures, setting.clock, fresh=fresh)
            rows = np.column_stack([part, said.answers]).astype(np.int32)
            yield self._step(number, {"rows": put_array(setting.blobs, rows)}, said.faults, said.seconds)

    def _replay(self, finished: dict[int, events.StepFinished]) -> Iterator[events.StepFinished]:
        if finished:
            return
        setting, cells = self._setting, self._job.cells
        answers = self._record.answers(self._job.submission, len(setting.samples))
        seed = setting.secret_seed("replay", self._record.round.replay_head or "", self._job.submission)
        choice = replay.choose(cells, answers, setting.replay_share, seed)
        shown = self._pictures()
        pictures = [shown[cell][picture] for cell, picture in choice.rows]
        first = steps.ask(self._casting, setting.limits, pictures, setting.clock)
        places = replay.again(choice, first.answers, setting.replay_repeats)
        second = steps.ask(self._casting, setting.limits, [pictures[place] for place in places], setting.clock)
        repeated = np.full(len(pictures), NOT_ASKED, np.int32)
        repeated[places] = second.answers
        rows = np.column_stack([choice.rows, choice.played, first.answers, repeated]).astype(np.int32)
        blobs = {"rows": put_array(setting.blobs, rows)}
        yield self._step(0, blobs, first.faults + second.faults, first.seconds + second.seconds)

    def _questions(self) -> "np.ndarray[tuple[int, int], np.dtype[np.int32]]":
        """Returns the job's questions [k, 2] (cell position, picture) in their secret order."""
        count = len(self._setting.samples)
        rows = []
        for position, cell in enumerate(self._job.cells):
            wanted = np.arange(count)
            if made := self._made(cell):
                wanted = np.flatnonzero(asked(made.forfeits, self._setting.on_missing))
            rows += [(position, int(picture)) for picture in wanted]
        order = np.random.default_rng(self._setting.secret_seed("order", self._job.id)).permutation(len(rows))
        return np.array(rows, np.int32).reshape(-1, 2)[order]

    def _pictures(self) -> list[Pixels]:
        """Returns, per cell of the job, the pictures that the defence is shown [n, c, h, w]."""
        clean = self._setting.samples.pixels
        return [made.pixels if (made := self._made(cell)) else clean for cell in self._job.cells]

    def _made(self, cell: Cell) -> Candidates | None:
        """Returns what the cell's attack made, None for clean pictures."""
        if cell.attack is None:
            return None
        made = self._record.candidates(cell.attack)
        if made is None:
            raise StoreFault(f"the pictures of {cell.attack!r} are not in the record")
        return made

    def _step(
        self, number: int, blobs: dict[str, str], faults: list[events.FaultRecord], seconds: float
    ) -> events.StepFinished:
        return events.StepFinished(
            job=self._job.id,
            stage=self._job.stage,
            submission=self._job.submission,
            step=number,
            cells=[events.CellRecord(defence=cell.defence, attack=cell.attack) for cell in self._job.cells],
            blobs=blobs,
            faults=faults,
            seconds=seconds,
        )

    def _cast(self) -> Casting:
        return Casting(self._open, self._leaves, restarts=self._setting.limits.restarts, ahead=self._device is None)

    def _open(self) -> Player:
        """Starts a player and waits until it has loaded. Every sandbox of a defence gets a fresh seed."""
        setting = self._setting
        attack = self._submission.side is Side.ATTACK
        order = Order(
            image=setting.images[self._submission.id],
            policy=setting.policy,
            run=setting.run,
            job=self._job.id,
            device=self._device,
        )
        session = Session(Role(self._submission.side.value), len(setting.task.classes), setting.payload_limit)
        player = Player(setting.backend.start(order), session, setting.clock, setting.cancelled.is_set, self._doubts)
        seed = (
            setting.attack_seed(self._submission)
            if attack
            else setting.secret_seed(self._job.id, str(next(self._opened)))
        )
        limits = setting.limits
        step = (
            (limits.perturb_seconds, limits.perturb_batch)
            if attack
            else (limits.classify_seconds, limits.classify_batch)
        )
        try:
            player.greet(setting.task_header(), setting.limits_header(*step), seed)
        except BaseException as fault:
            casting.end(player.stop, self._leaves, fault)
            raise
        return player

    def _sandbox(self, leave: Leave) -> events.SandboxRecord:
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
