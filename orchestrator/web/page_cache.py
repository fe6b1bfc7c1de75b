"""A cache in memory, in front of Django, for pages that are the same for every visitor without an account.

Django's answers say which pages these are: those with an ETag that caches may keep but must revalidate
(`conditional`). This cache revalidates a page at most once a second, for all visitors together, and less often if that
takes long, so that revalidation takes a small part of the time.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from django.utils.http import parse_etags

from orchestrator.web.asgi import Application, Receive, Scope, Send

FRESH_SECONDS = 1.0
"""For how long at least a page is sent without revalidation."""
FRESH_RATIO = 10.0
"""A page is sent without revalidation for this many times the duration of the last one, if that is longer."""
MOST_FRESH_SECONDS = 5.0
STALE_SECONDS = 10.0
"""How old a page may be that is sent while another request revalidates it."""
MOST_BYTES = 32 * 1024 * 1024
"""How many bytes all pages may take; the least recently requested are dropped first."""
_LARGEST_BYTES = 2 * 1024 * 1024
_OBJECT_BYTES = 1024
"""About how many bytes a page takes beside its body and its headers."""
_KEPT = b"public, no-cache"
_OF_BODY = frozenset({b"content-type", b"content-length", b"content-disposition"})
_OWN_ANSWER = frozenset(
    {
        b"cookie",
        b"authorization",
        b"range",
        b"if-match",
        b"if-unmodified-since",
        b"content-length",
        b"transfer-encoding",
    }
)
"""A request with one of these headers may get another answer than other visitors, so the cache does not answer it."""
_CONDITIONS = frozenset({b"if-none-match", b"if-modified-since"})
Headers = list[tuple[bytes, bytes]]


@dataclass
class _Page:
    """A page as Django answered it, when it was last revalidated, and how many seconds that took."""

    tag: bytes
    headers: Headers
    body: bytes
    checked: float
    asking: float = 0.0
    being_checked: bool = False

    @property
    def fresh_seconds(self) -> float:
        """For how many seconds the page is sent without revalidation."""
        return min(max(FRESH_SECONDS, FRESH_RATIO * self.asking), MOST_FRESH_SECONDS)

    @property
    def size(self) -> int:
        """About how many bytes of memory the page takes."""
        return len(self.body) + sum(len(name) + len(value) for name, value in self.headers) + _OBJECT_BYTES


@dataclass
class _Answer:
    """Django's answer to one request. A page is held until it is complete; any other answer is passed on at once."""

    send: Send
    known: _Page | None
    status: int = 0
    headers: Headers = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    is_passed_on: bool = False

    async def take(self, message: Any) -> None:
        """Takes the next ASGI message of the answer."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], [(name.lower(), value) for name, value in message["headers"]]
            self.is_passed_on = not (self.is_unchanged or self.is_page)
        elif not self.is_passed_on:
            self.body += message.get("body", b"")
        if self.is_passed_on:
            await self.send(message)

    @property
    def is_unchanged(self) -> bool:
        """Whether the answer is 304: the cached page is still valid."""
        return self.status == HTTPStatus.NOT_MODIFIED and self.known is not None

    @property
    def is_page(self) -> bool:
        """Whether the answer may be cached: public, with a tag, without a cookie, and not too large."""
        found = dict(self.headers)
        length = found.get(b"content-length", b"")
        is_small = length.isdigit() and int(length) <= _LARGEST_BYTES
        is_public = found.get(b"cache-control") == _KEPT and b"etag" in found and b"set-cookie" not in found
        return self.status == HTTPStatus.OK and is_small and is_public


class PageCache:
    """An ASGI application in front of another one. One thread calls all its methods.

    Args:
        application: answers all requests that the cache does not.
        clock: returns the time in seconds.
    """

    def __init__(self, application: Application, clock: Callable[[], float] = time.monotonic) -> None:
        self._application, self._clock = application, clock
        self._pages: OrderedDict[str, _Page] = OrderedDict()
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        key = _key(scope)
        if key is None:
            await self._application(scope, receive, send)
            return
        known, now = self._pages.get(key), self._clock()
        if known is not None:
            self._pages.move_to_end(key)
            age = now - known.checked
            if age < known.fresh_seconds or (known.being_checked and age < STALE_SECONDS):
                await _send(known, scope, send)
                return
        await self._ask(key, known, scope, receive, send)

    async def _ask(self, key: str, known: _Page | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Revalidates a page, or requests a new one, and sends the current page."""
        asked, answer = self._clock(), _Answer(send, known)
        headers = [each for each in scope["headers"] if each[0] not in _CONDITIONS]
        if known is not None:
            headers.append((b"if-none-match", known.tag))
            known.being_checked = True
        try:
            await self._application({**scope, "headers": headers}, receive, answer.take)
        finally:
            if known is not None:
                known.being_checked = False
        if answer.is_passed_on:
            self._forget(key)
        elif answer.is_unchanged and known is not None:
            known.checked, known.asking = max(known.checked, asked), self._clock() - asked
            await _send(known, scope, send)
        elif answer.is_page:
            page = _Page(
                dict(answer.headers)[b"etag"], answer.headers, bytes(answer.body), asked, self._clock() - asked
            )
            self._keep(key, page)
            await _send(page, scope, send)

    def _keep(self, key: str, page: _Page) -> None:
        self._forget(key)
        self._pages[key] = page
        self._bytes += page.size
        while self._bytes > MOST_BYTES:
            self._forget(next(iter(self._pages)))

    def _forget(self, key: str) -> None:
        if (page := self._pages.pop(key, None)) is not None:
            self._bytes -= page.size


def _key(scope: Scope) -> str | None:
    """Returns the path if a visitor without an account requests a page; None for every other request.

    The path alone identifies a page: Django answers requests to a host that it refuses, and all allowed hosts are
    spellings of the same one.
    """
    if scope["type"] != "http" or scope["method"] != "GET" or scope["query_string"]:
        return None
    if {name for name, _ in scope["headers"]} & _OWN_ANSWER:
        return None
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    path: str = scope["path"]
    return path if len(hosts) == 1 and _is_allowed(hosts[0].decode("latin1")) else None


def _is_allowed(host: str) -> bool:
    """Returns whether Django allows this Host header, with any port."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


async def _send(page: _Page, scope: Scope, send: Send) -> None:
    """Sends a page, or 304 if the client has it already."""
    said = next((value for name, value in scope["headers"] if name == b"if-none-match"), b"")
    headers, status, body = page.headers, 200, page.body
    if said and _matches(said.decode("latin1"), page.tag.decode("latin1")):
        headers, status, body = [each for each in headers if each[0] not in _OF_BODY], 304, b""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _matches(said: str, tag: str) -> bool:
    """Returns whether the value of If-None-Match names a tag, by the weak comparison of RFC 9110, section 13.1.2."""
    named = {each.removeprefix("W/") for each in parse_etags(said)}
    return "*" in named or tag.removeprefix("W/") in named
