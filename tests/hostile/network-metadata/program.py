"""Asks the kernel for a way to the metadata address, then talks to it."""

import socket

from _report import attempt, report_all

ADDRESS = "169.254.169.254"


def way() -> str:
    """Returns from which address of this machine a packet would leave; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.connect((ADDRESS, 80))
        return "leaves from " + line.getsockname()[0]


def ask() -> str:
    """Returns the first line of an answer."""
    with socket.create_connection((ADDRESS, 80), timeout=1) as line:
        line.sendall(b"GET /latest/meta-data/ HTTP/1.0\r\n\r\n")
        return line.recv(100).decode("latin-1").partition("\r")[0]


report_all(attempt("way", way), attempt("GET", ask))
