"""Asks the kernel for a way to the metadata address. It sends nothing: some machine's credentials are there."""

import socket

from _report import attempt, report_all

ADDRESS = "169.254.169.254"


def way() -> str:
    """Returns from which address of this machine a packet would leave; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.connect((ADDRESS, 80))
        return "leaves from " + line.getsockname()[0]


report_all(attempt(f"way to {ADDRESS}", way))
