"""The cluster's clock: the machine's, or one that a test sets."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """The clock of all parts of the cluster."""

    def now(self) -> datetime:
        """Returns the time, with its zone."""

    def wait(self, condition: threading.Condition, until: datetime | None) -> None:
        """Waits on a held condition until it is notified, or the time has come."""


class SystemClock:
    """The machine's time. It never goes back, even where the machine's does."""

    def __init__(self) -> None:
        self._began, self._offset = datetime.now(UTC), time.monotonic()

    def now(self) -> datetime:
        """Returns the time, with its zone."""
        return self._began + timedelta(seconds=time.monotonic() - self._offset)

    def wait(self, condition: threading.Condition, until: datetime | None) -> None:
        """Waits on a held condition until it is notified, or the time has come."""
        condition.wait(None if until is None else max(0.0, (until - self.now()).total_seconds()))


class ManualClock:
    """A time that stands still until `advance` is called."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._waiting: set[threading.Condition] = set()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Returns the time, with its zone."""
        return self._now

    def wait(self, condition: threading.Condition, until: datetime | None) -> None:
        """Waits on a held condition until it is notified; `advance` notifies."""
        with self._lock:
            if until is not None and until <= self._now:
                return
            self._waiting.add(condition)
        condition.wait()

    def advance(self, seconds: float) -> None:
        """Moves the clock forward, and wakes all threads that wait for it."""
        with self._lock:
            self._now += timedelta(seconds=seconds)
            waiting, self._waiting = self._waiting, set()
        for condition in waiting:
            with condition:
                condition.notify_all()


def stamp(moment: datetime) -> str:
    """Returns a `metav1.Time`: RFC 3339 in UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(text: str) -> datetime:
    """Returns the moment that a stamp names."""
    return datetime.fromisoformat(text)


def eventually(condition: Callable[[], object], what: str = "", seconds: float = 60.0) -> object:
    """Returns the first true value of a condition that is asked every 5 ms.

    Raises:
        AssertionError: it was not true within `seconds`.
    """
    end = time.monotonic() + seconds
    while True:
        if found := condition():
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what or condition}")
        time.sleep(0.005)
