"""Ends that nobody can attribute: how often they are played again before they count (rule X1).

A player's stream ended, and the engine was not shown to have lived through it: it was being stopped, or had been
killed. The player is hardly ever the cause, so the step is played again. But it could be the cause, so the step is
played again at most twice: a player that finds a way to end the engine gains two attempts, and then gets a fault. From
then on each such end in the job is a fault at once, so that a player that never starts does not delay every step.
"""

import threading
from collections import defaultdict

from orchestrator.errors import AmbiguousExit, PlayerDied

MAX_RETRIES = 2
"""How often one step of a job is played again for this."""


class AmbiguousExitTracker:
    """The ambiguous ends of one job, per step.

    An attempt counts once however many of its sandboxes end so: one engine that goes down takes the sandbox at work
    and the one that waits with it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: defaultdict[int, set[int]] = defaultdict(set)
        self._step = self._attempt = 0
        self._counted_as_death = False  # one of them counted

    def begin_step(self, step: int, attempt: int) -> None:
        """Says which step is played now, in which attempt at the job."""
        with self._lock:
            self._step, self._attempt = step, attempt

    def resolve(self, end: AmbiguousExit) -> AmbiguousExit | PlayerDied:
        """Returns what an ambiguous end is: itself, to be played again, or the player's own death."""
        with self._lock:
            doubtful = self._attempts[self._step]
            if self._counted_as_death or len(doubtful - {self._attempt}) >= MAX_RETRIES:
                self._counted_as_death = True
                return PlayerDied(
                    f"the player ended in {MAX_RETRIES + 1} attempts, and each time nobody could tell why: {end}"
                )
            doubtful.add(self._attempt)
            return end
