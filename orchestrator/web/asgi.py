"""The interface to the server, ASGI: its types, and answers to requests whose body was not read."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
LINGER_SECONDS, IDLE_SECONDS = 30.0, 5.0
"""For how long what comes after an early answer is read and thrown away; and for how long while nothing comes."""
_API = "/api/"


def is_for_program(path: str) -> bool:
    """Returns whether a request is one to the API, and so is answered in JSON."""
    return path.startswith(_API)


def lingering(receive: Receive, send: Send) -> Send:
    """Returns a `send` for an answer that is given before the body was read: its end waits for the body, not for long.

    A connection that is closed while bytes of it wait to be read is reset, and whoever sends them may never see the
    answer.
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
