"""Checks that the engine ran without interruption while a sandbox ended.

An engine that is told to stop (measured on 20.10) first closes its listening socket, then ends the containers. Until
it exits it still answers on open connections: it reports players as exited with 143, as if they had crashed. An engine
that was killed and started again reports 137, and no longer has the events of earlier kill requests. So two conditions
together show that the engine ran all the time: a connection older than the sandbox is still open, and the engine
accepts a new one after the sandbox's end.
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
"""Matches no event: the connection only has to stay open."""
_BLOCK = 64 * 1024


class EngineConnection:
    """A connection that stays open until the engine's process ends. Threads may share it."""

    def __init__(self, connection: socket.socket, socket_path: str, seconds: float) -> None:
        self._socket, self._socket_path, self._seconds = connection, socket_path, seconds
        self._broken = False
        self._lock = threading.Lock()

    @classmethod
    def open(cls, socket_path: str, version: str, seconds: float) -> Self:
        """Connects to the engine whose unix socket is `socket_path`.

        Raises:
            SandboxLost: it does not answer within `seconds`.
        """
        target = f"/v{version}/events?filters={_NO_EVENTS_FILTER}"
        try:
            connection, head = open_stream(socket_path, "GET", target, seconds)
        except OSError as error:
            raise SandboxLost(f"the engine does not answer: {error}") from error
        if head.status != HTTPStatus.OK:
            connection.close()
            raise SandboxLost("the engine does not stream its events")
        connection.setblocking(False)
        return cls(connection, socket_path, seconds)

    def is_open(self) -> bool:
        """Returns whether the connection is still open; once it is broken it stays so."""
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
        """Returns whether the same engine still runs and is not stopping, that is, accepts a new connection."""
        return self.is_open() and self._accepts_connection() and self.is_open()

    def close(self) -> None:
        """Closes the connection."""
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
    """Provides one connection for all sandboxes, and a new one when the engine was started again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: EngineConnection | None = None

    def open_connection(self, socket_path: str, version: str, seconds: float) -> EngineConnection:
        """Returns a connection that is open. Raises SandboxLost if the engine does not answer."""
        with self._lock:
            if self._connection is None or not self._connection.is_open():
                self._close_connection()
                self._connection = EngineConnection.open(socket_path, version, seconds)
            return self._connection

    def _close_connection(self) -> None:
        """Closes the current connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Closes the connection; `open_connection` opens a new one."""
        with self._lock:
            self._close_connection()
