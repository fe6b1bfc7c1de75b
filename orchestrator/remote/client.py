"""An HTTP client for a contest's site. It uses only the standard library, with the system's proxies and certificates.

It sends a token only to the address that the token belongs to: it follows no redirects, and sends tokens without TLS
only to this machine itself.
"""

import http
import http.client
import ipaddress
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import IO, Any, Never
from urllib.parse import urlsplit

from orchestrator import __version__
from orchestrator.domain.text import parse_digits, printable
from orchestrator.errors import Problem, Rejected, ServiceUnavailable, UsageError

API = "/api/v1"
MOST_BYTES = 256 * 1024 * 1024
"""The longest answer that is read, in bytes. Boards of a large contest are a few MiB."""
ATTEMPTS = 5
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 120
"""The longest time that the client waits, at a service's request, before it repeats a request."""
_TIMEOUT_SECONDS = 300
_TEMPORARY_STATUSES = frozenset({408, 429, 502, 503, 504})
_TEXT_LIMIT = 2000


class ServiceRefused(Rejected):
    """The service refuses a request. `reason` is the code in its answer."""

    def __init__(self, subject: str, problems: list[Problem], reason: str) -> None:
        super().__init__(subject, problems)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Answer:
    """The service's response to a request."""

    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        """Returns the body as a JSON document. Raises ServiceUnavailable if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ServiceUnavailable(f"the answer is no JSON: {error}; is this the address of a contest?") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Follows no redirect, because the token would be sent along."""
        del req, fp, code, msg, headers, newurl


def service_address(text: str) -> str:
    """Returns the address of a site as https://cup.example.org, without a path or query. Raises UsageError."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise UsageError(f"{printable(text, 80)} is no address of a site; write it like https://cup.example.org")
    return f"{parts.scheme}://{parts.netloc.lower()}"


def require_private(address: str) -> None:
    """Raises UsageError if an address has no TLS and is not this machine, so that others could read a sent token."""
    parts = urlsplit(address)
    if parts.scheme != "https" and not _is_this_machine(parts.hostname or ""):
        raise UsageError(f"{address} has no TLS, and a token could be read on the way; use https://{parts.netloc}")


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ServiceClient:
    """A client for one site with its token. The token is empty for requests that need none.

    Raises:
        UsageError: a token would be sent without TLS.
    """

    def __init__(self, address: str, token: str = "", sleep: Callable[[float], object] = time.sleep) -> None:
        if token:
            require_private(address)
        self.address, self._token, self._sleep = address, token, sleep
        is_local = _is_this_machine(urlsplit(address).hostname or "")
        proxies = urllib.request.ProxyHandler({} if is_local else None)
        self._opener = urllib.request.build_opener(_NoRedirect, proxies)

    def get(self, path: str) -> Any:
        """Returns a document of the API. Raises like `request`."""
        return self.request("GET", path).json()

    def post(self, path: str, document: Mapping[str, object]) -> Answer:
        """Sends a document. Raises like `request`."""
        return self.request("POST", path, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        attempts: int = ATTEMPTS,
    ) -> Answer:
        """Sends a request and returns the answer. Repeats it after temporary failures.

        Args:
            method: the HTTP method.
            path: the path below /api/v1.
            body: the body of the request, None for none.
            headers: additional headers.
            attempts: how often the request is sent at most.

        Raises:
            ServiceRefused: the contest's rules do not allow the request.
            UsageError: the token is missing, unknown, expired or has too narrow a scope, or there is no such resource.
            ServiceUnavailable: the service does not answer, or asks for too long a wait.
        """
        wait = FIRST_WAIT_SECONDS
        while True:
            attempts -= 1
            try:
                return self._send(method, path, body, headers or {})
            except _TemporaryFailure as later:
                pause = max(wait, later.seconds)
                if attempts < 1 or pause > LONGEST_WAIT_SECONDS:
                    raise ServiceUnavailable(f"{self.address}: {later.text}; run the same again later") from later
            self._sleep(pause)
            wait *= 2

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Sends one request and returns the response. Raises _TemporaryFailure, and the errors of `_refuse`."""
        request = urllib.request.Request(f"{self.address}{API}{path}", body, dict(headers), method=method)  # noqa: S310  `service_address` allows only http(s)
        request.add_header("User-Agent", f"sparring/{__version__}")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return Answer(answer.status, answer.headers, answer.read(MOST_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                failed = Answer(error.code, error.headers, error.read(MOST_BYTES))
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise _TemporaryFailure(printable(f"it does not answer: {reason}", _TEXT_LIMIT)) from error
        return _refuse(failed, f"{method} {path}")


class _TemporaryFailure(Exception):
    """A temporary failure: the same request may succeed later. `seconds` is how long the service asks to wait, or 0."""

    def __init__(self, text: str, seconds: int = 0) -> None:
        super().__init__(text)
        self.text, self.seconds = text, seconds


def _refuse(failed: Answer, subject: str) -> Never:
    """Raises the error that an unsuccessful answer describes."""
    if failed.status in _TEMPORARY_STATUSES:
        seconds = parse_digits(failed.headers.get("Retry-After", ""), 9)
        text = "; ".join(f"{each.what}" for each in _problems(failed)) or f"it answers {failed.status}"
        raise _TemporaryFailure(text, seconds or 0)
    problems = _problems(failed)
    if not problems:
        url = failed.headers.get("Location", "")
        what = f"it has moved to {printable(url, 200)}; give that address" if url else "is it the address of a contest?"
        raise UsageError(f"the service answers {failed.status}: {what}")
    if failed.status in (401, 403, 404):
        raise UsageError("; ".join(f"{each.what}; {each.remedy}" for each in problems))
    if failed.status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        raise ServiceUnavailable("; ".join(str(each) for each in problems))
    raise ServiceRefused(subject, problems, str(failed.json()["code"]))


def _problems(failed: Answer) -> list[Problem]:
    """Returns the problems in an answer as printable text; none if this API did not write the answer."""
    try:
        document = json.loads(failed.body)
        parts = document["problems"]
        texts = [[printable(str(part[key]), _TEXT_LIMIT) for key in ("place", "what", "remedy")] for part in parts]
        str(document["code"])
    except (ValueError, TypeError, KeyError):
        return []
    return [Problem(*each) for each in texts]
