"""Reads files that only root may read."""

import os
from pathlib import Path

from _report import attempt, report_all


def read(path: str) -> str:
    """Returns how long it is."""
    return f"{len(Path(path).read_bytes())} bytes"


report_all(attempt("/etc/shadow", read, "/etc/shadow"), attempt("/root", os.listdir, "/root"))
