"""A player's three pipes as the engine gives them: one socket, stdout and stderr interleaved in frames.

The engine's attach request turns an HTTP connection into a raw stream. It is read here from the socket itself, because
a deadline for each read and a bound on what is held need that, and no thread. Towards the player the bytes are its
stdin; from it come frames of 8 bytes (kind, three zeros, u32 big-endian length) and that many bytes.
"""

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Self

from orchestrator.domain.text import printable
from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.base import POLL_SECONDS, StreamTail, never_cancelled
from orchestrator.sandboxes.docker.engine_socket import open_stream
from orchestrator.sandboxes.linux.pipe_io import CHUNK_BYTES, OutputBuffer

_STDOUT, _STDERR = 1, 2
_HEADER = struct.Struct(">BxxxI")
_BLOCK = 256 * 1024
_ATTACHED = frozenset({HTTPStatus.OK, HTTPStatus.SWITCHING_PROTOCOLS})
_LATE_READS = 16


class Demultiplexer:
    """Splits the engine's stream; holds at most one header."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._kind = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[bool, bytes]]:
        """Yields what `data` carries, in order: whether it is stdout (else stderr), and the bytes.

        Raises:
            SandboxLost: a kind of frame that is neither; the engine reports a fault of its own.
        """
        rest = memoryview(data)
        while rest:
            if self._left:
                part, rest = bytes(rest[: self._left]), rest[self._left :]
                self._left -= len(part)
                yield self._kind == _STDOUT, part
                continue
            missing = _HEADER.size - len(self._header)
            self._header += rest[:missing]
            rest = rest[missing:]
            if len(self._header) == _HEADER.size:
                self._kind, self._left = _HEADER.unpack(self._header)
                self._header.clear()
                if self._kind not in {_STDOUT, _STDERR}:
                    raise SandboxLost(
                        f"the engine's attach stream carries kind {self._kind}, neither stdout nor stderr"
                    )


class Attachment:
    """One attached container: bytes in, bytes out, with deadlines of `time.monotonic()`."""

    def __init__(self, line: socket.socket) -> None:
        line.setblocking(False)
        self._socket = line
        self._frames = Demultiplexer()
        self._buffer = OutputBuffer()
        self._stdin_closed = False
        self.stderr_tail = StreamTail()
        self.stdin_bytes = self.stdout_bytes = self.stderr_bytes = 0
        """How many bytes went through so far, each way."""
        self.stream_ended = False
        """Whether the stream from the player has ended; nothing here says why."""
        self._poll = select.poll()
        self._poll.register(line, select.POLLIN)

    @classmethod
    def open(cls, socket_path: str, version: str, container: str, seconds: float, *, only_stderr: bool = False) -> Self:
        """Attaches to a container that was created and not yet started, so that no byte is missed.

        `socket_path` is the path of its unix socket. With `only_stderr` nothing can be sent, and stdout is left out.

        Raises:
            SandboxLost: the engine does not answer in time, or refuses.
        """
        others = int(not only_stderr)
        target = f"/v{version}/containers/{container}/attach?stream=1&stdin={others}&stdout={others}&stderr=1"
        try:
            line, head = open_stream(socket_path, "POST", target, seconds, {"Connection": "Upgrade", "Upgrade": "tcp"})
        except OSError as error:
            raise SandboxLost(f"cannot attach to a new container: {error}") from error
        if head.status not in _ATTACHED:
            line.close()
            raise SandboxLost(f"the engine refused to attach: {printable(head.line)} {printable(head.rest)}")
        try:
            attachment = cls(line)
            attachment._take_frames(head.rest)
        except BaseException:
            line.close()
            raise
        return attachment

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Writes all of `data`; see `Sandbox.send`. After half a message nothing more is written."""
        left = memoryview(data)
        while left and not self._stdin_closed:
            try:
                written = self._socket.send(left[:CHUNK_BYTES])
                self.stdin_bytes += written
                left = left[written:]
                continue
            except BlockingIOError:
                pass
            except OSError:  # the other end is gone; reading on tells what became of it
                self._stdin_closed = True
                break
            seconds = deadline - time.monotonic()
            if seconds <= 0 or self.stream_ended or cancelled():
                self._close_stdin()
                break
            self._wait_once(min(seconds, POLL_SECONDS), writing=True)
        return not left

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`. After the deadline only what is there is looked at."""
        late = 0
        while not self._buffer.size:
            if self.stream_ended:
                return b""
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                late += 1
                if late > _LATE_READS:
                    return None
            if not self._wait_once(max(0.0, seconds)) and seconds <= 0:
                return None
        return self._buffer.take()

    def drain(self) -> None:
        """Takes what has arrived by now, for the sake of stderr and of noticing the end; drops stdout."""
        for _ in range(4 * _LATE_READS):
            while self._buffer.take():
                pass
            if self.stream_ended or not self._wait_once(0.0):
                return

    def fileno(self) -> int:
        """Returns the socket's file descriptor, for callers that wait for several streams; -1 after `close`."""
        return self._socket.fileno()

    def read_available(self) -> None:
        """Takes what is there, once, and notices the end."""
        try:
            data = self._socket.recv(_BLOCK)
        except BlockingIOError:
            return
        except OSError:  # reset: the engine ended, which is found out by asking it
            data = b""
        self._take_frames(data)
        self.stream_ended = self.stream_ended or not data

    def close(self) -> None:
        """Lets go. An engine that is not being read from would hang in `kill`, so this comes before it."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # it is gone already
            pass
        finally:
            self._socket.close()
            self._stdin_closed = self.stream_ended = True

    def _wait_once(self, seconds: float, *, writing: bool = False) -> bool:
        """Waits once, for at most so long, and takes what is there; returns whether anything happened."""
        listening = not (self.stream_ended or (writing and self._buffer.is_full))
        event_mask = (select.POLLIN if listening else 0) | (select.POLLOUT if writing else 0)
        self._poll.modify(self._socket, event_mask)
        ready = self._poll.poll(min(seconds * 1000, 2**31 - 1))
        if not ready:
            return False
        event = ready[0][1]
        if listening and event & ~select.POLLOUT:
            self.read_available()
        elif event & (select.POLLHUP | select.POLLERR):  # nobody will read what is left to send
            self._stdin_closed = True
        return True

    def _take_frames(self, data: bytes) -> None:
        for stdout, part in self._frames.feed(data):
            if stdout:
                self.stdout_bytes += len(part)
                self._buffer.add(part)
            else:
                self.stderr_bytes += len(part)
                self.stderr_tail.add(part)

    def _close_stdin(self) -> None:
        self._stdin_closed = True
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.stream_ended = True
