"""Long requests to the engine: both bodies are streamed, and the caller can cancel the request.

Builds, loads and saves take minutes, and the caller has to be able to cancel them. The `docker` library cannot be
interrupted while it waits, and it sends the operator's registry passwords and proxies with every build. So this module
makes these requests over the engine's socket, and sends neither.
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
    """The engine refused a request, or reported a failure in its response. The message is its own: hostile text."""


class RequestCancelled(Exception):
    """The caller cancelled the request; the message gives the reason."""


class CancellableRequest:
    """Calls `objection` twice a second, and ends the request as soon as it returns a reason."""

    def __init__(self, connection: UnixConnection, objection: Callable[[], str]) -> None:
        self._connection, self._objection = connection, objection
        self._finished = threading.Event()
        self.reason = ""
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Starts the thread that calls `objection`."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the thread."""
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
    """Sends a request and yields the response, with its body unread. `path` begins with the version of the API.

    Raises:
        EngineRefusal: the engine refused (a status from 400 to 499).
        RequestCancelled: `objection` returned a reason.
        SandboxLost: the engine failed.
    """
    # The response may take any time; a second thread shuts the connection down if the caller cancels.
    connection = UnixConnection(socket_path, _CONNECT_SECONDS, answer_seconds=None)
    with CancellableRequest(connection, objection) as guard:
        try:
            yield _send_request(connection, method, f"{path}?{urlencode(query)}", body, headers)
        except (OSError, http.client.HTTPException) as error:
            if guard.reason:
                raise RequestCancelled(guard.reason) from error
            raise SandboxLost(f"{method} {path}: the engine failed: {printable(str(error), 600)}") from error
        finally:
            connection.hang_up()
            connection.close()
        if guard.reason:
            raise RequestCancelled(guard.reason)


def _send_request(
    connection: UnixConnection, method: str, target: str, body: Iterator[bytes] | None, extra: Mapping[str, str]
) -> http.client.HTTPResponse:
    headers = {"Connection": "close", **({} if body is None else {"Content-Type": "application/x-tar"}), **extra}
    with suppress(BrokenPipeError, ConnectionResetError):  # the engine answered before it had read the whole body
        connection.request(method, target, body, headers, encode_chunked=body is not None)
    answer = connection.response()
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
    """Yields the engine's progress messages, one JSON object a line. Raises EngineRefusal if one reports an error."""
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
    """Returns an objection that gives `reason` after a deadline of `time.monotonic()`."""
    return lambda: reason if time.monotonic() > deadline else ""
