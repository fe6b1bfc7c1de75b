"""The interface to the server, ASGI: its types, and answers that are given before Django is asked."""

from collections.abc import Awaitable, Callable
from typing import Any

from django.http import HttpResponse

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
_API = "/api/"
_HEADERS = {
    "Cache-Control": "private, no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Connection": "close",  # the body of the request was not read
}
"""What Django's middleware would add."""


def is_for_program(scope: Scope) -> bool:
    """Returns whether a request is one to the API, and so is answered in JSON."""
    path: str = scope["path"]
    return path.startswith(_API)


async def answer_early(send: Send, response: HttpResponse) -> None:
    """Sends an answer whose request no middleware and no view has seen, and ends the connection."""
    headers = [(name.encode(), value.encode()) for name, value in {**response.headers, **_HEADERS}.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})
