"""Ends each thing exactly once, even if several threads ask, and tries again later where that failed."""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from orchestrator.errors import SandboxLost, SparringError
from orchestrator.sandboxes.base import Exit


class PendingCleanup:
    """What could not be ended when it should have been. Threads may share it."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], object]] = deque()

    def add(self, end: Callable[[], object]) -> None:
        """Has `end` called later. It adds itself again where it fails."""
        self._calls.append(end)

    def run(self) -> None:
        """Calls everything once. What fails now too is kept for the next time."""
        for _ in range(len(self._calls)):
            with suppress(IndexError, SparringError):  # another thread came first; it is in the list again
                self._calls.popleft()()


class StopOnce:
    """Stops a sandbox once, for several callers: its owner, and the thread that runs pending clean-ups.

    Args:
        end: ends the sandbox and removes what it used; may be called again after it raised SandboxLost.
        pending: receives the clean-up if it failed.
    """

    def __init__(self, end: Callable[[], Exit], pending: PendingCleanup) -> None:
        self._end, self._pending = end, pending
        self._lock = threading.Lock()
        self._exit: Exit | None = None

    def __call__(self) -> Exit:
        """Returns how the sandbox ended. Raises SandboxLost when something of it survives; a later call tries again."""
        with self._lock:
            if self._exit is None:
                try:
                    self._exit = self._end()
                except SandboxLost:
                    self._pending.add(self)
                    raise
            return self._exit


class Rollback:
    """Undoes what was made of a sandbox that could not be started, the last first.

    Leaving the block with an error undoes everything; that error is raised, not one of undoing. A step that fails is
    tried again later, and those before it wait for it: a user id is not free while a process may have it.
    """

    def __init__(self, pending: PendingCleanup) -> None:
        self._pending = pending
        self._steps: list[Callable[[], object]] = []

    def add(self, step: Callable[[], object]) -> None:
        """Notes how the thing that was just made is removed."""
        self._steps.append(step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if error is not None:
            with suppress(SandboxLost):
                self._undo()

    def _undo(self) -> None:
        while self._steps:
            try:
                self._steps[-1]()
            except SandboxLost:
                self._pending.add(self._undo)
                raise
            self._steps.pop()
