"""One long request to the engine: bytes go in and come out in pieces, and it can be ended from outside.

Builds, loads and saves take minutes, and the caller has to be able to stop them. The library cannot be interrupted
while it waits, and it sends the operator's registry passwords and proxies with every build. So this module makes these
requests over the engine's socket, and sends nothing else.
"""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlencode

from orchestrator.domain.text import printable
from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.docker.engine_socket import UnixConnection

PIECE_BYTES = 1024 * 1024
_MAX_LINE_BYTES = 1024 * 1024
_MAX_REASON_BYTES = 8 * 1024
_POLL_SECONDS = 0.5
_CONNECT_SECONDS = 10.0
_SUCCESS = frozenset({200, 201})
_CLIENT_ERRORS = range(400, 500)


class EngineRefusal(Exception):
    """The engine refused a request, or said within its answer that it failed; the message is its own, hostile text."""


class RequestCancelled(Exception):
    """The request was ended from here; the message says why."""


class CancellableRequest:
    """Ends a request when `objection` gives a reason, which is asked twice a second."""

    def __init__(self, connection: UnixConnection, objection: Callable[[], str]) -> None:
        self._connection, self._objection = connection, objection
        self._finished = threading.Event()
        self.reason = ""
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Begins to look."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops looking."""
        self._finished.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._finished.wait(_POLL_SECONDS):
            if reason := self._objection():
                self.reason = reason
                self._connection.hang_up()
                return


@contextmanager
def engine_request(
    socket_path: str,
    method: str,
    path: str,
    query: Mapping[str, str],
    body: Iterator[bytes] | None,
    objection: Callable[[], str],
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[http.client.HTTPResponse]:
    """Gives the engine's answer, its body unread. `path` begins with the version.

    Raises:
        Refusal: the engine refused (a status from 400 to 499).
        RequestCancelled: `objection` gave a reason.
        SandboxLost: the engine failed.
    """
    # An answer may take any time: another thread ends the connection if the caller has to stop.
    line = UnixConnection(socket_path, _CONNECT_SECONDS, answer_seconds=None)
    with CancellableRequest(line, objection) as guard:
        try:
            yield _send_request(line, method, f"{path}?{urlencode(query)}", body, headers)
        except (OSError, http.client.HTTPException) as error:
            if guard.reason:
                raise RequestCancelled(guard.reason) from error
            raise SandboxLost(f"{method} {path}: the engine failed: {printable(str(error), 600)}") from error
        finally:
            line.hang_up()
            line.close()
        if guard.reason:
            raise RequestCancelled(guard.reason)


def _send_request(
    line: UnixConnection, method: str, target: str, body: Iterator[bytes] | None, more: Mapping[str, str]
) -> http.client.HTTPResponse:
    headers = {"Connection": "close", **({} if body is None else {"Content-Type": "application/x-tar"}), **more}
    with suppress(BrokenPipeError, ConnectionResetError):  # it answered before it had everything
        line.request(method, target, body, headers, encode_chunked=body is not None)
    answer = line.response()
    if answer.status in _CLIENT_ERRORS:
        raise EngineRefusal(_refusal_reason(answer.read(_MAX_REASON_BYTES)))
    if answer.status not in _SUCCESS:
        raise SandboxLost(f"{method} {target}: {answer.status} {_refusal_reason(answer.read(_MAX_REASON_BYTES))}")
    return answer


def _refusal_reason(body: bytes) -> str:
    try:
        return printable(str(json.loads(body)["message"]), 600)
    except (ValueError, KeyError, TypeError):
        return printable(body, 600)


def progress_messages(answer: http.client.HTTPResponse) -> Iterator[Mapping[str, Any]]:
    """Yields what the engine says while it works, one JSON object a line. Raises EngineRefusal for an error in it."""
    while text := answer.readline(_MAX_LINE_BYTES):
        try:
            message = json.loads(text)
        except ValueError as error:
            raise SandboxLost(f"the engine's answer is not JSON: {printable(text, 200)}") from error
        if not isinstance(message, dict):
            continue
        if "error" in message:
            raise EngineRefusal(printable(str(message["error"]), 600))
        yield message


def deadline_objection(deadline: float, reason: str) -> Callable[[], str]:
    """Returns an objection against going on after a moment of `time.monotonic()`."""
    return lambda: reason if time.monotonic() > deadline else ""
