"""Django as an application of ASGI: so many threads run its views, and no request keeps the others from being heard.

One thread speaks to all visitors. It reads requests and sends answers, and neither runs a view nor writes to the disk.
What changes something has threads of its own: it may wait for the contest, which a worker holds for seconds, and
meanwhile pages are shown.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.http import FileResponse, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import set_script_prefix

from orchestrator.errors import Problem
from orchestrator.web.api import problems
from orchestrator.web.arrival_time import note_last_byte
from orchestrator.web.asgi import Receive, Scope, Send, answer_early, is_for_program
from orchestrator.web.pages import errors

READING_THREADS = 4
"""How many requests that change nothing are answered at the same moment."""
WRITING_THREADS = 8
"""How many others are: parts of uploads, most of whose time is the disk's, and acts."""
READERS_A_PASS = 2
"""How many bodies of requests are read on in one pass of the event loop."""
MOST_WAITING = 200
"""How many requests of each of the two may be under way or wait for a thread; more are put off."""
RETRY_SECONDS = 5
"""After how many seconds who is put off may come again."""
_UPLOADS = "/api/v1/uploads"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PIECE_BYTES = 1024 * 1024
"""How much of a body is kept in memory; and how much of a file is read at once to be sent."""
T = TypeVar("T")


class _Threads:
    """Some threads, and who waits for them. Only the thread that speaks to visitors calls its methods."""

    def __init__(self, name: str, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._in_hand = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more should wait."""
        return self._in_hand >= MOST_WAITING

    async def run(self, act: Callable[..., T], *arguments: object) -> T:
        """Returns what an act returns in one of the threads."""
        self._in_hand += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, copy_context().run, act, *arguments)
        finally:
            self._in_hand -= 1


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


class Application(ASGIHandler):
    """Answers requests with Django's middleware and views.

    Django's own handler starts a thread for each request, with a new connection to the database, and changes between
    threads at each step between what is asynchronous and what is not. Here a request has one thread from the first
    middleware to the last. See decision 0073.
    """

    def __init__(self) -> None:
        self.load_middleware()  # not as `async`: each change between the two is a change of threads
        self._reading = _Threads("reading", READING_THREADS)
        self._writing = _Threads("writing", WRITING_THREADS)
        self._turns = Turns(READERS_A_PASS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; 503 where too many wait."""
        if scope["type"] != "http":
            raise ValueError(f"only HTTP is spoken here, not {scope['type']}")
        threads = self._writing if _writes(scope) else self._reading
        if threads.is_full:
            await _put_off(scope, send)
            return
        with suppress(RequestAborted), closing(await _read_body(scope, receive, self._turns)) as body:
            request, refused = self.create_request(scope, body)
            response = refused if request is None else await threads.run(self._respond, scope, request)
            if isinstance(response, StreamingHttpResponse):
                await self._stream(response, receive, send, threads)
            elif response is not None:
                await self.send_response(response, send)

    def _respond(self, scope: Scope, request: ASGIRequest) -> HttpResponseBase:
        """Returns the answer to a request; in a thread, whose connection to the database it gives back."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        response = self.get_response(request)
        if not response.streaming:
            response.close()
        return response

    async def _stream(self, response: StreamingHttpResponse, receive: Receive, send: Send, threads: _Threads) -> None:
        """Sends an answer piece by piece, each of which a thread reads; ends where nobody takes them any more."""
        if isinstance(response, FileResponse):
            response.block_size = _PIECE_BYTES
        gone = asyncio.ensure_future(receive())
        try:
            content: Any = response.streaming_content
            response.streaming_content = _pieces(iter(content), threads, gone)
            await self.send_response(response, send)
        finally:
            gone.cancel()
            await threads.run(response.close)


async def _pieces(pieces: Iterator[bytes], threads: _Threads, gone: "asyncio.Future[Any]") -> AsyncIterator[bytes]:
    while not gone.done() and (piece := await threads.run(next, pieces, None)) is not None:
        yield piece


def _writes(scope: Scope) -> bool:
    """Returns whether a request may change something, or read a whole upload."""
    return scope["method"] not in _SAFE_METHODS or scope["path"].startswith(_UPLOADS)


async def _put_off(scope: Scope, send: Send) -> None:
    what, remedy = "too many requests wait for an answer", f"send the same again in {RETRY_SECONDS} s"
    if is_for_program(scope):
        response: HttpResponse = problems.refuse(503, "busy", [Problem("service", what, remedy)])
    else:
        response = errors.busy(RETRY_SECONDS)
    response["Retry-After"] = str(RETRY_SECONDS)
    await answer_early(send, response)


async def _read_body(scope: Scope, receive: Receive, turns: Turns) -> IO[bytes]:
    """Returns the body of a request as a file: in memory where it is small, else on the disk, written by a thread.

    Raises RequestAborted where whoever sends it is gone.
    """
    held, more = await _read_piece(scope, receive, turns)
    if not more:
        return BytesIO(held)
    file = TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR)  # noqa: SIM115  who asked closes it
    try:
        await asyncio.to_thread(file.write, held)
        while more:
            held, more = await _read_piece(scope, receive, turns)
            await asyncio.to_thread(file.write, held)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


async def _read_piece(scope: Scope, receive: Receive, turns: Turns) -> tuple[bytearray, bool]:
    """Returns the next megabyte of a body, and whether more follows. Raises RequestAborted."""
    held, more = bytearray(), True
    while more and len(held) < _PIECE_BYTES:
        if held:
            await turns.take()
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        held += message.get("body", b"")
        more = message.get("more_body", False)
    if not more:
        note_last_byte(scope)
    return held, more
