"""Opens raw sockets, sends a datagram and catches it from the wire."""

import socket

from _report import attempt, report_all

WORD = b"sparring-raw-socket"


def sniff(family: int, kind: int, protocol: int) -> str:
    """Returns how long the packet was that was caught."""
    with socket.socket(family, kind, protocol) as wire, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        wire.settimeout(2)
        line.sendto(WORD, ("127.0.0.1", 40999))
        for _ in range(20):
            packet = wire.recv(4096)
            if WORD in packet:
                return f"caught {len(packet)} bytes"
    raise OSError(0, "nothing was caught")


report_all(
    attempt("packet socket", sniff, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)),
    attempt("raw UDP socket", sniff, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP),
)
