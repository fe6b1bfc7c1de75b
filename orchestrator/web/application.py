"""Django as an ASGI application: a bounded number of threads runs its views, and none keeps requests from being read.

One thread, the event loop's, talks to all clients. It reads requests and sends answers; it neither runs a view nor
writes to the disk. Requests that change something have threads of their own: they may wait for the contest's lock,
which a worker holds for seconds, and pages can still be shown meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import copy_context
from io import BytesIO
from typing import IO, Any, TypeVar, cast

from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.http import FileResponse, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import Resolver404, resolve, set_script_prefix

from orchestrator.errors import Problem
from orchestrator.web import security_log
from orchestrator.web.api import problems
from orchestrator.web.asgi import Receive, Scope, Send, is_for_program, lingering
from orchestrator.web.body_admission import BodyAccepted, BodyAdmission, too_large, too_slow
from orchestrator.web.body_limits import SAFE_METHODS, SMALL_BYTES, largest_body, takes_file
from orchestrator.web.contest_site import web_settings
from orchestrator.web.middleware import STRICT_TRANSPORT
from orchestrator.web.pages import errors
from orchestrator.web.request_bodies import (
    READERS_A_PASS,
    Body,
    Spool,
    TooLargeError,
    TooManyError,
    TooSlowError,
    Turns,
)

READING_THREADS = 4
"""How many requests that change nothing are answered at once."""
WRITING_THREADS = 8
"""How many other requests are answered at once: changes, and parts of uploads, which mostly wait for the disk."""
ADMITTING_THREADS = 2
"""How many requests with a large body are checked at once, before the body is read. Its last byte's time counts."""
MOST_WAITING = 200
"""How many requests each group of threads may have, running or waiting for a thread; more are answered with 503."""
BUSY_SECONDS = 5
"""After how many seconds a client that got 503 should try again."""
_UPLOADS = "/api/v1/uploads"
_PIECE_BYTES = 1024 * 1024
"""How many bytes of a file are read at once to be sent."""
_HEADERS = {
    "Cache-Control": "private, no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Connection": "close",  # the body of the request was not read
}
"""The headers that Django's middleware adds. The 503 answer is sent without a thread, so no middleware runs for it."""
T = TypeVar("T")


class _Threads:
    """A pool of threads that counts its running and waiting calls. Only the event loop's thread calls its methods."""

    def __init__(self, name: str, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._in_hand = 0

    @property
    def is_full(self) -> bool:
        """Whether the pool should accept no more calls."""
        return self._in_hand >= MOST_WAITING

    async def run(self, act: Callable[..., T], *arguments: object) -> T:
        """Calls `act` in one of the threads and returns its result."""
        self._in_hand += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, copy_context().run, act, *arguments)
        finally:
            self._in_hand -= 1


