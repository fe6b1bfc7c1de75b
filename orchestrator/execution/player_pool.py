"""The players of one job, one after another, the next one started ahead where that is allowed."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass

from orchestrator.domain.events import FaultRecord, SandboxRecord
from orchestrator.domain.exit_reasons import ExitReason
from orchestrator.domain.text import printable
from orchestrator.errors import (
    DeadlinePassed,
    InfrastructureFault,
    OutOfMemory,
    OutputFlood,
    ProtocolFault,
    SubmissionFault,
)
from orchestrator.execution.fault_budget import FaultBudget
from orchestrator.execution.player import Player
from orchestrator.sandboxes.base import Ending, Exit

StartPlayer = Callable[[], Player]
"""Starts a player and waits until it is ready."""


def fault_record(fault: SubmissionFault, pictures: int = 0, asked: int = 0) -> FaultRecord:
    """Returns a submission's fault as the ledger keeps it: what it is charged to, and the pictures of its question."""
    reason = fault.reason if isinstance(fault, ProtocolFault) else ""
    return FaultRecord(code=fault.code, reason=reason, message=printable(str(fault)), pictures=pictures, asked=asked)


def child_process_oom_faults(sandboxes: Iterable[SandboxRecord], faults: Iterable[FaultRecord]) -> list[FaultRecord]:
    """Returns a fault, charged to no picture, for each sandbox that was over its memory limit and lost no question.

    There a process was killed that the player had started, and the player answered on, or hung. `faults` are those of
    the step in which the sandboxes ended: each at the memory limit has a sandbox of its own.
    """
    full = [sandbox for sandbox in sandboxes if sandbox.reason is ExitReason.OUT_OF_MEMORY]
    told = sum(fault.code == OutOfMemory.code for fault in faults)
    words = "the memory limit killed a process that the player had started, and not the player"
    return [fault_record(OutOfMemory(f"{words}; processes killed: {each.kills}")) for each in full[told:]]


@dataclass(frozen=True, slots=True)
class SandboxExit:
    """How a sandbox of the job ended, and why."""

    exit: Exit
    reason: ExitReason


def end_player(how: Callable[[], Exit], leaves: list[SandboxExit], fault: BaseException | None = None) -> None:
    """Ends a player and notes it: the one place that says why a sandbox ended. `fault` is what it is ended for.

    What the kernel did says more than what we ended it for, and that says more than how it went then.

    Raises:
        InfrastructureFault: it could not be ended; it is noted as lost.
    """
    try:
        ended = how()
    except InfrastructureFault:
        leaves.append(SandboxExit(Exit(Ending.LOST), ExitReason.LOST))
        raise
    if ended.ending in {Ending.OUT_OF_MEMORY, Ending.LOST}:
        reason = ExitReason(ended.ending)
    elif isinstance(fault, DeadlinePassed):
        reason = ExitReason.TIMED_OUT
    elif isinstance(fault, OutputFlood):
        reason = ExitReason.FLOODED
    else:
        reason = ExitReason(ended.ending)
    leaves.append(SandboxExit(ended, reason))


class PlayerPool:
    """Hands out the player at work.

    Args:
        opener: starts and greets the next player.
        leaves: takes how every player ended, and why.
        budget: what faults may cost; it is asked before a sandbox is opened.
        ahead: whether a second sandbox may live while one plays (never on a GPU).
        replacing: whether the first one replaces one that another process ended because of a fault.
    """

    def __init__(
        self,
        opener: StartPlayer,
        leaves: list[SandboxExit],
        budget: FaultBudget,
        *,
        ahead: bool,
        replacing: bool = False,
    ) -> None:
        self.budget = budget
        self._opener, self._leaves, self._ahead = opener, leaves, ahead
        self._player: Player | None = None
        self._next: Future[Player] | None = None
        self._replacing = replacing
        self._closed = False
        self._lock = threading.Lock()

    @property
    def at_work(self) -> bool:
        """Whether the next question goes to a player that was asked before."""
        return self._player is not None

    def prepare(self) -> None:
        """Starts the next player in the background, if that is allowed and none is waiting."""
        with self._lock:
            if not self._ahead or self._next is not None or self._closed:
                return
            coming: Future[Player] = Future()
            threading.Thread(target=self._open_into, args=(coming,), name="casting").start()
            self._next = coming  # not before: nobody would ever fulfil it where no thread can be started

    @property
    def replacing(self) -> bool:
        """Whether the next sandbox is opened because of a fault."""
        return self._player is None and self._replacing

    def player(self) -> Player:
        """Returns the player at work, or the next one.

        Raises:
            GaveUp: faults of the submission have used up what they may cost.
            SubmissionFault: the next player did not get ready; it counts in the budget.
        """
        if self._player is None:
            self.budget.check()
            try:
                self._player = self._take()
            except SubmissionFault:
                self._replacing = True
                self.budget.failed_start()
                raise
            self._replacing = False
            self.budget.started()
        return self._player

    def replace(self, fault: SubmissionFault) -> None:
        """Ends the player at work after a fault of its own."""
        player, self._player = self._player, None
        if player is not None:
            self._replacing = True
            self.budget.fault()
            end_player(player.stop, self._leaves, fault)

    def retire(self, *, replacing: bool = False) -> list[FaultRecord]:
        """Ends the player at work in peace, so that the next question meets a fresh one.

        `replacing` says that a fault is why the next one has to be fresh. Returns the fault, charged to no picture, of
        a player that wrote after its last reply; mostly nothing.
        """
        player, self._player = self._player, None
        if player is None:
            return []
        self._replacing = replacing
        stray = player.farewell()
        end_player(player.stop, self._leaves, stray)
        return [] if stray is None else [fault_record(stray)]

    def close(self) -> None:
        """Ends everything, the player started ahead included."""
        with self._lock:
            self._closed = True
            waiting, self._next = self._next, None
        player, self._player = self._player, None
        with ExitStack() as ending:  # which goes on where one of them cannot be ended
            if waiting is not None and waiting.exception() is None:
                ending.callback(end_player, waiting.result().stop, self._leaves)
            if player is not None:
                ending.callback(end_player, player.stop, self._leaves)

    def _take(self) -> Player:
        with self._lock:
            waiting, self._next = self._next, None
        return waiting.result() if waiting is not None else self._opener()

    def _open_into(self, future: "Future[Player]") -> None:
        try:
            future.set_result(self._opener())
        except BaseException as error:  # noqa: BLE001  raised where the player is wanted
            future.set_exception(error)
