"""Asks for a name by UDP, wherever a resolver might be."""

import socket
from pathlib import Path

from _report import PORT, attempt, report_all

QUESTION = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05loot0\x07example\x00\x00\x01\x00\x01"


def ask(address: str, port: int) -> str:
    """Returns the address in the answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.settimeout(1)
        line.sendto(QUESTION, (address, port))
        return socket.inet_ntoa(line.recv(512)[-4:])


servers = [("127.0.0.1", PORT), ("127.0.0.11", 53), ("9.9.9.9", 53)]
try:
    words = Path("/etc/resolv.conf").read_text("ascii").split()
    servers += [(words[at + 1], 53) for at, word in enumerate(words[:-1]) if word == "nameserver"][:2]
except OSError:
    pass
report_all(*(attempt(f"{address}:{port}", ask, address, port) for address, port in servers if ":" not in address))
