"""The answers of an API server: which errors are transient, which permanent, and how long to wait before a retry."""

import json
from http import HTTPStatus
from typing import Any

from tenacity import RetryCallState, wait_random_exponential

from orchestrator.domain.text import printable
from orchestrator.errors import ClusterRefused

Object = dict[str, Any]
_MAX_PAUSE = 30.0
_MIN_PAUSE = 0.05
_SHOWN = 1000
TRANSIENT_STATUSES = {
    429: "too many requests at once",
    500: "the server or its store failed, for now",
    502: "a proxy did not reach the server",
    503: "the server is starting, ending or overloaded",
    504: "the server or its store took too long",
}
"""The transient error codes, with their causes."""
REMEDIES = {
    401: "the credentials are unknown or have run out",
    403: "give the rights in k8s/base, see sparring cluster check",
    404: "is the namespace there?",
    422: "use a version of Kubernetes that sparring cluster check accepts",
}
_DEFAULT_REMEDY = "see sparring cluster check"


class TransientApiError(Exception):
    """An error that may be gone in a moment; `retry_after` is how many seconds the server asks to wait, if it does."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ApiResponse:
    """A complete response."""

    def __init__(self, status_code: int, text: bytes, headers: Any) -> None:
        self.status_code, self._text, self._headers = status_code, text, headers

    @property
    def body(self) -> Object:
        """The body if it is a JSON object, else an empty one."""
        try:
            found = json.loads(self._text)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def description(self) -> str:
        """The response's code and message, made printable."""
        message = self.body.get("message") or self._text
        return f"the API server answered {self.status_code} ({printable(message, _SHOWN)})"

    def require_object(self) -> Object:
        """Returns the object. Raises TransientApiError or ClusterRefused if the response is an error."""
        if self.status_code in {HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED}:
            return self.body
        if self.status_code in TRANSIENT_STATUSES:
            raise TransientApiError(self.description, self._retry_after())
        raise ClusterRefused(f"{self.description}; {REMEDIES.get(self.status_code, _DEFAULT_REMEDY)}", self.status_code)

    def _retry_after(self) -> float | None:
        value = self._headers.get("Retry-After") or (self.body.get("details") or {}).get("retryAfterSeconds")
        try:
            return None if value is None else max(0.0, float(value))
        except (TypeError, ValueError):  # a date, which no API server sends
            return None


def retry_pause(state: RetryCallState) -> float:
    """Returns the seconds until the next try: those that the server asks for, else more with each try."""
    error = state.outcome.exception() if state.outcome else None
    after = error.retry_after if isinstance(error, TransientApiError) else None
    growing = wait_random_exponential(multiplier=0.25, max=10)(state)
    return growing if after is None else min(max(after, _MIN_PAUSE), _MAX_PAUSE)


def describe_broken_connection(error: BaseException) -> str:
    """Returns the message for a request without an answer."""
    return f"no answer ({printable(str(error) or type(error).__name__)})"
