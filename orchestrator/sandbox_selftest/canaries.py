"""Services on the host that a hostile program can reach only if it escapes its own network namespace.

They listen on the loopback interface and on an abstract unix socket, send the token to every client, and count the
clients. So the evidence of an escape does not come from the program alone.
"""

import secrets
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

_CLIENT_SECONDS = 1.0
_MAX_QUESTION_BYTES = 2048
_DNS_ANSWER = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x42"
"""A DNS record: the name in the question, type A, class IN, time to live 60 s, 127.0.0.66."""


class HostCanaries:
    """A TCP and a UDP service on one port of 127.0.0.1, and one on an abstract unix socket, for the time of a `with`.

    `token` is a random hexadecimal string, a hyphen and the port; it is also the abstract socket's name.
    """

    def __init__(self) -> None:
        self._tcp, self._udp = _bind_pair()
        self.token = f"{secrets.token_hex(8)}-{self._tcp.getsockname()[1]}"
        self._abstract = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._abstract.bind(f"\0{self.token}")
        self._stop = threading.Event()
        self._count = 0
        self._threads = [
            threading.Thread(target=serve, args=(sock,), daemon=True)
            for serve, sock in (
                (self._serve_streams, self._tcp),
                (self._serve_streams, self._abstract),
                (self._serve_names, self._udp),
            )
        ]

    @property
    def visits(self) -> int:
        """The number of clients so far."""
        return self._count

    def __enter__(self) -> Self:
        for sock in (self._tcp, self._udp, self._abstract):
            sock.settimeout(0.1)
        for sock in (self._tcp, self._abstract):
            sock.listen(16)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for sock in (self._tcp, self._udp, self._abstract):
            sock.close()

    def _serve_streams(self, listener: socket.socket) -> None:
        while not self._stop.is_set():
            with suppress(OSError):
                client, _ = listener.accept()
                self._count += 1
                with client:
                    client.settimeout(_CLIENT_SECONDS)
                    client.sendall(f"{self.token}\n".encode())

    def _serve_names(self, sock: socket.socket) -> None:
        """Replies like a name server: the question, followed by one address."""
        while not self._stop.is_set():
            with suppress(OSError):
                question, sender = sock.recvfrom(_MAX_QUESTION_BYTES)
                self._count += 1
                sock.sendto(
                    question[:2] + b"\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" + question[12:] + _DNS_ANSWER, sender
                )


def _bind_pair() -> tuple[socket.socket, socket.socket]:
    """Returns a TCP and a UDP socket on the same port."""
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
