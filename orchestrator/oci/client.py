"""Fetches documents and layers from an image registry over HTTP, with tokens, redirects, bounds and retries.

It is our own client, because libraries for registries have no bounds, follow every redirect and compare no digests
(docs/decisions/0021). A registry may be hostile: credentials go only to the registry and, over TLS, to the token server
that it names; they never follow a redirect to another host.

| the registry's answer | result |
| --- | --- |
| none, or a part: refused, reset, timed out, cut short | it is unavailable: tried again |
| 408, 429 (with Retry-After), 5xx | it is busy: tried again |
| an invalid certificate, an invalid redirect | it cannot be asked: our fault, at once |
| 401 and 403 with the credentials that there are, 404 | the image cannot be fetched: Rejected |
| any other code | the image cannot be fetched: Rejected |
"""

import base64
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, stop_before_delay

from orchestrator import __version__
from orchestrator.domain.text import parse_digits, printable
from orchestrator.errors import BackendUnavailable, UsageError
from orchestrator.oci.manifests import UnusableImageError
from orchestrator.oci.references import ImageReference

if TYPE_CHECKING:
    import requests

ATTEMPTS = 6
_CONNECT_SECONDS, _READ_SECONDS, _DOCUMENT_SECONDS = 10.0, 30.0, 60.0
_SLOWEST = 1024**2
"""The lowest speed of a registry for a layer, in bytes per second."""
_MAX_WAIT, _MAX_WAIT_DIGITS = 30.0, 9
_MAX_REDIRECTS = 5
_CHUNK_BYTES = 64 * 1024
_MAX_TOKEN_BYTES = 64 * 1024
_BUSY_STATUSES = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_CHALLENGE = re.compile(r"(?i)\bbearer\s+(.*)")
_PARAMETER = re.compile(r'([A-Za-z_]+)="([^"]*)"')
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
_LOGIN_REMEDY = "put a login for it into docker's config.json (a pull secret, mounted where DOCKER_CONFIG says)"

Login = tuple[str, str]
Result = TypeVar("Result")


