"""A player's streams over the engine's attach request: one socket, with stdout and stderr multiplexed in frames.

The engine's attach request turns an HTTP connection into a raw stream. This module reads the socket itself, which
allows a deadline for each read and a bound on buffered bytes without a thread. Bytes sent are the player's stdin. Bytes
received are frames: a header of 8 bytes (kind, three zeros, u32 big-endian length), then that many bytes.
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
    """Splits the engine's stream into stdout and stderr; buffers at most one header."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._kind = 0
        self._missing = 0  # bytes of the current frame that have not come yet

    def feed(self, data: bytes) -> Iterator[tuple[bool, bytes]]:
        """Yields the parts of `data` in order: whether each is stdout (otherwise stderr), and its bytes.

        Raises:
            SandboxLost: a frame is of another kind, with which the engine reports its own faults.
        """
        rest = memoryview(data)
        while rest:
            if self._missing:
                part, rest = bytes(rest[: self._missing]), rest[self._missing :]
                self._missing -= len(part)
                yield self._kind == _STDOUT, part
                continue
            missing = _HEADER.size - len(self._header)
            self._header += rest[:missing]
            rest = rest[missing:]
            if len(self._header) == _HEADER.size:
                self._kind, self._missing = _HEADER.unpack(self._header)
                self._header.clear()
                if self._kind not in {_STDOUT, _STDERR}:
                    raise SandboxLost(
                        f"the engine's attach stream carries kind {self._kind}, neither stdout nor stderr"
                    )


class Attachment:
    """The streams of one attached container, with deadlines of `time.monotonic()`."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._frames = Demultiplexer()
        self._buffer = OutputBuffer()
        self._stdin_closed = False
        self.stderr_tail = StreamTail()
        self.stdin_bytes = self.stdout_bytes = self.stderr_bytes = 0
        """How many bytes each stream has carried so far."""
        self.stream_ended = False
        """Whether the stream from the player has ended, for whatever reason."""
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    @classmethod
    def open(cls, socket_path: str, version: str, container: str, seconds: float, *, only_stderr: bool = False) -> Self:
        """Attaches to a container that was created but not started yet, so that no byte is lost.

        `socket_path` is the engine's unix socket. With `only_stderr` the stream carries neither stdin nor stdout.

        Raises:
            SandboxLost: the engine did not answer in time, or refused.
        """
        others = int(not only_stderr)
        target = f"/v{version}/containers/{container}/attach?stream=1&stdin={others}&stdout={others}&stderr=1"
        try:
            headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
            connection, head = open_stream(socket_path, "POST", target, seconds, headers)
        except OSError as error:
            raise SandboxLost(f"cannot attach to a new container: {error}") from error
        if head.status not in _ATTACHED:
            connection.close()
            raise SandboxLost(f"the engine refused to attach: {printable(head.line)} {printable(head.rest)}")
        try:
            attachment = cls(connection)
            attachment._add_frames(head.rest)
        except BaseException:
            connection.close()
            raise
        return attachment

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Writes all of `data`; see `Sandbox.send`. After an incomplete write it closes stdin."""
        unsent = memoryview(data)
        while unsent and not self._stdin_closed:
            try:
                written = self._socket.send(unsent[:CHUNK_BYTES])
                self.stdin_bytes += written
                unsent = unsent[written:]
                continue
            except BlockingIOError:
                pass
            except OSError:  # the engine closed the connection; the next read notices the end
                self._stdin_closed = True
                break
            seconds = deadline - time.monotonic()
            if seconds <= 0 or self.stream_ended or cancelled():
                self._close_stdin()
                break
            self._wait_once(min(seconds, POLL_SECONDS), writing=True)
        return not unsent

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`. After the deadline it reads without waiting."""
        late_reads = 0
        while not self._buffer.size:
            if self.stream_ended:
                return b""
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                late_reads += 1
                if late_reads > _LATE_READS:
                    return None
            if not self._wait_once(max(0.0, seconds)) and seconds <= 0:
                return None
        return self._buffer.take()

    def drain(self) -> None:
        """Reads what has arrived, without waiting: keeps stderr, notices the end, drops stdout."""
        for _ in range(4 * _LATE_READS):
            while self._buffer.take():
                pass
            if self.stream_ended or not self._wait_once(0.0):
                return

    def fileno(self) -> int:
        """Returns the socket's file descriptor, for callers that wait for several streams; -1 after `close`."""
        return self._socket.fileno()

    def read_available(self) -> None:
        """Reads once, without waiting, and notices the end."""
        try:
            data = self._socket.recv(_BLOCK)
        except BlockingIOError:
            return
        except OSError:  # a reset: the engine ended, which the caller checks by asking it
            data = b""
        self._add_frames(data)
        self.stream_ended = self.stream_ended or not data

    def close(self) -> None:
        """Closes the connection. Call it before `kill`, which hangs in an engine whose output is not read."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the engine closed it already
            pass
        finally:
            self._socket.close()
            self._stdin_closed = self.stream_ended = True

    def _wait_once(self, seconds: float, *, writing: bool = False) -> bool:
        """Polls once, for at most `seconds`, and reads what arrived; returns whether anything did."""
        listening = not (self.stream_ended or (writing and self._buffer.is_full))
        event_mask = (select.POLLIN if listening else 0) | (select.POLLOUT if writing else 0)
        self._poll.modify(self._socket, event_mask)
        ready = self._poll.poll(min(seconds * 1000, 2**31 - 1))
        if not ready:
            return False
        event = ready[0][1]
        if listening and event & ~select.POLLOUT:
            self.read_available()
        elif event & (select.POLLHUP | select.POLLERR):  # the engine will read nothing more
            self._stdin_closed = True
        return True

    def _add_frames(self, data: bytes) -> None:
        for is_stdout, part in self._frames.feed(data):
            if is_stdout:
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
