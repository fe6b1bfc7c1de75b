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
from typing import Self
from urllib.parse import quote

from orchestrator.errors import SandboxLost

_NO_EVENTS_FILTER = quote(json.dumps({"type": ["plugin"], "event": ["sparring"]}))
"""Events that never happen: the line is kept for what it is, not for what it says."""
_BLOCK = 64 * 1024


class EngineConnection:
    """An open connection to one life of the engine. Threads may share it."""

    def __init__(self, line: socket.socket, engine: str, seconds: float) -> None:
        self._line, self._engine, self._seconds = line, engine, seconds
        self._broken = False
        self._lock = threading.Lock()

    @classmethod
    def open(cls, engine: str, version: str, seconds: float) -> Self:
        """Connects to the engine whose unix socket is `engine`.

        Raises:
            SandboxLost: it does not answer within so many seconds.
        """
        line = socket.socket(socket.AF_UNIX)
        try:
            line.settimeout(seconds)
            line.connect(engine)
            line.sendall(
                f"GET /v{version}/events?filters={_NO_EVENTS_FILTER} HTTP/1.1\r\nHost: engine\r\n\r\n".encode("ascii")
            )
            answer = line.recv(_BLOCK)
            line.setblocking(False)
        except OSError as error:
            line.close()
            raise SandboxLost(f"the engine does not answer: {error}") from error
        if not answer.startswith(b"HTTP/1.1 200"):
            line.close()
            raise SandboxLost("the engine does not stream its events")
        return cls(line, engine, seconds)

    def unbroken(self) -> bool:
        """Whether the line is still open; once it is broken it stays so."""
        with self._lock:
            while not self._broken:
                try:
                    self._broken = not self._line.recv(_BLOCK)
                except BlockingIOError:
                    return True
                except OSError:
                    self._broken = True
            return False

    def lived(self) -> bool:
        """Whether this life of the engine goes on, and is not about to end: it takes a new connection, too."""
        return self.unbroken() and self._answers() and self.unbroken()

    def close(self) -> None:
        """Lets go."""
        with self._lock:
            self._broken = True
            self._line.close()

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as fresh:
            fresh.settimeout(self._seconds)
            try:
                fresh.connect(self._engine)
                fresh.sendall(b"GET /_ping HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n")
                return fresh.recv(_BLOCK).startswith(b"HTTP/1.1 200")
            except OSError:
                return False


class LivenessMonitor:
    """The witness at hand: the same one for all sandboxes of a life of the engine, then a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._witness: EngineConnection | None = None

    def witness(self, engine: str, version: str, seconds: float) -> EngineConnection:
        """Returns an unbroken witness. Raises SandboxLost when the engine does not answer."""
        with self._lock:
            if self._witness is None or not self._witness.unbroken():
                self.close_locked()
                self._witness = EngineConnection.open(engine, version, seconds)
            return self._witness

    def close_locked(self) -> None:
        """Closes the line of a life that is over."""
        if self._witness is not None:
            self._witness.close()
            self._witness = None

    def close(self) -> None:
        """Closes the line; a later call opens a new one."""
        with self._lock:
            self.close_locked()
