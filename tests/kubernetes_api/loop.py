"""The thread on which controllers work. It handles queued keys, at once or at a given time, one after the other.

Kubernetes' controllers are level-triggered: they get a key, not a change, and read the state themselves (Controllers,
"Controller pattern"). An error is kept and fails the test; only a conflict or a temporary fault is retried.
"""

import heapq
import threading
import traceback
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from itertools import count

from .clock import Clock

Handler = Callable[[Hashable], None]


class Loop:
    """Handles keys one after the other."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.errors: list[str] = []
        self._clock, self._name = clock, name
        self._wake = threading.Condition()
        self._ready: dict[tuple[Handler, Hashable], None] = {}
        self._later: list[tuple[datetime, int, Handler, Hashable]] = []
        self._numbers = count()
        self._busy = False
        self._ending = False
        self._thread = threading.Thread(target=self._run, name=f"cluster-{name}", daemon=True)

    def start(self) -> None:
        """Begins to work."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after the key that is being handled."""
        with self._wake:
            self._ending = True
            self._wake.notify_all()
        self._thread.join(120)

    def add(self, handler: Handler, key: Hashable, after: float = 0.0) -> None:
        """Queues a key, to be handled at once or after some seconds. A key is not queued twice."""
        with self._wake:
            if after > 0:
                due = self._clock.now() + timedelta(seconds=after)
                heapq.heappush(self._later, (due, next(self._numbers), handler, key))
            else:
                self._ready[handler, key] = None
            self._wake.notify_all()

    def idle(self) -> bool:
        """Whether nothing waits to be handled now."""
        with self._wake:
            due = bool(self._later) and self._later[0][0] <= self._clock.now()
            return not self._ready and not self._busy and not due

    def _next(self) -> tuple[Handler, Hashable] | None:
        with self._wake:
            self._busy = False
            while not self._ending:
                while self._later and self._later[0][0] <= self._clock.now():
                    _, _, handler, key = heapq.heappop(self._later)
                    self._ready[handler, key] = None
                if self._ready:
                    found = next(iter(self._ready))
                    del self._ready[found]
                    self._busy = True
                    return found
                self._clock.wait(self._wake, self._later[0][0] if self._later else None)
            return None

    def _run(self) -> None:
        while (found := self._next()) is not None:
            handler, key = found
            try:
                handler(key)
            except Exception:  # noqa: BLE001  kept for the test, which fails of it when the cluster stops
                self.errors.append(f"{self._name}: {key}: {traceback.format_exc()}")
