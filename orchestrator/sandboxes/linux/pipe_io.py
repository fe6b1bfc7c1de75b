"""Writes to and buffers the output of a player that is connected through non-blocking pipes."""

import os
import select
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from orchestrator.sandboxes.base import POLL_SECONDS, StreamTail, never_cancelled

CHUNK_BYTES = 1024 * 1024
"""The most bytes that `Sandbox.receive` returns at a time."""
_SMALL_READ_BYTES = 64 * 1024
"""The most bytes read at a time from a player that sends little. For each read of `CHUNK_BYTES` the C library maps and
unmaps memory, which takes longer than all other work for a small answer."""
MAX_BUFFERED_BYTES = 16 * 1024 * 1024
"""The most bytes of stdout to buffer during a write to the player. It blocks when the buffer and its pipe are full."""


class OutputBuffer:
    """A queue of bytes in chunks. `size` is their sum in bytes."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self.size = 0

    @property
    def is_full(self) -> bool:
        """Whether reading should pause."""
        return self.size >= MAX_BUFFERED_BYTES

    def add(self, data: bytes) -> None:
        """Appends bytes."""
        if data:
            self._chunks.append(data)
            self.size += len(data)

    def take(self) -> bytes:
        """Removes and returns the oldest bytes, at most `CHUNK_BYTES`; returns b"" if the buffer is empty."""
        if not self._chunks:
            return b""
        data = self._chunks.popleft()
        if len(data) > CHUNK_BYTES:
            self._chunks.appendleft(data[CHUNK_BYTES:])
            data = data[:CHUNK_BYTES]
        self.size -= len(data)
        return data


class PipeSandbox(ABC):
    """Base of the sandboxes that use non-blocking pipes, without threads.

    A subclass registers its output pipes with `_poller` and implements `_wait_once`: one call of `_poll`, and a read of
    each pipe that is ready.
    """

    def __init__(self) -> None:
        self._buffer = OutputBuffer()
        self._stderr_tail = StreamTail()
        self._stdin_closed = False
        self._stdin_broken = False  # the player closed its end of stdin
        self._stdout_ended = False
        self._stdin_bytes = 0  # bytes written to stdin
        self._read_bytes = _SMALL_READ_BYTES  # the size of the next read of stdout
        self._poller = select.poll()

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Writes all of `data`; see `Sandbox.send`. After an incomplete write it closes stdin."""
        unsent = memoryview(data)
        while unsent and not self._stdin_closed:
            try:
                written = os.write(self._stdin_handle, unsent[:CHUNK_BYTES])
                self._stdin_bytes += written
                unsent = unsent[written:]
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
        return not unsent

    def _read_chunk(self, handle: int) -> bytes:
        """Reads stdout once: `CHUNK_BYTES` if the previous read was full, otherwise less. Raises BlockingIOError."""
        data = os.read(handle, self._read_bytes)
        self._read_bytes = CHUNK_BYTES if len(data) == self._read_bytes else _SMALL_READ_BYTES
        return data

    def _wait_for_stdout(self, deadline: float) -> bool:
        """Waits for output or the end of stdout; returns False if neither came by the deadline.

        It polls once more after the deadline, so output that came before it is returned even to a late caller.
        """
        polled_late = False
        while not self._buffer.size and not self._stdout_ended:
            seconds = deadline - time.monotonic()
            if seconds <= 0 and polled_late:
                return False
            polled_late = seconds <= 0
            self._wait_once(max(0.0, seconds))
        return True

    def _poll(self, seconds: float, *, writing: bool, paused: int | None) -> dict[int, int]:
        """Polls the pipes, for at most `seconds`, without the pipe `paused`, and with stdin if `writing`.

        Returns the events of the file descriptors that are ready.
        """
        if writing:
            self._poller.register(self._stdin_handle, select.POLLOUT)
        if paused is not None:
            self._poller.unregister(paused)
        ready = dict(self._poller.poll(min(seconds * 1000, 2**31 - 1)))
        if writing:
            self._poller.unregister(self._stdin_handle)
        if paused is not None:
            self._poller.register(paused, select.POLLIN)
        return ready

    @property
    @abstractmethod
    def _stdin_handle(self) -> int:
        """The file descriptor to write stdin to."""

    @property
    @abstractmethod
    def _player_ended(self) -> bool:
        """Whether the player is known to have ended."""

    @abstractmethod
    def _wait_once(self, seconds: float, *, writing: bool = False) -> object:
        """Polls once, for at most `seconds`, and reads what arrived; if `writing`, also waits for room in stdin."""

    @abstractmethod
    def _close_stdin(self) -> None:
        """Closes stdin. Safe to call twice."""
