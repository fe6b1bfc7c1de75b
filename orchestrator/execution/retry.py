"""Waiting for a backend that is away: an engine that is started again takes 10 to 20 s until it answers.

Three attempts in two seconds would all meet the same closed door, so waiting takes no attempt. It is bounded and on
record, and a backend that fails while it is there uses up attempts as ever.
"""

import threading

from orchestrator.errors import BackendUnavailable, Cancelled
from orchestrator.execution.round_context import Clock
from orchestrator.sandboxes.base import Backend

MAX_WAIT_SECONDS = 120.0
"""Seconds that a backend is waited for at a time."""
POLL_SECONDS = 0.5
"""Seconds between two looks."""


class FailureStreak:
    """Counts the attempts one after another that finished no step."""

    def __init__(self, finished: int) -> None:
        self._finished = finished
        self.length = 0

    def count_failure(self, finished: int) -> None:
        """Takes that an attempt failed when so many steps of the job were finished."""
        self.length = self.length + 1 if finished == self._finished else 1
        self._finished = finished


def wait_for_backend(backend: Backend, clock: Clock, cancelled: threading.Event) -> float:
    """Waits until the backend can play; returns for how many seconds, 0 where it can at once.

    Raises:
        BackendUnavailable: it could not for `MAX_WAIT_SECONDS` seconds.
        Cancelled: the operator ended the round meanwhile.
    """
    started_at = clock()
    waited = 0.0
    while True:
        try:
            backend.require_available()
        except BackendUnavailable as error:
            waited = clock() - started_at
            if waited >= MAX_WAIT_SECONDS:
                raise BackendUnavailable(f"{error}; it was waited for, for {waited:.0f} s") from error
        else:
            return waited and clock() - started_at
        if cancelled.wait(POLL_SECONDS):
            raise Cancelled("cancelled by the operator")
