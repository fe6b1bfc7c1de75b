"""The bodies of requests: small ones in memory, large ones on the disk, and only of whoever may send them.

All of it runs in the one thread that speaks to visitors; another writes to the disk.
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

from orchestrator.web.arrival_time import note_last_byte
from orchestrator.web.asgi import Receive, Scope

PIECE_BYTES = 1024 * 1024
"""How much of a body is in memory while it goes to the disk."""
READERS_A_PASS = 2
"""How many bodies are read on in one pass of the event loop."""
GRACE_SECONDS = 30.0
"""How long whoever sends a body may keep us waiting for it at all."""
LEAST_BYTES_A_SECOND = 8 * 1024
"""How much more of it earns another second."""
MOST_ON_DISK = 40
"""How many bodies may lie on the disk at once: twice as many as the most uploads that were measured together."""
MOST_OF_ONE_PERSON = 8
"""How many of them may be of one person: a team has at most five uploads, and there are forms."""


class TooLargeError(Exception):
    """More came than may."""


class TooSlowError(Exception):
    """It comes too slowly."""


class TooManyError(Exception):
    """Too many bodies lie on the disk, or too many requests wait. `person` is who sends this one, if that is known."""

    def __init__(self, person: str = "") -> None:
        super().__init__()
        self.person = person


class Turns:
    """Lets so many readers of bodies go on in each pass of the event loop, in the order in which they came.

    A reader that goes on has the loop read what its sender has sent meanwhile. Twenty fast senders at once would make
    each pass long, and pages would wait for it. Nobody holds a turn: a slow sender keeps nobody waiting.
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
            if not turn.done():  # it is where whoever waited was cancelled
                turn.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._give)


class Spool:
    """Which bodies lie on the disk, or are about to: a bounded number, and few of each person."""

    def __init__(self) -> None:
        self._of = Counter[str]()
        self.promised = 0
        """How many bytes they may have together."""

    @contextmanager
    def place(self, person: str, size: int) -> Iterator[None]:
        """Keeps a place for a body while the block lasts. Raises TooManyError."""
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
    """The body of one request while it comes.

    Args:
        scope: the request.
        receive: gives its next part.
        turns: whose turn it is to read on.
        most: how many bytes it may have.
        clock: tells seconds.

    Raises:
        TooLargeError: it is said to have more.
    """

    def __init__(
        self, scope: Scope, receive: Receive, turns: Turns, most: int, clock: Callable[[], float] = monotonic
    ) -> None:
        self._scope, self._receive, self._turns, self._clock = scope, receive, turns, clock
        self._most, self._received, self._waited = most, 0, 0.0
        self.told = _told_length(scope)
        """How many bytes it is said to have, None where it comes in chunks and nothing is said."""
        if self.told is not None and self.told > most:
            raise TooLargeError
        self.more = True
        """Whether more of it follows."""

    async def read(self, size: int) -> bytearray:
        """Returns the next part, which has this size or a little more where more follows.

        Raises:
            TooLargeError: it has more bytes than it may have.
            TooSlowError: it comes too slowly.
            RequestAborted: whoever sends it is gone.
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
            note_last_byte(self._scope)
        return held

    async def to_disk(self, held: bytearray) -> IO[bytes]:
        """Returns all of it as a file on the disk, which begins with what was read before. Raises like `read`."""
        file = TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR)  # noqa: SIM115  who asked closes it
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
        """Returns what comes next. Counted is the time of whoever sends, not that in which nothing is read."""
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
    """Returns how long a body is said to be, 0 where there is none, None where it comes in chunks."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:  # which counts where both are there
        return None
    told = headers.get(b"content-length", b"")
    return int(told) if told.isdigit() else 0
