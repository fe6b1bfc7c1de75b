"""Looks for a service of the host on the loopback interface."""

import socket

from _report import PORT, TOKEN, attempt, report_all


def talk() -> str:
    """Returns what the host's service says."""
    with socket.create_connection(("127.0.0.1", PORT), timeout=2) as line:
        said = line.recv(200).decode().strip()
    if said != TOKEN:
        raise OSError(0, "somebody else answered")
    return said


report_all(attempt(f"127.0.0.1:{PORT}", talk))