class Application(ASGIHandler):
    """Answers requests with Django's middleware and views.

    Django's own handler starts a thread for each request, with a new connection to the database, and switches threads
    at each change between asynchronous and synchronous code. Here one thread runs a request from the first middleware
    to the last. See decision 0073.
    """

    def __init__(self) -> None:
        self.load_middleware()  # synchronous: each change to asynchronous code would switch threads
        self._body_admission = BodyAdmission()
        self._reading = _Threads("reading", READING_THREADS)
        self._writing = _Threads("writing", WRITING_THREADS)
        self._admitting = _Threads("admitting", ADMITTING_THREADS)
        self._turns, self._spool = Turns(READERS_A_PASS), Spool()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; with 503 if too many requests wait."""
        if scope["type"] != "http":
            raise ValueError(f"only HTTP is spoken here, not {scope['type']}")
        threads = self._writing if _writes(scope) else self._reading
        with suppress(RequestAborted), ExitStack() as held:
            try:
                request = await self._whole_request(scope, receive, threads, held)
            except TooManyError as error:
                await self._put_off(scope, receive, send, error.person)
                return
            if isinstance(request, HttpResponseBase):
                request["Connection"] = "close"  # the body was not read
                await self.send_response(request, lingering(receive, send))
                return
            response = await threads.run(self._respond, scope, request)
            if isinstance(response, StreamingHttpResponse):
                await self._stream(response, receive, send, threads)
            else:
                await self.send_response(response, send)

    async def _whole_request(
        self, scope: Scope, receive: Receive, threads: _Threads, held: ExitStack
    ) -> ASGIRequest | HttpResponseBase:
        """Returns a request with its body, which `held` closes, or a refusal: 400, 401, 403, 404, 408, 413 or 507.

        Redirects a visitor without an account to the sign-in page if the address needs an account.

        Raises:
            RequestAborted: the client is gone.
            TooManyError: too many bodies are on the disk, or too many requests wait for a thread.
        """
        if threads.is_full:
            raise TooManyError
        head = self._make_request(scope, BytesIO())
        if isinstance(head, HttpResponseBase):
            return head
        path, most = head.path_info, largest_body(scope["method"], head.path_info)
        try:
            body = Body(scope, receive, self._turns, most)
            is_asked = body.told != 0 and (takes_file(scope["method"], path) or (body.told or 0) > SMALL_BYTES)
            begun = await body.read(0 if is_asked else SMALL_BYTES + 1)
            if not body.more and len(begun) <= SMALL_BYTES:
                return self._make_request(scope, held.enter_context(BytesIO(begun)))
            size = most if body.told is None else body.told
            found = await self._admit(head, size)
            if not isinstance(found, BodyAccepted):
                return found
            held.enter_context(self._spool.place(found.person, size))
            return self._make_request(scope, held.enter_context(await body.to_disk(begun)))
        except TooLargeError:
            refusal = too_large(path, most)
        except TooSlowError:
            refusal = too_slow(path)
        return await self._admitting.run(self._body_admission.refuse, head, refusal)

    async def _admit(self, head: ASGIRequest, size: int) -> HttpResponseBase:
        """Returns `BodyAccepted`, or a refusal. Raises TooManyError if too many requests wait to be checked."""
        if self._admitting.is_full:
            raise TooManyError
        return await self._admitting.run(self._body_admission.admit, head, size + self._spool.promised)

    async def _put_off(self, scope: Scope, receive: Receive, send: Send, person: str) -> None:
        """Logs a request and answers it with 503 and Retry-After; reads no more of it."""
        head = self._make_request(scope, BytesIO())
        if isinstance(head, ASGIRequest):
            with suppress(Resolver404):
                head.resolver_match = resolve(head.path_info)
            # In a thread, because the reader of the log may be slow.
            await asyncio.to_thread(security_log.refused, head, 503, person)
        await _send_busy(scope, receive, send)

    def _make_request(self, scope: Scope, body: IO[bytes]) -> ASGIRequest | HttpResponseBase:
        """Returns Django's request object, or a refusal if the request's head is malformed."""
        request, refused = self.create_request(scope, body)
        return request if request is not None else cast("HttpResponseBase", refused)

    def _respond(self, scope: Scope, request: ASGIRequest) -> HttpResponseBase:
        """Returns the answer to a request. Runs in a thread, and closes its database connection if that is too old."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        response = self.get_response(request)
        if not response.streaming:
            response.close()
        return response

    async def _stream(self, response: StreamingHttpResponse, receive: Receive, send: Send, threads: _Threads) -> None:
        """Sends an answer piece by piece; a thread reads each piece. Stops when the client is gone."""
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
    return scope["method"] not in SAFE_METHODS or scope["path"].startswith(_UPLOADS)


async def _send_busy(scope: Scope, receive: Receive, send: Send) -> None:
    what, remedy = "too many requests wait for an answer", f"send the same again in {BUSY_SECONDS} s"
    if is_for_program(scope["path"]):
        response: HttpResponse = problems.refuse(503, "busy", [Problem("service", what, remedy)])
    else:
        response = errors.busy(BUSY_SECONDS)
    named = {**response.headers, "Retry-After": str(BUSY_SECONDS), **_HEADERS}
    if web_settings().is_secure:
        named["Strict-Transport-Security"] = STRICT_TRANSPORT
    headers = [(name.encode(), value.encode()) for name, value in named.items()]
    send = lingering(receive, send)
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})
