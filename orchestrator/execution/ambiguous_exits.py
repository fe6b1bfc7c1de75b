"""Decides whether an ambiguous exit of a player is played again or counts against the submission (rule X1).

An exit is ambiguous if the player's stream ended and nothing shows that the engine survived it: the engine was being
stopped, or had been killed. The player is hardly ever the cause, so the step is played again. But it could be the
cause, so the step is played again at most twice: a player that finds a way to end the engine gains two attempts, and
then gets a fault. From then on each ambiguous exit in the job is a fault at once, so that a player that never starts
does not delay every step.
"""

import threading
from collections import defaultdict

from orchestrator.errors import AmbiguousExit, PlayerDied

MAX_RETRIES = 2
"""The most retries of one step of a job because of ambiguous exits."""


class AmbiguousExitTracker:
    """Counts the ambiguous exits of one job, by step.

    An attempt counts once even if several of its sandboxes end ambiguously: an engine that stops ends the active and
    the prestarted sandbox.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: defaultdict[int, set[int]] = defaultdict(set)
        self._step = self._attempt = 0
        self._counted_as_death = False  # whether an ambiguous exit of the job has counted as a fault

    def begin_step(self, step: int, attempt: int) -> None:
        """Sets the step that is played now, and the attempt at the job."""
        with self._lock:
            self._step, self._attempt = step, attempt

    def resolve(self, end: AmbiguousExit) -> AmbiguousExit | PlayerDied:
        """Returns the error to raise for an ambiguous exit: `end` itself, which is retried, or PlayerDied."""
        with self._lock:
            attempts = self._attempts[self._step]
            if self._counted_as_death or len(attempts - {self._attempt}) >= MAX_RETRIES:
                self._counted_as_death = True
                return PlayerDied(
                    f"the player ended in {MAX_RETRIES + 1} attempts, and each time nobody could tell why: {end}"
                )
            attempts.add(self._attempt)
            return end
