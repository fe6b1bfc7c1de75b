"""The server's sockets: HTTP/1.1 on loopback, a thread per connection.

The standard library's server is enough: it keeps connections alive, and a thread may wait as long as its watch lasts.
It needs no event loop beside the project's threads.
"""

import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from .api import Answer, Api
from .faults import Disconnected
from .watching import Watch

LARGEST = 3 * 2**20
"""Bytes that a body may have: kube-apiserver's limit."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = 2**16
    disable_nagle_algorithm = True
    server: "Server"

    def _serve(self) -> None:
        split = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        if length > LARGEST:
            self._send(Answer(413, b"{}"))
            self.close_connection = True
            return
        body = self.rfile.read(length) if length else b""
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            answer = self.server.api.answer(
                self.command, split.path, dict(parse_qsl(split.query, keep_blank_values=True)), headers, body
            )
            if answer.lost:
                self._cut()
            else:
                self._send(answer)
        except Disconnected:
            self._cut()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815  the base class's names

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.media)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        for text in answer.warnings:
            self.send_header("Warning", f"299 - {json.dumps(text)}")
        if isinstance(answer.body, Watch):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._stream(answer.body)
            return
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)
        self.wfile.flush()

    def _stream(self, watch: Watch) -> None:
        self.wfile.flush()
        for line in watch.lines(lambda: self.server.closing):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _cut(self) -> None:
        """Ends the connection in the middle of an answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Logs nothing."""


class Server(ThreadingHTTPServer):
    """The server; `api` answers."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, api: Api) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.api, self.closing = api, False
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="cluster-http", daemon=True)

    @property
    def url(self) -> str:
        """The server's URL."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores clients that hang up in the middle of an answer, as killed ones do."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        """Ends; watches end with it."""
        self.closing = True
        self.shutdown()
        self.server_close()
        self._thread.join(120)
