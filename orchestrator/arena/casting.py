"""The players of one job, one after another, the next one started ahead where that is allowed."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass

from orchestrator.arena.player import Player
from orchestrator.backends.base import Ending, Exit
from orchestrator.domain.endings import ExitReason
from orchestrator.domain.events import FaultRecord
from orchestrator.errors import DeadlinePassed, GaveUp, InfrastructureFault, OutputFlood, SubmissionFault

Opener = Callable[[], Player]
"""Starts a player and waits until it is ready."""


@dataclass(frozen=True, slots=True)
class Leave:
    """How a sandbox of the job ended, and why."""

    exit: Exit
    reason: ExitReason


def counted(faults: Iterable[FaultRecord]) -> int:
    """Returns how many of these faults cost a sandbox."""
    return sum(fault.code != GaveUp.code for fault in faults)


def end(how: Callable[[], Exit], leaves: list[Leave], fault: BaseException | None = None) -> None:
    """Ends a player and notes it: the one place that says why a sandbox ended. `fault` is what it is ended for.

    What the kernel did says more than what we ended it for, and that says more than how it went then.

    Raises:
        InfrastructureFault: it could not be ended; it is noted as lost.
    """
    try:
        ended = how()
    except InfrastructureFault:
        leaves.append(Leave(Exit(Ending.LOST), ExitReason.LOST))
        raise
    if ended.ending in {Ending.OUT_OF_MEMORY, Ending.LOST}:
        reason = ExitReason(ended.ending)
    elif isinstance(fault, DeadlinePassed):
        reason = ExitReason.TIMED_OUT
    elif isinstance(fault, OutputFlood):
        reason = ExitReason.FLOODED
    else:
        reason = ExitReason(ended.ending)
    leaves.append(Leave(ended, reason))


class Casting:
    """Hands out the player at work.

    Args:
        opener: starts and greets the next player.
        leaves: takes how every player ended, and why.
        restarts: how many players may be replaced after faults.
        faults: how many were, before this orchestrator took over.
        ahead: whether a second sandbox may live while one plays (never on a GPU).
    """

    def __init__(self, opener: Opener, leaves: list[Leave], *, restarts: int, ahead: bool, faults: int = 0) -> None:
        self._opener, self._leaves, self._restarts, self._ahead = opener, leaves, restarts, ahead
        self._player: Player | None = None
        self._next: Future[Player] | None = None
        self._faults = faults
        self._closed = False
        self._lock = threading.Lock()

    def count_anew(self, faults: int) -> None:
        """Counts faults by themselves from here on, for what has restarts of its own; it had so many already."""
        self._faults = faults

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

    def player(self) -> Player:
        """Returns the player at work, or the next one.

        Raises:
            SubmissionFault: the next player did not get ready; counted like a fault at work.
            GaveUp: too many players were replaced.
        """
        if self._player is None:
            if self._faults > self._restarts:
                raise GaveUp(f"no more sandboxes after {self._faults} faults")
            try:
                self._player = self._take()
            except SubmissionFault:
                self._faults += 1
                raise
        return self._player

    def replace(self, fault: SubmissionFault) -> None:
        """Ends the player at work after a fault of its own."""
        player, self._player = self._player, None
        if player is not None:
            self._faults += 1
            end(player.stop, self._leaves, fault)

    def retire(self) -> None:
        """Ends the player at work in peace, so that the next question meets a fresh one."""
        player, self._player = self._player, None
        if player is not None:
            end(player.dismiss, self._leaves)

    def close(self) -> None:
        """Ends everything, the player started ahead included."""
        with self._lock:
            self._closed = True
            waiting, self._next = self._next, None
        player, self._player = self._player, None
        with ExitStack() as ending:  # which goes on where one of them cannot be ended
            if waiting is not None and waiting.exception() is None:
                ending.callback(end, waiting.result().stop, self._leaves)
            if player is not None:
                ending.callback(end, player.stop, self._leaves)

    def _take(self) -> Player:
        with self._lock:
            waiting, self._next = self._next, None
        return waiting.result() if waiting is not None else self._opener()

    def _open_into(self, future: "Future[Player]") -> None:
        try:
            future.set_result(self._opener())
        except BaseException as error:  # noqa: BLE001  raised where the player is wanted
            future.set_exception(error)
