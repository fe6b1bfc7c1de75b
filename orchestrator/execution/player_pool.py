"""Starts the players of one job one after another, the next ones in advance where that is allowed, and ends them."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass

from orchestrator.domain.events import FaultRecord, SandboxRecord
from orchestrator.domain.exit_reasons import ExitReason
from orchestrator.domain.submissions import Side, Submission
from orchestrator.domain.text import printable
from orchestrator.errors import (
    DeadlinePassed,
    InfrastructureFault,
    NoGradients,
    OutOfMemory,
    OutputFlood,
    ProtocolFault,
    SandboxLost,
    SubmissionFault,
)
from orchestrator.execution.ambiguous_exits import AmbiguousExitTracker
from orchestrator.execution.fault_budget import FaultBudget
from orchestrator.execution.fresh_copy import FreshCopy
from orchestrator.execution.player import Player
from orchestrator.execution.round_context import RoundContext
from orchestrator.protocol.messages import Role
from orchestrator.protocol.session import Session
from orchestrator.sandboxes.base import Ending, Exit, Image, Sandbox, SandboxSpec


def fault_record(fault: SubmissionFault, pictures: int = 0, asked: int = 0) -> FaultRecord:
    """Returns the ledger record of a submission's fault that is charged to `pictures` of its question's `asked`."""
    reason = fault.reason if isinstance(fault, ProtocolFault) else ""
    return FaultRecord(
        code=fault.code, reason=reason, message=printable(str(fault)), pictures=pictures, question_pictures=asked
    )


def child_process_oom_faults(sandboxes: Iterable[SandboxRecord], faults: Iterable[FaultRecord]) -> list[FaultRecord]:
    """Returns a fault, charged to no picture, for each sandbox that was over its memory limit and lost no question.

    In such a sandbox the kernel killed a process that the player had started, and the player kept answering, or hung.
    `faults` are those of the step in which the sandboxes ended; each of them at the memory limit explains one sandbox.
    """
    full = [sandbox for sandbox in sandboxes if sandbox.reason is ExitReason.OUT_OF_MEMORY]
    reported = sum(fault.code == OutOfMemory.code for fault in faults)
    message = "the memory limit killed a process that the player had started, and not the player"
    return [fault_record(OutOfMemory(f"{message}; processes killed: {each.kills}")) for each in full[reported:]]


@dataclass(frozen=True, slots=True)
class SandboxExit:
    """How a sandbox of the job ended, and why."""

    exit: Exit
    reason: ExitReason


def end_player(stop: Callable[[], Exit], exits: list[SandboxExit], fault: BaseException | None = None) -> None:
    """Ends a player and appends its exit, with the reason, to `exits`. `fault` is why the player is ended, if any.

    A kill at the memory limit and a lost sandbox come first as the reason, then `fault`, then how the player ended.

    Raises:
        InfrastructureFault: the player could not be ended; its exit is recorded as lost.
    """
    try:
        player_exit = stop()
    except InfrastructureFault:
        exits.append(SandboxExit(Exit(Ending.LOST), ExitReason.LOST))
        raise
    if player_exit.ending in {Ending.OUT_OF_MEMORY, Ending.LOST}:
        reason = ExitReason(player_exit.ending)
    elif isinstance(fault, DeadlinePassed):
        reason = ExitReason.TIMED_OUT
    elif isinstance(fault, OutputFlood):
        reason = ExitReason.FLOODED
    else:
        reason = ExitReason(player_exit.ending)
    exits.append(SandboxExit(player_exit, reason))


class _PlayerStart:
    """The start of one player. Starts overlap, but sandboxes are made, and seeds drawn, in the order of the starts."""

    def __init__(self, previous: "_PlayerStart | None" = None) -> None:
        self.player: Future[Player] = Future()
        self.seed: int | None = None  # as long as there is no sandbox, also if none could be made
        self.has_sandbox_or_failed = threading.Event()
        self._previous = previous

    def wait_for_turn(self) -> None:
        """Waits until the previous start has a sandbox with a seed.

        Raises:
            SandboxLost: it failed, which ends the attempt at the job, so that nobody would ask this player.
        """
        previous, self._previous = self._previous, None
        if previous is not None:
            previous.has_sandbox_or_failed.wait()
            if previous.seed is None:
                raise SandboxLost("the sandbox before this one could not be started")


class PlayerPool:
    """Starts the players of a job, returns the active one, and ends them.

    Args:
        context: the round.
        submission: the submission that the players run.
        job: the job's id, under which the backend knows the sandboxes.
        draw_seed: returns the seed of each new sandbox of a defence; all sandboxes of an attack get the same seed.
        device: the UUID of the GPU that they may use.
        prestart_allowed: whether other sandboxes may live while one plays (never on a GPU).
        fresh_copy: the copy of the submission's image to start instead, with files that the kernel has not cached; see
            `runs_from_copy`.
        wrap_sandbox: wraps every sandbox, to record the conversation.
    """

    def __init__(
        self,
        context: RoundContext,
        submission: Submission,
        job: str,
        draw_seed: Callable[[], int],
        *,
        device: str | None = None,
        prestart_allowed: bool = False,
        fresh_copy: FreshCopy | None = None,
        wrap_sandbox: Callable[[Sandbox], Sandbox] = lambda sandbox: sandbox,
    ) -> None:
        self.budget = FaultBudget()
        """What faults may cost; checked before a sandbox is started. Unbounded until `begin_attempt` sets it."""
        self.ambiguous_exits = AmbiguousExitTracker()
        self.runs_from_copy = fresh_copy is not None
        """Whether the next sandboxes start from the fresh copy, and not from the image that was used in play."""
        self.latest_seed: int | None = None
        """The seed of the latest sandbox that was to be asked; None if there was none since the last finished step."""
        self._context, self._submission, self._job, self._device = context, submission, job, device
        self._draw_seed, self._fresh_copy, self._wrap_sandbox = draw_seed, fresh_copy, wrap_sandbox
        self._repeated_seed: int | None = None
        self._exits: list[SandboxExit] = []
        self._prestart_allowed = prestart_allowed
        self._active: Player | None = None
        self._prestarted: deque[_PlayerStart] = deque()
        self._replacement_due = False
        self._closed = False
        self._lock = threading.Lock()

    def begin_attempt(self, budget: FaultBudget, *, replacement_due: bool = False) -> None:
        """Prepares for an attempt at the job with its fault budget, also after `close`.

        `replacement_due`: whether its first player replaces one that another process ended because of a fault.
        """
        with self._lock:
            self._closed = False
        self.budget, self._replacement_due = budget, replacement_due

    def repeat_seed(self, seed: int | None) -> None:
        """Gives this seed to all later sandboxes; with None each one gets its own seed again."""
        self._repeated_seed = seed

    def take_exits(self) -> list[SandboxExit]:
        """Removes and returns the exits of the players that ended since the last call."""
        exits = list(self._exits)
        self._exits.clear()
        return exits

    def start_player(self) -> Player:
        """Starts a sandbox, sends `hello`, waits for `ready`, and returns the player.

        Raises:
            SubmissionFault: the player did not get ready. Its sandbox was ended and its exit recorded.
            InfrastructureFault: the sandbox could not be started, or was lost.
        """
        return self._start_player(_PlayerStart())

    @property
    def _is_attack(self) -> bool:
        return self._submission.side is Side.ATTACK

    def _start_player(self, start: _PlayerStart) -> Player:
        try:
            start.wait_for_turn()
            player = self._start_sandbox()
            start.seed = self._context.attack_seed(self._submission) if self._is_attack else self._next_seed()
        finally:
            start.has_sandbox_or_failed.set()
        try:
            self._get_ready(player, start.seed)
        except BaseException as fault:
            end_player(player.stop, self._exits, fault)
            raise
        return player

    def _start_sandbox(self) -> Player:
        """Starts a sandbox and returns its player, to which nothing was sent."""
        context = self._context
        spec = SandboxSpec(
            image=self._image(),
            policy=context.policy,
            run=context.run,
            job=self._job,
            device=self._device,
        )
        session = Session(
            Role(self._submission.side.value),
            len(context.task.classes),
            context.payload_limit,
            queries=context.queries_header() if self._is_attack else None,
        )
        return Player(
            self._wrap_sandbox(context.backend.start(spec)),
            session,
            context.clock,
            context.cancelled.is_set,
            self.ambiguous_exits,
            decides_by_scores=context.decides_by_scores,
        )

    def _get_ready(self, player: Player, seed: int) -> None:
        """Sends `hello` and waits for `ready`."""
        context, limits = self._context, self._context.limits
        step = (
            (limits.perturb_seconds, limits.perturb_batch)
            if self._is_attack
            else (limits.classify_seconds, limits.classify_batch)
        )
        player.say_hello(context.task_header(), context.limits_header(*step), seed)
        if not self._is_attack:
            self._require_gradients(player)

    def _image(self) -> Image:
        if self._fresh_copy is not None and self.runs_from_copy:
            return self._fresh_copy.get_image()
        return self._context.images[self._submission.id]

    def _require_gradients(self, defence: Player) -> None:
        """Raises NoGradients if the rules require gradients of every defence and this one gives none (rule A12)."""
        if self._context.needs_gradients and not defence.gives_gradients:
            raise NoGradients(
                "it does not give gradients, which rules.initial.crafted_on: self asks of every defence (A12)"
            )

    def _next_seed(self) -> int:
        fresh = self._draw_seed()  # also if unused: the ledger counts sandboxes, and each one takes a seed
        return fresh if self._repeated_seed is None else self._repeated_seed

    @property
    def has_active_player(self) -> bool:
        """Whether the next question goes to a running player, and not to a fresh one."""
        return self._active is not None

    def prestart(self, count: int = 1) -> None:
        """Starts players in the background, if that is allowed, until `count` of them are waiting to be acquired."""
        with self._lock:
            while self._prestart_allowed and not self._closed and len(self._prestarted) < count:
                start = _PlayerStart(self._prestarted[-1] if self._prestarted else None)
                threading.Thread(target=self._start_into, args=(start,), name="player-prestart").start()
                self._prestarted.append(start)  # only now: without a thread nothing would fulfil the future

    @property
    def replacement_due(self) -> bool:
        """Whether the next sandbox replaces one that ended because of a fault."""
        return self._active is None and self._replacement_due

    def acquire_player(self) -> Player:
        """Returns the active player; if there is none, the next player becomes active.

        Raises:
            GaveUp: the submission's faults have used up the budget.
            SubmissionFault: the next player did not get ready, which counts against the budget.
        """
        if self._active is None:
            self.budget.raise_if_exhausted()
            try:
                self._active = self._take_prestarted_or_start()
            except SubmissionFault:
                self._replacement_due = True
                self.budget.count_failed_start()
                raise
            self._replacement_due = False
            self.budget.count_start()
        return self._active

    def discard_faulty_player(self, fault: SubmissionFault) -> None:
        """Ends the active player after a fault of its own."""
        player, self._active = self._active, None
        if player is not None:
            self._replacement_due = True
            self.budget.count_fault()
            end_player(player.stop, self._exits, fault)

    def retire_player(self, *, replacement_due: bool = False) -> list[FaultRecord]:
        """Ends the active player in the normal way, so that the next question goes to a fresh one.

        `replacement_due`: whether a fault is the reason for a fresh one. Returns one fault, charged to no picture, if
        the player wrote after its last reply, else an empty list.
        """
        player, self._active = self._active, None
        if player is None:
            return []
        self._replacement_due = replacement_due
        fault = player.say_bye()
        end_player(player.stop, self._exits, fault)
        return [] if fault is None else [fault_record(fault)]

    def discard_prestarted(self) -> None:
        """Ends the players that were started in the background and not acquired."""
        with self._lock:
            waiting, self._prestarted = self._prestarted, deque()
        with ExitStack() as ending:  # ends the others even if one cannot be ended
            for start in waiting:
                if start.player.exception() is None:
                    ending.callback(end_player, start.player.result().stop, self._exits)

    def close(self) -> None:
        """Ends the active and the prestarted players, and prestarts no more until the next attempt."""
        with self._lock:
            self._closed = True
        player, self._active = self._active, None
        with ExitStack() as ending:
            ending.callback(self.discard_prestarted)
            if player is not None:
                ending.callback(end_player, player.stop, self._exits)

    def _take_prestarted_or_start(self) -> Player:
        with self._lock:
            prestarted = self._prestarted.popleft() if self._prestarted else None
        start = prestarted or _PlayerStart()
        try:
            return start.player.result() if prestarted else self._start_player(start)
        finally:
            if start.seed is not None:
                self.latest_seed = start.seed

    def _start_into(self, start: _PlayerStart) -> None:
        try:
            start.player.set_result(self._start_player(start))
        except BaseException as error:  # noqa: BLE001  raised where the player is acquired
            start.player.set_exception(error)
