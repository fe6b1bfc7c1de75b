"""A player behind pipes of our own: how it is written to, and what it wrote that nobody has asked for yet."""

import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from orchestrator.sandboxes.base import POLL_SECONDS, StreamTail, never_cancelled

CHUNK_BYTES = 1024 * 1024
"""The most bytes that `Sandbox.receive` returns at a time."""
_SMALL_READ_BYTES = 64 * 1024
"""The most bytes read at a time from a player that sends little. For each read of `CHUNK_BYTES` the C library maps new
memory and gives it back, which takes longer than everything else about a small answer."""
MAX_BUFFERED_BYTES = 16 * 1024 * 1024
"""The most bytes of stdout held while a player is being written to. More is left in its pipe, where it blocks."""


class OutputBuffer:
    """Chunks in the order they came. `size` is their sum in bytes."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self.size = 0

    @property
    def is_full(self) -> bool:
        """Whether no more should be read for now."""
        return self.size >= MAX_BUFFERED_BYTES

    def add(self, data: bytes) -> None:
        """Takes bytes as they were read."""
        if data:
            self._chunks.append(data)
            self.size += len(data)

    def take(self) -> bytes:
        """Returns the oldest bytes, at most `CHUNK_BYTES`; b"" when nothing is held."""
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
        self._buffer = OutputBuffer()
        self._stderr_tail = StreamTail()
        self._stdin_closed = False  # its stdin is closed
        self._stdin_broken = False  # nobody reads its stdin
        self._stdout_ended = False  # its stdout has ended
        self._stdin_bytes = 0  # bytes through its stdin
        self._read_bytes = _SMALL_READ_BYTES  # the most bytes that the next read of its stdout takes

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Writes all of `data`; see `Sandbox.send`. After half a message its stdin is closed: nothing may follow."""
        left = memoryview(data)
        while left and not self._stdin_closed:
            try:
                written = os.write(self._stdin_handle, left[:CHUNK_BYTES])
                self._stdin_bytes += written
                left = left[written:]
                continue
            except BlockingIOError:
                pass
            except BrokenPipeError:
                self._stdin_broken = True
                self._close_stdin()
                break
            seconds = deadline - time.monotonic()
            if seconds <= 0 or self._player_ended or cancelled():
                self._close_stdin()
                break
            self._wait_once(min(seconds, POLL_SECONDS), writing=True)
        return not left

    def _read_chunk(self, handle: int) -> bytes:
        """Reads its stdout once: much at a time where the read before was full. Raises BlockingIOError."""
        data = os.read(handle, self._read_bytes)
        self._read_bytes = CHUNK_BYTES if len(data) == self._read_bytes else _SMALL_READ_BYTES
        return data

    def _wait_for_stdout(self, deadline: float) -> bool:
        """Waits for stdout; returns whether there is something or its end, also when it was there by the deadline."""
        late = False
        while not self._buffer.size and not self._stdout_ended:
            seconds = deadline - time.monotonic()
            if seconds <= 0 and late:
                return False
            late = seconds <= 0
            self._wait_once(max(0.0, seconds))
        return True

    @property
    @abstractmethod
    def _stdin_handle(self) -> int:
        """The handle of its stdin."""

    @property
    @abstractmethod
    def _player_ended(self) -> bool:
        """Whether the player is known to have ended."""

    @abstractmethod
    def _wait_once(self, seconds: float, *, writing: bool = False) -> object:
        """Waits once, for at most so long, and takes what is there; `writing` waits for room in its stdin too."""

    @abstractmethod
    def _close_stdin(self) -> None:
        """Closes its stdin. Safe to call twice."""
