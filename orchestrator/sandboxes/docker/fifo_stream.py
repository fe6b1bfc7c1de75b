"""A player's streams over FIFOs, and an attach stream whose end signals that the container has ended.

The container's init program keeps the engine's own pipes open. So the attach stream ends when the container or the
engine ends, just as if it carried the player's bytes. Only that ends this stream: a player that closes its stdout has
not ended. The init program writes to stderr why a program could not be started; those bytes count as the player's.
"""

import os
import select
from collections.abc import Callable

from orchestrator.sandboxes.docker.attach_stream import Attachment
from orchestrator.sandboxes.docker.player_fifos import FifoEnds
from orchestrator.sandboxes.linux.pipe_io import PipeSandbox

_STDERR_BLOCK_BYTES = 64 * 1024
_LAST_READS = 64
"""Reads that empty a full pipe. The bound keeps a surviving process that goes on writing from delaying the end."""
_DRAIN_TURNS = 64


class FifoStream(PipeSandbox):
    """The streams of one player, with deadlines of `time.monotonic()`; owns the FIFO ends and the attachment."""

    def __init__(self, ends: FifoEnds, attachment: Attachment) -> None:
        super().__init__()
        self._ends, self._attachment = ends, attachment
        self.stderr_tail = attachment.stderr_tail
        self.stdout_bytes = 0
        """How many bytes of stdout were read."""
        self._stderr_bytes = 0
        self._stdin, self._stdout, self._stderr = ends.stdin, ends.stdout, ends.stderr
        self._end_watch = attachment.fileno()
        self._open = {self._stdout, self._stderr}
        for handle in (*self._open, self._end_watch):
            self._poller.register(handle, select.POLLIN)

    @property
    def stream_ended(self) -> bool:
        """Whether the stream from the player has ended, for whatever reason."""
        return self._stdout_ended

    @property
    def stdin_bytes(self) -> int:
        """How many bytes were written to stdin."""
        return self._stdin_bytes

    @property
    def stderr_bytes(self) -> int:
        """How many bytes of stderr were read, including the init program's."""
        return self._stderr_bytes + self._attachment.stderr_bytes

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`. After the deadline it reads without waiting."""
        return self._buffer.take() if self._wait_for_stdout(deadline) else None

    def drain(self) -> None:
        """Reads what has arrived, without waiting: keeps stderr, notices the end, drops stdout."""
        for _ in range(_DRAIN_TURNS):
            while self._buffer.take():
                pass
            if self._stdout_ended or not self._wait_once(0.0):
                return

    def close(self) -> None:
        """Closes the FIFOs and the attachment. Safe to call twice."""
        self._stdin_closed = self._stdout_ended = True
        self._attachment.close()
        self._ends.close()

    @property
    def _stdin_handle(self) -> int:
        return self._stdin

    @property
    def _player_ended(self) -> bool:
        return self._attachment.stream_ended

    def _wait_once(self, seconds: float, *, writing: bool = False) -> bool:
        """Polls once, for at most `seconds`, and reads what arrived; returns whether anything did."""
        paused = writing and self._buffer.is_full and self._stdout in self._open
        ready = self._poll(seconds, writing=writing, paused=self._stdout if paused else None)
        if self._stderr in ready:
            self._read_stderr()
        if self._stdout in ready:
            self._read_stdout()
        if self._end_watch in ready:
            self._attachment.read_available()
            if self._attachment.stream_ended:
                self._end()
        return bool(ready)

    def _end(self) -> None:
        """Reads what the player left in its FIFOs, which can still be read after its container ended."""
        for read in (self._read_stderr, self._read_stdout):
            for _ in range(_LAST_READS):
                if not read():
                    break
        self._stdout_ended = True

    def _read_stdout(self) -> bool:
        data = self._read(self._stdout, self._read_chunk)
        self.stdout_bytes += len(data)
        self._buffer.add(data)
        return bool(data)

    def _read_stderr(self) -> bool:
        data = self._read(self._stderr, lambda handle: os.read(handle, _STDERR_BLOCK_BYTES))
        self._stderr_bytes += len(data)
        self.stderr_tail.add(data)
        return bool(data)

    def _read(self, handle: int, read: Callable[[int], bytes]) -> bytes:
        """Reads a FIFO once, without waiting; returns b"" if it is empty or has no writer any more."""
        if handle not in self._open:
            return b""
        try:
            data = read(handle)
        except BlockingIOError:
            return b""
        if not data:
            self._open.discard(handle)
            self._poller.unregister(handle)
        return data

    def _close_stdin(self) -> None:
        self._stdin_closed = True
        self._ends.close_stdin()
