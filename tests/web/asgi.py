"""Sends requests to an ASGI application in this process, as the server does."""

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote


@dataclass(frozen=True)
class Answer:
    """An answer of the application. `pieces` is the number of its body messages."""

    status: int
    headers: dict[str, str]
    body: bytes
    pieces: int


def scope_of(path, method="GET", query="", hosts=("127.0.0.1:8000",), **headers):
    """Returns the scope of a request. Header names have underscores in place of hyphens."""
    named = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    if "host" in named:
        hosts = (named.pop("host"),)
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [
            (name.encode(), value.encode()) for name, value in (*(("host", each) for each in hosts), *named.items())
        ],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
    }


async def send_request(application, path, method="GET", query="", pieces=(b"",), **headers):
    """Returns the answer to a request whose body comes in these pieces. The client stays to the end of the answer."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages[-1]["more_body"] = False
    answered = []

    async def receive():
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    async def send(message):
        answered.append(message)

    await application(scope_of(path, method, query, **headers), receive, send)
    start, *rest = answered
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(each.get("body", b"") for each in rest), len(rest))


@contextmanager
def running_application():
    """Gives the service's application without a server. At the end its threads close their database connections."""
    from orchestrator.web.application import Application

    application = Application()
    try:
        yield application
    finally:
        for threads in (application._reading, application._writing, application._admitting):
            _end(threads._executor)


def _end(executor):
    from django.db import connections

    count = executor._max_workers
    everybody = threading.Barrier(count)

    def close():
        everybody.wait(60)  # so that each thread runs exactly one of these
        connections.close_all()

    for each in [executor.submit(close) for _ in range(count)]:
        each.result(60)
    executor.shutdown()


def ask(application, path, method="GET", query="", pieces=(b"",), **headers):
    """Returns the answer to one request."""
    return asyncio.run(send_request(application, path, method, query, pieces, **headers))
