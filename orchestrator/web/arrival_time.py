"""When the last byte of a request was here: what counts for the close, however long the request waits for its turn."""

from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic

from django.http import HttpRequest

from orchestrator.web.asgi import Scope

_KEY = "sparring.received"


def note_last_byte(scope: Scope) -> None:
    """Notes that the body of a request is whole now."""
    scope[_KEY] = monotonic()


def last_byte_time(request: HttpRequest, clock: Callable[[], datetime]) -> datetime:
    """Returns when the body of a request was whole; what came through no server, as in tests, is whole now."""
    received = getattr(request, "scope", {}).get(_KEY)
    return clock() if received is None else clock() - timedelta(seconds=monotonic() - received)
