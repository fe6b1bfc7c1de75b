"""A player's three pipes as the engine gives them: one socket, stdout and stderr interleaved in frames.

The engine's attach request turns an HTTP connection into a raw stream. It is spoken here by hand, because a deadline
for each read and a bound on what is held need the socket itself, and no thread. Towards the player the bytes are its
stdin; from it come frames of 8 bytes (kind, three zeros, u32 big-endian length) and that many bytes.
"""

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Self

from orchestrator.domain.text import printable
from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.base import POLL_SECONDS, StreamTail, never_cancelled
from orchestrator.sandboxes.linux.pipe_io import CHUNK_BYTES, OutputBuffer

_STDOUT, _STDERR = 1, 2
_HEADER = struct.Struct(">BxxxI")
_BLOCK = 256 * 1024
_MAX_RESPONSE_BYTES = 64 * 1024
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
        self._line = line
        self._frames = Demultiplexer()
        self._held = OutputBuffer()
        self._deaf = False
        self.tail = StreamTail()
        self.sent = self.stdout = self.stderr = 0
        """How many bytes went through so far, each way."""
        self.ended = False
        """Whether the stream from the player has ended; nothing here says why."""
        self._poll = select.poll()
        self._poll.register(line, select.POLLIN)

    @classmethod
    def open(cls, engine: str, version: str, container: str, seconds: float) -> Self:
        """Attaches to a container that was created and not yet started, so that no byte is missed.

        `engine` is the path of its unix socket.

        Raises:
            SandboxLost: the engine does not answer in time, or refuses.
        """
        line = socket.socket(socket.AF_UNIX)
        try:
            line.settimeout(seconds)
            line.connect(engine)
            line.sendall(
                f"POST /v{version}/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n"
                "Host: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n".encode("ascii")
            )
            early = _read_upgrade_response(line)
            attachment = cls(line)
            attachment._take(early)
        except OSError as error:
            line.close()
            raise SandboxLost(f"cannot attach to a new container: {error}") from error
        except BaseException:
            line.close()
            raise
        return attachment

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:
        """Writes all of `data`; see `Sandbox.send`. After half a message nothing more is written."""
        left = memoryview(data)
        while left and not self._deaf:
            try:
                written = self._line.send(left[:CHUNK_BYTES])
                self.sent += written
                left = left[written:]
                continue
            except BlockingIOError:
                pass
            except OSError:  # the other end is gone; reading on tells what became of it
                self._deaf = True
                break
            seconds = deadline - time.monotonic()
            if seconds <= 0 or self.ended or cancelled():
                self._hang_up()
                break
            self._turn(min(seconds, POLL_SECONDS), writing=True)
        return not left

    def receive(self, deadline: float) -> bytes | None:
        """Returns stdout as it comes; see `Sandbox.receive`. After the deadline only what is there is looked at."""
        late = 0
        while not self._held.size:
            if self.ended:
                return b""
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                late += 1
                if late > _LATE_READS:
                    return None
            if not self._turn(max(0.0, seconds)) and seconds <= 0:
                return None
        return self._held.take()

    def drain(self) -> None:
        """Takes what has arrived by now, for the sake of stderr and of noticing the end; drops stdout."""
        for _ in range(4 * _LATE_READS):
            while self._held.take():
                pass
            if self.ended or not self._turn(0.0):
                return

    def close(self) -> None:
        """Lets go. An engine that is not being read from would hang in `kill`, so this comes before it."""
        try:
            self._line.shutdown(socket.SHUT_RDWR)
        except OSError:  # it is gone already
            pass
        finally:
            self._line.close()
            self._deaf = self.ended = True

    def _turn(self, seconds: float, *, writing: bool = False) -> bool:
        """Waits once, for at most so long, and takes what is there; returns whether anything happened."""
        listening = not (self.ended or (writing and self._held.full))
        wanted = (select.POLLIN if listening else 0) | (select.POLLOUT if writing else 0)
        self._poll.modify(self._line, wanted)
        ready = self._poll.poll(min(seconds * 1000, 2**31 - 1))
        if not ready:
            return False
        event = ready[0][1]
        if listening and event & ~select.POLLOUT:
            self._read()
        elif event & (select.POLLHUP | select.POLLERR):  # nobody will read what is left to send
            self._deaf = True
        return True

    def _read(self) -> None:
        try:
            data = self._line.recv(_BLOCK)
        except BlockingIOError:
            return
        except OSError:  # reset: the engine ended, which is found out by asking it
            data = b""
        self._take(data)
        self.ended = self.ended or not data

    def _take(self, data: bytes) -> None:
        for stdout, part in self._frames.feed(data):
            if stdout:
                self.stdout += len(part)
                self._held.add(part)
            else:
                self.stderr += len(part)
                self.tail.add(part)

    def _hang_up(self) -> None:
        self._deaf = True
        try:
            self._line.shutdown(socket.SHUT_WR)
        except OSError:
            self.ended = True


def _read_upgrade_response(line: socket.socket) -> bytes:
    """Reads the answer to the attach request; returns the bytes after its head."""
    answer = bytearray()
    while b"\r\n\r\n" not in answer:
        data = line.recv(4096)
        if not data or len(answer) > _MAX_RESPONSE_BYTES:
            raise SandboxLost("the engine hung up on an attach request")
        answer += data
    head, _, rest = bytes(answer).partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if len(status) < 2 or status[1] not in {b"101", b"200"}:  # noqa: PLR2004  "HTTP/1.1 101"
        raise SandboxLost(f"the engine refused to attach: {printable(head.splitlines()[0])} {printable(rest)}")
    return rest
