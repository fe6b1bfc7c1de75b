"""Services on the host that a hostile program could reach only if it were not in its own network.

They listen on the loopback interface and on an abstract name, send the token to every client, and count the clients.
So the evidence of an escape does not come from the program alone.
"""

import secrets
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

_VISITOR_SECONDS = 1.0
_MAX_QUESTION_BYTES = 2048
_DNS_ANSWER = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x42"
"""A record: the name that was asked for, type A, class IN, 60 s, 127.0.0.66."""


class HostCanaries:
    """A TCP and a UDP service on one port of 127.0.0.1, and one on an abstract unix name, as long as the block lasts.

    `token` is a random word, a hyphen and the port; it is the abstract name too.
    """

    def __init__(self) -> None:
        self._tcp, self._udp = _bind_pair()
        self.token = f"{secrets.token_hex(8)}-{self._tcp.getsockname()[1]}"
        self._abstract = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._abstract.bind(f"\0{self.token}")
        self._stop = threading.Event()
        self._count = 0
        self._threads = [
            threading.Thread(target=serve, args=(line,), daemon=True)
            for serve, line in (
                (self._serve_streams, self._tcp),
                (self._serve_streams, self._abstract),
                (self._serve_names, self._udp),
            )
        ]

    @property
    def visits(self) -> int:
        """How often somebody came."""
        return self._count

    def __enter__(self) -> Self:
        for line in (self._tcp, self._udp, self._abstract):
            line.settimeout(0.1)
        for line in (self._tcp, self._abstract):
            line.listen(16)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for line in (self._tcp, self._udp, self._abstract):
            line.close()

    def _serve_streams(self, line: socket.socket) -> None:
        while not self._stop.is_set():
            with suppress(OSError):
                visitor, _ = line.accept()
                self._count += 1
                with visitor:
                    visitor.settimeout(_VISITOR_SECONDS)
                    visitor.sendall(f"{self.token}\n".encode())

    def _serve_names(self, line: socket.socket) -> None:
        """Answers as a name server does: the question back, with one address."""
        while not self._stop.is_set():
            with suppress(OSError):
                question, sender = line.recvfrom(_MAX_QUESTION_BYTES)
                self._count += 1
                line.sendto(
                    question[:2] + b"\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" + question[12:] + _DNS_ANSWER, sender
                )


def _bind_pair() -> tuple[socket.socket, socket.socket]:
    """Returns a TCP and a UDP socket on one port that was free for both."""
    while True:
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        tcp.bind(("127.0.0.1", 0))
        try:
            udp.bind(tcp.getsockname())
        except OSError:
            tcp.close()
            udp.close()
            continue
        return tcp, udp
