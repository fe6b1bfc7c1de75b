"""Starts the players of one job one after another, the next one in advance where that is allowed, and ends them."""

import threading
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
    """Returns a submission's fault as the ledger keeps it: what it is charged to, and the pictures of its question."""
    reason = fault.reason if isinstance(fault, ProtocolFault) else ""
    return FaultRecord(
        code=fault.code, reason=reason, message=printable(str(fault)), pictures=pictures, question_pictures=asked
    )


def child_process_oom_faults(sandboxes: Iterable[SandboxRecord], faults: Iterable[FaultRecord]) -> list[FaultRecord]:
    """Returns a fault, charged to no picture, for each sandbox that was over its memory limit and lost no question.

    There a process was killed that the player had started, and the player answered on, or hung. `faults` are those of
    the step in which the sandboxes ended: each at the memory limit has a sandbox of its own.
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
    """Ends a player and notes it: the one place that says why a sandbox ended. `fault` is what it is ended for.

    What the kernel did says more than what we ended it for, and that says more than how it went then.

    Raises:
        InfrastructureFault: it could not be ended; it is noted as lost.
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


class PlayerPool:
    """Starts the players of a job, hands out the one at work, and ends them.

    Args:
        context: the round.
        submission: whose players they are.
        job: the job's id, by which a sandbox is known to its backend.
        draw_seed: is asked for the seed of every sandbox of a defence; an attack's is the same in each.
        device: the UUID of the GPU that they may use.
        prestart_allowed: whether a second sandbox may live while one plays (never on a GPU).
        fresh_copy: what is started in place of the submission's image, where the kernel is not to know its files; see
            `runs_from_copy`.
        wrap_sandbox: is handed every sandbox, to record the conversation.
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
        """What faults may cost, asked before a sandbox is opened. Nothing is bounded unless an attempt begins so."""
        self.ambiguous_exits = AmbiguousExitTracker()
        self.runs_from_copy = fresh_copy is not None
        """Whether the sandboxes to come are started from the fresh copy, or from the image that play started."""
        self.latest_seed: int | None = None
        """The seed that a sandbox got last; None where none got one since the job's last finished step."""
        self._context, self._submission, self._job, self._device = context, submission, job, device
        self._draw_seed, self._fresh_copy, self._wrap_sandbox = draw_seed, fresh_copy, wrap_sandbox
        self._repeated_seed: int | None = None
        self._exits: list[SandboxExit] = []
        self._prestart_allowed = prestart_allowed
        self._active: Player | None = None
        self._prestarted: Future[Player] | None = None
        self._replacement_due = False
        self._closed = False
        self._lock = threading.Lock()

    def begin_attempt(self, budget: FaultBudget, *, replacement_due: bool = False) -> None:
        """Prepares for an attempt at the job, also after `close`, with what faults may cost in it.

        `replacement_due` says that its first player replaces one that another process ended because of a fault.
        """
        with self._lock:
            self._closed = False
        self.budget, self._replacement_due = budget, replacement_due

    def repeat_seed(self, seed: int | None) -> None:
        """Gives this seed to later sandboxes; with None each gets a seed of its own again."""
        self._repeated_seed = seed

    def take_exits(self) -> list[SandboxExit]:
        """Returns how the players ended that ended since this was asked last."""
        exits = list(self._exits)
        self._exits.clear()
        return exits

    def start_player(self) -> Player:
        """Returns a player that has loaded: its sandbox is opened, `hello` is sent, and `ready` is waited for.

        Raises:
            SubmissionFault: it did not get ready. How its sandbox ended is noted.
            InfrastructureFault: it could not be started.
        """
        context, limits = self._context, self._context.limits
        attack = self._submission.side is Side.ATTACK
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
            queries=context.queries_header() if attack else None,
        )
        sandbox = self._wrap_sandbox(context.backend.start(spec))
        player = Player(sandbox, session, context.clock, context.cancelled.is_set, self.ambiguous_exits)
        seed = context.attack_seed(self._submission) if attack else self._next_seed()
        step = (
            (limits.perturb_seconds, limits.perturb_batch)
            if attack
            else (limits.classify_seconds, limits.classify_batch)
        )
        self.latest_seed = seed
        try:
            player.say_hello(context.task_header(), context.limits_header(*step), seed)
            if not attack:
                self._require_gradients(player)
        except BaseException as fault:
            end_player(player.stop, self._exits, fault)
            raise
        return player

    def _image(self) -> Image:
        if self._fresh_copy is not None and self.runs_from_copy:
            return self._fresh_copy.get_image()
        return self._context.images[self._submission.id]

    def _require_gradients(self, defence: Player) -> None:
        """Raises NoGradients where the rules ask every defence for gradients and this one gives none (rule A12)."""
        if self._context.needs_gradients and not defence.gives_gradients:
            raise NoGradients(
                "it does not give gradients, which rules.initial.crafted_on: self asks of every defence (A12)"
            )

    def _next_seed(self) -> int:
        fresh = self._draw_seed()  # also where it is not used: seeds are counted by sandboxes, which are on record
        return fresh if self._repeated_seed is None else self._repeated_seed

    @property
    def has_active_player(self) -> bool:
        """Whether the next question goes to a player that was asked before."""
        return self._active is not None

    def prestart(self) -> None:
        """Starts the next player in the background, if that is allowed and none is waiting."""
        with self._lock:
            if not self._prestart_allowed or self._prestarted is not None or self._closed:
                return
            coming: Future[Player] = Future()
            threading.Thread(target=self._start_into, args=(coming,), name="player-prestart").start()
            self._prestarted = coming  # not before: nobody would ever fulfil it where no thread can be started

    @property
    def replacement_due(self) -> bool:
        """Whether the next sandbox is opened because of a fault."""
        return self._active is None and self._replacement_due

    def acquire_player(self) -> Player:
        """Returns the player at work, or the next one.

        Raises:
            GaveUp: faults of the submission have used up what they may cost.
            SubmissionFault: the next player did not get ready; it counts in the budget.
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
        """Ends the player at work after a fault of its own."""
        player, self._active = self._active, None
        if player is not None:
            self._replacement_due = True
            self.budget.count_fault()
            end_player(player.stop, self._exits, fault)

    def retire_player(self, *, replacement_due: bool = False) -> list[FaultRecord]:
        """Ends the player at work in peace, so that the next question meets a fresh one.

        `replacement_due` says that a fault is why the next one has to be fresh. Returns the fault, charged to no
        picture, of a player that wrote after its last reply; mostly nothing.
        """
        player, self._active = self._active, None
        if player is None:
            return []
        self._replacement_due = replacement_due
        fault = player.say_bye()
        end_player(player.stop, self._exits, fault)
        return [] if fault is None else [fault_record(fault)]

    def close(self) -> None:
        """Ends everything, the player started ahead included; none is started ahead any more."""
        with self._lock:
            self._closed = True
            waiting, self._prestarted = self._prestarted, None
        player, self._active = self._active, None
        with ExitStack() as ending:  # which goes on where one of them cannot be ended
            if waiting is not None and waiting.exception() is None:
                ending.callback(end_player, waiting.result().stop, self._exits)
            if player is not None:
                ending.callback(end_player, player.stop, self._exits)

    def _take_prestarted_or_start(self) -> Player:
        with self._lock:
            waiting, self._prestarted = self._prestarted, None
        return waiting.result() if waiting is not None else self.start_player()

    def _start_into(self, future: "Future[Player]") -> None:
        try:
            future.set_result(self.start_player())
        except BaseException as error:  # noqa: BLE001  raised where the player is wanted
            future.set_exception(error)
