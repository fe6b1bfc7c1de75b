"""A player behind pipes of our own: how it is written to, and what it wrote that nobody has asked for yet."""

import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from orchestrator.sandboxes.base import POLL_SECONDS, StreamTail, never_cancelled

CHUNK_BYTES = 1024 * 1024
"""The most bytes that `Sandbox.receive` returns at a time."""
MAX_BUFFERED_BYTES = 16 * 1024 * 1024
"""The most bytes of stdout held while a player is being written to. More is left in its pipe, where it blocks."""


class OutputBuffer:
    """Chunks in the order they came. `size` is their sum in bytes."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self.size = 0

    @property
    def full(self) -> bool:
        """Whether no more should be read for now."""
        return self.size >= MAX_BUFFERED_BYTES

    def add(self, data: bytes) -> None:
        """Takes bytes as they were read."""
        if data:
            self._chunks.append(data)
            self.size += len(data)

    def take(self) -> bytes:
        """Returns the oldest bytes, at most `CHUNK`; b"" when nothing is held."""
        if not self._chunks:
            return b""
        data = self._chunks.popleft()
        if len(data) > CHUNK_BYTES:
            self._chunks.appendleft(data[CHUNK_BYTES:])
            data = data[:CHUNK_BYTES]
        self.size -= len(data)
        return data


class PipeSandbox(ABC):
    """What all sandboxes have in common that write to and read from non-blocking pipes, without threads.

    Each says what a turn is: one wait on all its pipes, and what is there taken.
    """

    def __init__(self) -> None:
        self._held = OutputBuffer()
        self._tail = StreamTail()
        self._deaf = False  # its stdin is closed
        self._broken = False  # nobody reads its stdin
        self._mute = False  # its stdout has ended
        self._sent = 0  # bytes through its stdin

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Writes all of `data`; see `Sandbox.send`. After half a message its stdin is closed: nothing may follow."""
        left = memoryview(data)
        while left and not self._deaf:
            try:
                written = os.write(self._input, left[:CHUNK_BYTES])
                self._sent += written
                left = left[written:]
                continue
            except BlockingIOError:
                pass
            except BrokenPipeError:
                self._broken = True
                self._close_stdin()
                break
            seconds = deadline - time.monotonic()
            if seconds <= 0 or self._over or cancelled():
                self._close_stdin()
                break
            self._turn(min(seconds, POLL_SECONDS), writing=True)
        return not left

    def _heard(self, deadline: float) -> bool:
        """Waits for stdout; returns whether there is something or its end, also when it was there by the deadline."""
        late = False
        while not self._held.size and not self._mute:
            seconds = deadline - time.monotonic()
            if seconds <= 0 and late:
                return False
            late = seconds <= 0
            self._turn(max(0.0, seconds))
        return True

    @property
    @abstractmethod
    def _input(self) -> int:
        """The handle of its stdin."""

    @property
    @abstractmethod
    def _over(self) -> bool:
        """Whether the player is known to have ended."""

    @abstractmethod
    def _turn(self, seconds: float, *, writing: bool = False) -> object:
        """Waits once, for at most so long, and takes what is there; `writing` waits for room in its stdin too."""

    @abstractmethod
    def _close_stdin(self) -> None:
        """Closes its stdin. Safe to call twice."""
