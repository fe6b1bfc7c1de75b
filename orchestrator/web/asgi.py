"""Types of ASGI, the interface to the server, and answers to requests whose body was not read."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
LINGER_SECONDS, IDLE_SECONDS = 30.0, 5.0
"""How long the rest of a body is read and discarded after an early answer: at most, and while no bytes arrive."""
_API = "/api/"


def is_for_program(path: str) -> bool:
    """Returns whether a path belongs to the API, which answers in JSON."""
    return path.startswith(_API)


def lingering(receive: Receive, send: Send) -> Send:
    """Returns a `send` for an answer to a request whose body was not read. It reads the body before it ends the answer.

    It does so for a bounded time. A connection that is closed while it has unread bytes is reset, and the client may
    then never see the answer.
    """

    async def send_and_wait(message: Any) -> None:
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not is_last:
            await send(message)
            return
        await send({**message, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                more = True
                while more:
                    async with asyncio.timeout(IDLE_SECONDS):
                        more = (await receive()).get("more_body", False)
        await send({"type": "http.response.body", "body": b""})

    return send_and_wait
