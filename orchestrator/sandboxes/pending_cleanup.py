"""Stops each sandbox exactly once, even if several threads ask for it, and retries a failed clean-up later."""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from orchestrator.errors import SandboxLost, SparringError
from orchestrator.sandboxes.base import Exit


class PendingCleanup:
    """A queue of clean-ups that failed. Threads may share it."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], object]] = deque()

    def add(self, end: Callable[[], object]) -> None:
        """Queues `end`, to be called by `run`. If `end` fails again, it has to queue itself again."""
        self._calls.append(end)

    def run(self) -> None:
        """Calls each queued clean-up once. One that fails is in the queue again afterwards."""
        for _ in range(len(self._calls)):
            with suppress(IndexError, SparringError):  # another thread emptied the queue; the call queued itself again
                self._calls.popleft()()


class StopOnce:
    """Stops a sandbox once, for several callers: its owner, and threads that run pending clean-ups.

    Args:
        end: ends the sandbox and removes what it used; may be called again after it raised SandboxLost.
        pending: receives the clean-up if it failed.
    """

    def __init__(self, end: Callable[[], Exit], pending: PendingCleanup) -> None:
        self._end, self._pending = end, pending
        self._lock = threading.Lock()
        self._exit: Exit | None = None

    def __call__(self) -> Exit:
        """Stops the sandbox and returns how it ended. Raises SandboxLost if that fails; a later call tries again."""
        with self._lock:
            if self._exit is None:
                try:
                    self._exit = self._end()
                except SandboxLost:
                    self._pending.add(self)
                    raise
            return self._exit


class Rollback:
    """Undoes the steps of a failed start in reverse order.

    If the block raises an error, every step is undone, and that error is raised, not one of undoing. A step that cannot
    be undone is retried later, and earlier steps wait for it: a user id must not be released while a process may have
    it.
    """

    def __init__(self, pending: PendingCleanup) -> None:
        self._pending = pending
        self._steps: list[Callable[[], object]] = []

    def add(self, step: Callable[[], object]) -> None:
        """Adds a function that undoes what was just done."""
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
