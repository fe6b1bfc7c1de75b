"""Waits for a backend that is unavailable: an engine that restarts takes 10 to 20 s until it answers.

Three attempts in two seconds would all fail for the same reason, so waiting uses up no attempt. The wait is bounded and
recorded; a backend that is available and fails uses up attempts as usual.
"""

import threading

from orchestrator.errors import BackendUnavailable, Cancelled
from orchestrator.execution.round_context import Clock
from orchestrator.sandboxes.base import Backend

MAX_WAIT_SECONDS = 120.0
"""The longest single wait for a backend, in seconds."""
POLL_SECONDS = 0.5
"""Seconds between two checks."""


class FailureStreak:
    """Counts the consecutive attempts that failed at the same step."""

    def __init__(self, finished: int) -> None:
        self._finished = finished
        self.length = 0

    def count_failure(self, finished: int) -> None:
        """Counts an attempt that failed when `finished` steps of the job were finished."""
        self.length = self.length + 1 if finished == self._finished else 1
        self._finished = finished


def wait_for_backend(backend: Backend, clock: Clock, cancelled: threading.Event) -> float:
    """Waits until the backend is available; returns the seconds that it waited, 0 if it was available at once.

    Raises:
        BackendUnavailable: the backend was unavailable for `MAX_WAIT_SECONDS` seconds.
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
                raise BackendUnavailable(f"{error}; waited {waited:.0f} s for it") from error
        else:
            return waited and clock() - started_at
        if cancelled.wait(POLL_SECONDS):
            raise Cancelled("cancelled by the operator")
