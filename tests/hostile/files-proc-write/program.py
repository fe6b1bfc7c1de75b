"""Writes kernel settings back as they are: that is enough to show it, and changes nothing."""

import os
from pathlib import Path

from _report import attempt, report_all

SETTINGS = ("kernel/core_pattern", "kernel/modprobe", "vm/panic_on_oom", "fs/file-max", "kernel/sysrq")


def same(path: str) -> None:
    """Writes what was read."""
    with Path(path).open("r+b", buffering=0) as file:
        found = file.read(4096)
        file.seek(0)
        file.write(found)


def openable(path: str) -> None:
    """Opens for writing, writes nothing."""
    os.close(os.open(path, os.O_WRONLY))


report_all(
    *(attempt(f"/proc/sys/{setting}", same, f"/proc/sys/{setting}") for setting in SETTINGS),
    attempt("/proc/sysrq-trigger", openable, "/proc/sysrq-trigger"),
    attempt("/sys/kernel/mm/ksm/run", same, "/sys/kernel/mm/ksm/run"),
)
