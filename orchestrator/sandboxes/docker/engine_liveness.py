"""Whether the engine lived through something: a line to it that stays open as long as it does.

An engine that is told to stop (measured on 20.10) first closes its listening socket, then ends the containers, and all
the while answers on connections that are open already: it reports players as exited with 143 as if they had crashed.
One that was killed and started again reports 137, and has forgotten that it was ever asked to kill anybody. So two
things together show that it lived through an end: a connection older than the sandbox is still open, and a new one,
made after the end, is answered.
"""

import json
import socket
import threading
from http import HTTPStatus
from typing import Self
from urllib.parse import quote

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.docker.engine_socket import open_stream

_NO_EVENTS_FILTER = quote(json.dumps({"type": ["plugin"], "event": ["sparring"]}))
"""Events that never happen: the line is kept for what it is, not for what it says."""
_BLOCK = 64 * 1024


class EngineConnection:
    """An open connection to one life of the engine. Threads may share it."""

    def __init__(self, line: socket.socket, engine: str, seconds: float) -> None:
        self._socket, self._socket_path, self._seconds = line, engine, seconds
        self._broken = False
        self._lock = threading.Lock()

    @classmethod
    def open(cls, socket_path: str, version: str, seconds: float) -> Self:
        """Connects to the engine whose unix socket is `socket_path`.

        Raises:
            SandboxLost: it does not answer within `seconds`.
        """
        try:
            line, head = open_stream(socket_path, "GET", f"/v{version}/events?filters={_NO_EVENTS_FILTER}", seconds)
        except OSError as error:
            raise SandboxLost(f"the engine does not answer: {error}") from error
        if head.status != HTTPStatus.OK:
            line.close()
            raise SandboxLost("the engine does not stream its events")
        line.setblocking(False)
        return cls(line, socket_path, seconds)

    def is_open(self) -> bool:
        """Whether the line is still open; once it is broken it stays so."""
        with self._lock:
            while not self._broken:
                try:
                    self._broken = not self._socket.recv(_BLOCK)
                except BlockingIOError:
                    return True
                except OSError:
                    self._broken = True
            return False

    def engine_survived(self) -> bool:
        """Whether this life of the engine goes on, and is not about to end: it takes a new connection, too."""
        return self.is_open() and self._accepts_connection() and self.is_open()

    def close(self) -> None:
        """Lets go."""
        with self._lock:
            self._broken = True
            self._socket.close()

    def _accepts_connection(self) -> bool:
        try:
            fresh, head = open_stream(self._socket_path, "GET", "/_ping", self._seconds, {"Connection": "close"})
        except OSError:
            return False
        fresh.close()
        return head.status == HTTPStatus.OK


class LivenessMonitor:
    """The witness at hand: the same one for all sandboxes of a life of the engine, then a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: EngineConnection | None = None

    def open_connection(self, socket_path: str, version: str, seconds: float) -> EngineConnection:
        """Returns an unbroken witness. Raises SandboxLost when the engine does not answer."""
        with self._lock:
            if self._connection is None or not self._connection.is_open():
                self._close_connection()
                self._connection = EngineConnection.open(socket_path, version, seconds)
            return self._connection

    def _close_connection(self) -> None:
        """Closes the line of a life that is over."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Closes the line; a later call opens a new one."""
        with self._lock:
            self._close_connection()