class _RetryableError(Exception):
    """The registry is unavailable or busy; `retry_after` is how many seconds it asks to wait, if it does."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ImageNotFoundError(UnusableImageError):
    """There is no such image."""


@dataclass(frozen=True, slots=True)
class RegistryDocument:
    """A document: its bytes, and the type and digest that the registry gives for them."""

    data: bytes
    content_type: str
    digest: str


class RegistryClient:
    """Asks one registry about one repository; a context manager. Not for several threads at once."""

    def __init__(
        self,
        name: ImageReference,
        login: Callable[[], Login | None],
        is_insecure: Callable[[str], bool],
        *,
        seconds: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Sends no request yet; `login` is called when the registry asks for credentials.

        `is_insecure` returns whether a host[:port] is asked without TLS; `seconds` bounds the waiting between attempts.
        """
        try:
            from requests.adapters import HTTPAdapter  # noqa: PLC0415  it takes a while, and only clusters need it
        except ImportError as error:
            raise UsageError(
                "the client for image registries is missing: pip install 'sparring[kubernetes]'"
            ) from error

        self._name, self._login, self._is_insecure = name, login, is_insecure
        self._base = f"{'http' if is_insecure(name.address) else 'https'}://{name.address}/v2/"
        self._authorization = ""
        # Not a Session: it reads and unpacks the whole body of a redirect, even if it must not follow it, and it sends
        # cookies and credentials of ~/.netrc.
        self._adapter = HTTPAdapter()
        self._retrying = Retrying(
            retry=retry_if_exception_type(_RetryableError),
            stop=stop_after_attempt(ATTEMPTS) | stop_before_delay(seconds),
            wait=_retry_wait,
            sleep=sleep,
            reraise=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._adapter.close()

    def get_document(self, path: str, accept: str, max_bytes: int) -> RegistryDocument:
        """Returns a document of the repository: `manifests/latest`, `blobs/sha256:...`; at most `max_bytes` bytes.

        Raises:
            UnusableImageError: the document is missing, forbidden to us, or too large.
            BackendUnavailable: the registry was unavailable or busy in all attempts, or cannot be trusted.
        """
        return self._retry(
            lambda: self._request_document(f"{self._base}{self._name.repository}/{path}", accept, max_bytes)
        )

    def stream(self, path: str, size: int, use: Callable[[Iterator[bytes]], Result]) -> Result:
        """Returns the result of `use` for a blob of `size` bytes in pieces; calls it again if the blob is cut short.

        Raises:
            UnusableImageError: the blob is missing, forbidden to us, or longer.
            BackendUnavailable: the registry was unavailable, busy or slow in all attempts, or cannot be trusted.
        """

        def ask() -> Result:
            with self._granted(f"{self._base}{self._name.repository}/{path}", "*/*") as response:
                return use(self._pieces(response, size, _DOCUMENT_SECONDS + size / _SLOWEST))

        return self._retry(ask)

    def ping(self) -> None:
        """Raises BackendUnavailable if no registry answers; it does not test whether our credentials are accepted."""

        def ask() -> None:
            with self._send(self._base, "*/*") as response:
                if _is_busy(response.status_code):
                    raise _busy_error(response)

        self._retry(ask)

    def _retry(self, ask: Callable[[], Result]) -> Result:
        try:
            return self._retrying(ask)
        except _RetryableError as error:
            times = self._retrying.statistics["attempt_number"]
            problem = f"the registry {self._name.host} was asked {times} times: {error}"
            raise BackendUnavailable(f"{problem}; is it up, and reachable from here?") from error

    def _request_document(self, address: str, accept: str, max_bytes: int) -> RegistryDocument:
        """Asks once, with a token if the registry wants one."""
        with self._granted(address, accept) as response:
            data, header = b"".join(self._pieces(response, max_bytes, _DOCUMENT_SECONDS)), response.headers
            kind = header.get("Content-Type", "").partition(";")[0].strip().lower()
            return RegistryDocument(data, kind, header.get("Docker-Content-Digest", ""))

    @contextmanager
    def _granted(self, address: str, accept: str) -> Iterator["requests.Response"]:
        """Yields the successful response, after a request with a token if the registry wants one."""
        for asked_before in (False, True):
            with self._follow_redirects(address, accept) as response:
                if response.status_code == HTTPStatus.OK:
                    yield response
                    return
                if response.status_code != HTTPStatus.UNAUTHORIZED or asked_before:
                    raise self._error_for(response)
                challenge = response.headers.get("WWW-Authenticate", "")
            self._authorization = self._authorize(challenge)
        raise AssertionError("the second answer is yielded or refused")  # pragma: no cover

    @contextmanager
    def _follow_redirects(self, address: str, accept: str) -> Iterator["requests.Response"]:
        """Yields the response after all redirects. Credentials are sent to the registry only."""
        for _ in range(_MAX_REDIRECTS + 1):
            with self._send(address, accept) as response:
                if response.status_code not in _REDIRECT_STATUSES:
                    yield response
                    return
                address = self._redirect_target(address, response.headers.get("Location", ""))
        raise BackendUnavailable(
            f"the registry {self._name.host} redirects more than {_MAX_REDIRECTS} times; ask its operator"
        )

    @contextmanager
    def _send(
        self, address: str, accept: str, login: str | None = None, parameters: Mapping[str, str] | None = None
    ) -> Iterator["requests.Response"]:
        """Yields the response to one request. `login` replaces the authorization for the registry's own host."""
        from requests import Request  # noqa: PLC0415  as above
        from requests.utils import get_environ_proxies  # noqa: PLC0415  as above

        known = self._authorization if _origin(address) == _origin(self._base) else ""
        authorization = known if login is None else login
        headers = {"Accept": accept, "Accept-Encoding": "identity", "User-Agent": f"sparring/{__version__}"}
        if authorization:
            headers["Authorization"] = authorization
        verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE") or True
        with self._translate_errors(address):
            response = self._adapter.send(
                Request("GET", address, params=parameters, headers=headers).prepare(),
                stream=True,
                timeout=(_CONNECT_SECONDS, _READ_SECONDS),
                proxies=get_environ_proxies(address),
                verify=verify,
            )
            try:
                yield response
            finally:
                response.close()

    def _pieces(self, response: "requests.Response", most: int, seconds: float) -> Iterator[bytes]:
        """Yields the body as it was sent, never unpacked, because digests are of those bytes.

        `seconds` bounds the time spent waiting for the registry, without the time that the caller takes for the pieces.
        If a body ends before its announced length, the library raises an error (see `_translate_errors`).
        """
        waited, count = 0.0, 0
        while True:
            started_at = time.monotonic()
            piece = response.raw.read1(_CHUNK_BYTES, decode_content=False)
            waited += time.monotonic() - started_at
            count += len(piece)
            if not piece:
                return
            if count > most:
                raise UnusableImageError(
                    "image", f"a document of more than {most} bytes", "a real image's have a few KiB"
                )
            if waited > seconds:
                raise _RetryableError(f"it did not send {most} bytes within {seconds:.0f} s")
            yield piece

    def _authorize(self, challenge: str) -> str:
        """Returns the Authorization header for this repository: a token to pull from it, or name and password.

        The scope is our own, not the one in the challenge, so that no registry can make us fetch a token for more.
        """
        login = self._login()
        match = _CHALLENGE.search(challenge)
        if match is None:
            if login is None or not re.search(r"(?i)\bbasic\b", challenge):
                raise self._access_error(HTTPStatus.UNAUTHORIZED, known=login is not None)
            return _basic_authorization(login)
        fields = {name.lower(): value for name, value in _PARAMETER.findall(match[1])}
        realm = self._check_realm(fields.get("realm", ""))
        parameters = {"scope": f"repository:{self._name.repository}:pull"}
        if "service" in fields:
            parameters["service"] = fields["service"]
        with self._send(
            realm, "application/json", _basic_authorization(login) if login else "", parameters
        ) as response:
            if response.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
                raise self._access_error(response.status_code, known=login is not None)
            if _is_busy(response.status_code):
                raise _busy_error(response)
            if response.status_code != HTTPStatus.OK:
                raise BackendUnavailable(
                    f"{printable(urlsplit(realm).netloc, 80)}, which gives tokens for {self._name.host}, answers "
                    f"{response.status_code}; ask its operator"
                )
            return self._parse_token(b"".join(self._pieces(response, _MAX_TOKEN_BYTES, _DOCUMENT_SECONDS)))

    def _parse_token(self, data: bytes) -> str:
        try:
            document = json.loads(data)
            token = document.get("token") or document.get("access_token")
        except (ValueError, RecursionError, AttributeError):
            token = None
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise BackendUnavailable(f"{self._name.host} sent a token that is not valid; ask its operator")
        return f"Bearer {token}"

    def _check_realm(self, address: str) -> str:
        """Returns the token server's address, if our credentials may be sent there. Raises BackendUnavailable."""
        parts = _split_url(address)
        if parts is None or (parts.scheme != "https" and not self._is_insecure(parts.netloc)):
            raise BackendUnavailable(
                f"{self._name.host} asks for a token from {_printable_url(address)}, but credentials are "
                "sent over TLS only; "
                "if that host is yours, add it to cluster.insecure_registries"
            )
        return address

    def _redirect_target(self, address: str, location: str) -> str:
        """Returns the target of a redirect. Raises BackendUnavailable if it is not valid, or leaves TLS."""
        try:
            target = urljoin(address, location)
        except ValueError:
            target = ""
        parts = _split_url(target)
        if not location or parts is None or (parts.scheme == "http" and urlsplit(address).scheme == "https"):
            raise BackendUnavailable(
                f"{self._name.host} redirects to {_printable_url(location)}, which is not an https address; "
                "ask its operator"
            )
        return target

    def _error_for(self, response: "requests.Response") -> Exception:
        """Returns the error for a response that is not the document."""
        code = response.status_code
        if _is_busy(code):
            return _busy_error(response)
        if code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            return self._access_error(code, known=bool(self._authorization))
        if code == HTTPStatus.NOT_FOUND:
            problem = f"{self._name.host} has no {self._name.repository} {self._name.tag_or_digest} (404)"
            return ImageNotFoundError("image", problem, "push it there, or correct its name")
        return UnusableImageError(
            "image", f"{self._name.host} answers {code}", "correct the name, if this is not an image registry"
        )

    def _access_error(self, code: int, *, known: bool) -> UnusableImageError:
        recipient = "with the credentials that it was given" if known else "to somebody without credentials"
        problem = f"{self._name.host} does not give {self._name.repository} {recipient} ({int(code)})"
        return UnusableImageError("image", problem, f"correct its name, push it, or {_LOGIN_REMEDY}")

    @contextmanager
    def _translate_errors(self, address: str) -> Iterator[None]:
        import requests  # noqa: PLC0415  as above
        import urllib3  # noqa: PLC0415  as above

        host = printable(urlsplit(address).netloc, 80)
        try:
            yield
        except requests.exceptions.SSLError as error:
            raise BackendUnavailable(
                f"{host} has no trusted certificate: {_error_reason(error)}; set SSL_CERT_FILE to its authority's "
                "certificate, or, if it speaks plain HTTP, add it to cluster.insecure_registries"
            ) from error
        except (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError) as error:
            raise _RetryableError(f"{host}: {_error_reason(error)}") from error
        except OSError as error:  # every other error of the library, and missing certificate files
            raise BackendUnavailable(f"the request to {host} failed: {_error_reason(error)}") from error


def _is_busy(code: int) -> bool:
    return code >= HTTPStatus.INTERNAL_SERVER_ERROR or code in _BUSY_STATUSES


def _busy_error(response: "requests.Response") -> _RetryableError:
    seconds = parse_digits(response.headers.get("Retry-After", ""), _MAX_WAIT_DIGITS)
    return _RetryableError(f"it answers {response.status_code}", seconds)


def _split_url(address: str) -> SplitResult | None:
    """Returns the parts of an http or https address; None if it is not valid, or has a user's name in it."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
        usable = usable and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _printable_url(address: str) -> str:
    """Returns an address made printable, without its query, which may contain signatures."""
    return repr(printable(address.partition("?")[0], 120))


def _error_reason(error: Exception) -> str:
    """Returns the reason of an error, without the address that the library puts before it."""
    first = error.args[0] if error.args else error
    return printable(str(getattr(first, "reason", None) or error), 300)


def _origin(address: str) -> tuple[str, str, int]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80}.get(parts.scheme, 443)


def _basic_authorization(login: Login) -> str:
    return f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"


def _retry_wait(state: RetryCallState) -> float:
    """Returns the seconds that the registry asks to wait, else twice as many each time; at most half a minute."""
    error = state.outcome.exception() if state.outcome else None
    after = error.retry_after if isinstance(error, _RetryableError) else None
    return min(2.0 ** (state.attempt_number - 1) if after is None else max(after, 1.0), _MAX_WAIT)
