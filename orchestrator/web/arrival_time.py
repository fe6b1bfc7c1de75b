"""When the last byte of a request came. This time counts for the close, however long the request then waits."""

from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic

from django.http import HttpRequest

from orchestrator.web.asgi import Scope

_KEY = "sparring.received"


def record_last_byte(scope: Scope) -> None:
    """Stores in the scope of a request that its last byte has come now."""
    scope[_KEY] = monotonic()


def last_byte_time(request: HttpRequest, clock: Callable[[], datetime]) -> datetime:
    """Returns when the last byte of a request came; the current time for a request without a server, as in tests."""
    received = getattr(request, "scope", {}).get(_KEY)
    return clock() if received is None else clock() - timedelta(seconds=monotonic() - received)
