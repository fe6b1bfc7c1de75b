"""Reads files of /proc and /sys that an engine masks."""

import os
from pathlib import Path

from _report import attempt, report_all

FILES = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/latency_stats", "/proc/sched_debug")
FOLDERS = ("/sys/firmware", "/proc/acpi", "/proc/scsi")


def read(path: str) -> str:
    """Returns the beginning of a file; an empty one is a masked one."""
    with Path(path).open("rb") as file:
        found = file.read(64)
    if not found:
        raise OSError(0, "empty")
    return f"{len(found)} bytes"


def look(path: str) -> str:
    """Returns what is in a folder; an empty one is a masked one."""
    found = os.listdir(path)
    if not found:
        raise OSError(0, "empty")
    return ", ".join(found[:4])


report_all(*(attempt(p, read, p) for p in FILES), *(attempt(p, look, p) for p in FOLDERS))
