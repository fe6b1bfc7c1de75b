"""HTTP over the engine's unix socket: connects, sends a request, reads the head of the response.

The `docker` library makes the ordinary calls. This module, the only other one to open the socket, serves what the
library cannot do: a request that can be cancelled (`engine_http`), a container's raw stream (`attach_stream`), and a
connection whose end is watched (`engine_liveness`). `http.client` reads the whole response of the first. The other two
need the socket itself and every byte after the head, which `http.client` would keep in a buffer of its own.
"""

import http.client
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

_MAX_HEAD_BYTES = 64 * 1024
_HEAD_PIECE_BYTES = 4096
_HEAD_END = b"\r\n\r\n"
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: .*)?")


def connect_socket(path: str, seconds: float) -> socket.socket:
    """Returns a connected socket. Its timeout for connecting and for each read and write is `seconds`.

    Raises:
        OSError: no program listens, or the engine does not answer in time.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(seconds)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the engine's unix socket: `seconds` to connect, `answer_seconds` for each read and write."""

    def __init__(self, path: str, seconds: float, answer_seconds: float | None) -> None:
        super().__init__("engine")
        self._path, self._seconds, self._answer_seconds = path, seconds, answer_seconds
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None

    def connect(self) -> None:
        """Connects the socket."""
        self.sock = self._socket = connect_socket(self._path, self._seconds)
        self._socket.settimeout(self._answer_seconds)

    def hang_up(self) -> None:
        """Shuts the socket down, also for a thread that waits for the response.

        It uses the kept socket, because `sock` is None once the response has begun.
        """
        if self._socket is not None:
            with suppress(OSError):  # the engine closed it already
                self._socket.shutdown(socket.SHUT_RDWR)

    def response(self) -> http.client.HTTPResponse:
        """Returns the engine's response; `close` closes it too."""
        self._response = self.getresponse()
        return self._response

    def close(self) -> None:
        """Closes the response and the socket."""
        super().close()
        for resource in (self._response, self._socket):
            if resource is not None:
                resource.close()


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The head of a response: its status (0 if the first line is malformed), its first line, the bytes after it."""

    status: int
    line: bytes
    rest: bytes


def open_stream(
    path: str, method: str, target: str, seconds: float, headers: Mapping[str, str] = MappingProxyType({})
) -> tuple[socket.socket, ResponseHead]:
    """Sends a request without a body; returns the socket, which the caller closes, and the head of the response.

    The timeout for connecting and for each read and write is `seconds`.

    Raises:
        OSError: the engine did not answer in time, or closed the connection before it did.
    """
    connection = UnixConnection(path, seconds, seconds)
    try:
        connection.request(method, target, headers=headers)
        stream: socket.socket = connection.sock
        return stream, read_head(stream)
    except BaseException:
        connection.close()
        raise


def read_head(connection: socket.socket) -> ResponseHead:
    """Reads the head of a response, and the bytes that arrive with it.

    Raises:
        OSError: the engine closed the connection within the head, paused too long, or sent more than 64 KiB.
    """
    answer = bytearray()
    while _HEAD_END not in answer:
        data = connection.recv(_HEAD_PIECE_BYTES)
        if not data:
            raise ConnectionResetError("the engine hung up before it had answered")
        answer += data
        if len(answer) > _MAX_HEAD_BYTES:
            raise OSError("the engine's answer has no end of its headers")
    head, _, rest = bytes(answer).partition(_HEAD_END)
    first = head.split(b"\r\n", 1)[0]
    status = _STATUS_LINE.fullmatch(first)
    return ResponseHead(int(status[1]) if status else 0, first, rest)
