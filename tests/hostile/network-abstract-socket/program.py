"""Looks for a service of the host behind an abstract unix name."""

import socket

from _report import TOKEN, attempt, report_all


def talk() -> str:
    """Returns what the host's service says."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(2)
        line.connect(f"\0{TOKEN}")
        return line.recv(200).decode().strip()


report_all(attempt("abstract socket", talk))
