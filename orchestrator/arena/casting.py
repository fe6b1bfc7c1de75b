"""The players of one job, one after another, the next one started ahead where that is allowed."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from orchestrator.arena.player import Player
from orchestrator.backends.base import Exit
from orchestrator.errors import GaveUp, SubmissionFault

Opener = Callable[[], Player]
"""Starts a player and waits until it is ready."""


class Casting:
    """Hands out the player at work.

    Args:
        opener: starts and greets the next player.
        exits: takes how every player ended.
        restarts: how many players may be replaced after faults.
        ahead: whether a second sandbox may live while one plays (never on a GPU).
    """

    def __init__(self, opener: Opener, exits: list[Exit], *, restarts: int, ahead: bool) -> None:
        self._opener, self._exits, self._restarts, self._ahead = opener, exits, restarts, ahead
        self._player: Player | None = None
        self._next: Future[Player] | None = None
        self._faults = 0
        self._closed = False
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Starts the next player in the background, if that is allowed and none is waiting."""
        with self._lock:
            if not self._ahead or self._next is not None or self._closed:
                return
            self._next = Future()
            threading.Thread(target=self._open_into, args=(self._next,), name="casting").start()

    def player(self) -> Player:
        """Returns the player at work, or the next one.

        Raises:
            SubmissionFault: the next player did not get ready; counted like a fault at work.
            GaveUp: too many players were replaced.
        """
        if self._player is None:
            if self._faults > self._restarts:
                raise GaveUp(f"no more sandboxes after {self._faults} faults in one job")
            try:
                self._player = self._take()
            except SubmissionFault:
                self._faults += 1
                raise
        return self._player

    def replace(self) -> None:
        """Ends the player at work after a fault of its own."""
        if self._player is not None:
            self._faults += 1
            self._exits.append(self._player.stop())
            self._player = None

    def retire(self) -> None:
        """Ends the player at work in peace, so that the next question meets a fresh one."""
        if self._player is not None:
            self._exits.append(self._player.dismiss())
            self._player = None

    def close(self) -> None:
        """Ends everything, the player started ahead included."""
        with self._lock:
            self._closed = True
            waiting, self._next = self._next, None
        if self._player is not None:
            self._exits.append(self._player.stop())
            self._player = None
        if waiting is not None and waiting.exception() is None:
            self._exits.append(waiting.result().stop())

    def _take(self) -> Player:
        with self._lock:
            waiting, self._next = self._next, None
        return waiting.result() if waiting is not None else self._opener()

    def _open_into(self, future: "Future[Player]") -> None:
        try:
            future.set_result(self._opener())
        except BaseException as error:  # noqa: BLE001  raised where the player is wanted
            future.set_exception(error)
