"""HTTP over the engine's unix socket: connect, write a request, read the head of its answer.

`docker`, the library, makes the ordinary calls. What it cannot do starts here, and no other module opens the socket:
a request that can be ended from outside (`engine_http`), a container's raw stream (`attach_stream`), and a connection
that is watched for as long as it stays open (`engine_liveness`). `http.client` reads the whole answer of the first;
the two others need the socket itself once the head was read, and every byte after it, which `http.client` would keep
in a buffer of its own.
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
    """Returns a socket that is connected; `seconds` bound this, and each read and write until that is changed.

    Raises:
        OSError: nobody listens, or the engine does not answer in time.
    """
    line = socket.socket(socket.AF_UNIX)
    try:
        line.settimeout(seconds)
        line.connect(path)
    except BaseException:
        line.close()
        raise
    return line


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the engine's unix socket; `seconds` bound connecting, and `answer_seconds` each read and write."""

    def __init__(self, path: str, seconds: float, answer_seconds: float | None) -> None:
        super().__init__("engine")
        self._path, self._seconds, self._answer_seconds = path, seconds, answer_seconds
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None

    def connect(self) -> None:
        """Opens the socket."""
        self.sock = self._socket = connect_socket(self._path, self._seconds)
        self._socket.settimeout(self._answer_seconds)

    def hang_up(self) -> None:
        """Ends the conversation, also for a thread that waits for an answer.

        It shuts down the kept socket, because `sock` is None once the answer has begun.
        """
        if self._socket is not None:
            with suppress(OSError):  # it is over already
                self._socket.shutdown(socket.SHUT_RDWR)

    def response(self) -> http.client.HTTPResponse:
        """Returns what the engine answers; `close` closes it too."""
        self._response = self.getresponse()
        return self._response

    def close(self) -> None:
        """Lets go of everything."""
        super().close()
        for resource in (self._response, self._socket):
            if resource is not None:
                resource.close()


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """How an answer begins: its status, 0 where its first line is none; that line; and the bytes after the head."""

    status: int
    line: bytes
    rest: bytes


def open_stream(
    path: str, method: str, target: str, seconds: float, headers: Mapping[str, str] = MappingProxyType({})
) -> tuple[socket.socket, ResponseHead]:
    """Sends a request without a body; returns the socket, which is the caller's to close, and the answer's head.

    Connecting, and each read and write, take at most `seconds`.

    Raises:
        OSError: the engine does not answer in time, or hangs up before it did.
    """
    connection = UnixConnection(path, seconds, seconds)
    try:
        connection.request(method, target, headers=headers)
        line: socket.socket = connection.sock
        return line, read_head(line)
    except BaseException:
        connection.close()
        raise


def read_head(line: socket.socket) -> ResponseHead:
    """Reads the head of an answer, and takes what comes with it.

    Raises:
        OSError: the engine hangs up within the head, does not go on in time, or sends a head of more than 64 KiB.
    """
    answer = bytearray()
    while _HEAD_END not in answer:
        data = line.recv(_HEAD_PIECE_BYTES)
        if not data:
            raise ConnectionResetError("the engine hung up before it had answered")
        answer += data
        if len(answer) > _MAX_HEAD_BYTES:
            raise OSError("the engine's answer has no end of its headers")
    head, _, rest = bytes(answer).partition(_HEAD_END)
    first = head.split(b"\r\n", 1)[0]
    status = _STATUS_LINE.fullmatch(first)
    return ResponseHead(int(status[1]) if status else 0, first, rest)
