"""The bodies of requests: small ones in memory, large ones on the disk, and these only from clients that may send them.

All of this runs in the event loop's thread, which talks to all clients; other threads write to the disk.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import RequestAborted

from orchestrator.web.arrival_time import record_last_byte
from orchestrator.web.asgi import Receive, Scope

PIECE_BYTES = 1024 * 1024
"""How many bytes of a body are in memory while it is written to the disk."""
READERS_A_PASS = 2
"""How many bodies are read in one pass of the event loop."""
GRACE_SECONDS = 30.0
"""How long the service waits for a body in total, before any bytes earn more time."""
LEAST_BYTES_A_SECOND = 8 * 1024
"""How many received bytes add one second to that time."""
MOST_ON_DISK = 40
"""How many bodies may be on the disk at once: twice the largest number of parallel uploads that was measured."""
MOST_OF_ONE_PERSON = 8
"""How many of them may come from one person: a team has at most five uploads, and there are forms."""


class TooLargeError(Exception):
    """A body has more bytes than it may have."""


class TooSlowError(Exception):
    """A body comes too slowly."""


class TooManyError(Exception):
    """Too many bodies are on the disk, or too many requests wait. `person` is the sender's id, "" if unknown."""

    def __init__(self, person: str = "") -> None:
        super().__init__()
        self.person = person


class Turns:
    """Lets `count` readers of bodies continue in each pass of the event loop, in the order in which they asked.

    When a reader continues, the loop reads what its client has sent meanwhile. With twenty fast clients at once each
    pass would take long, and pages would wait for it. A turn is not held, so a slow client delays no other.
    """

    def __init__(self, count: int) -> None:
        self._count, self._waiting = count, deque[asyncio.Future[None]]()

    async def take(self) -> None:
        """Returns when it is the caller's turn."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._give)
        self._waiting.append(turn)
        await turn

    def _give(self) -> None:
        for turn in [self._waiting.popleft() for _ in range(min(self._count, len(self._waiting)))]:
            if not turn.done():  # a reader that was cancelled has cancelled its future
                turn.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._give)


class Spool:
    """Counts the bodies that are on the disk or will be: a bounded number, and few from each person."""

    def __init__(self) -> None:
        self._of = Counter[str]()
        self.promised = 0
        """How many bytes all of them together may have."""

    @contextmanager
    def place(self, person: str, size: int) -> Iterator[None]:
        """Counts a body of at most `size` bytes while the block lasts. Raises TooManyError if there are too many."""
        if self._of.total() >= MOST_ON_DISK or self._of[person] >= MOST_OF_ONE_PERSON:
            raise TooManyError(person)
        self._of[person] += 1
        self.promised += size
        try:
            yield
        finally:
            self.promised -= size
            self._of[person] -= 1
            if not self._of[person]:
                del self._of[person]


class Body:
    """The body of one request while it is being received.

    Args:
        scope: the request.
        receive: returns the next message of the request.
        turns: decides which reader continues next.
        most: how many bytes the body may have.
        clock: returns the time in seconds.

    Raises:
        TooLargeError: the request's Content-Length is more than `most`.
    """

    def __init__(
        self, scope: Scope, receive: Receive, turns: Turns, most: int, clock: Callable[[], float] = monotonic
    ) -> None:
        self._scope, self._receive, self._turns, self._clock = scope, receive, turns, clock
        self._most, self._received, self._waited = most, 0, 0.0
        self.told = _told_length(scope)
        """The length that the request announces, in bytes; None if it comes in chunks and announces none."""
        if self.told is not None and self.told > most:
            raise TooLargeError
        self.more = True
        """Whether more of the body follows."""

    async def read(self, size: int) -> bytearray:
        """Returns the next part of the body, of `size` bytes or a little more; less only at the end.

        Raises:
            TooLargeError: the body has more bytes than it may have.
            TooSlowError: the body comes too slowly.
            RequestAborted: the client is gone.
        """
        held = bytearray()
        while self.more and len(held) < size:
            if held:
                await self._turns.take()
            message = await self._in_time(self._receive)
            if message["type"] == "http.disconnect":
                raise RequestAborted
            piece = message.get("body", b"")
            self._received += len(piece)
            if self._received > self._most:
                raise TooLargeError
            held += piece
            self.more = message.get("more_body", False)
        if not self.more:
            record_last_byte(self._scope)
        return held

    async def to_disk(self, held: bytearray) -> IO[bytes]:
        """Returns the whole body as a file on the disk, beginning with `held`, which was read before.

        Raises the errors of `read`.
        """
        file = TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR)  # noqa: SIM115  the caller closes it
        try:
            await asyncio.to_thread(file.write, held)
            while self.more:
                await asyncio.to_thread(file.write, await self.read(PIECE_BYTES))
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file

    async def _in_time(self, receive: Receive) -> Any:
        """Returns the next message. Counts only the time spent waiting for the client. Raises TooSlowError."""
        left = GRACE_SECONDS + self._received / LEAST_BYTES_A_SECOND - self._waited
        if left <= 0:
            raise TooSlowError
        began = self._clock()
        try:
            async with asyncio.timeout(left):
                return await receive()
        except TimeoutError:
            raise TooSlowError from None
        finally:
            self._waited += self._clock() - began


def _told_length(scope: Scope) -> int | None:
    """Returns the length of a body as its headers announce it: 0 if there is none, None if it comes in chunks."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:  # which overrides Content-Length if both are present
        return None
    told = headers.get(b"content-length", b"")
    return int(told) if told.isdigit() else 0
