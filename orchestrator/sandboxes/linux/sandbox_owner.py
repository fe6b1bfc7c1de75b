"""The owner of a sandbox, so that a sweep removes what a dead orchestrator left and spares what a live one uses.

A process id alone does not identify the owner: the kernel uses it again for other processes and after a restart, and it
means another process in another container. So the name of an owner also has its host, boot, process id namespace and
start time.
"""

import os
import socket
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

_FIELD_COUNT = 5


class OwnerState(StrEnum):
    """What is known about the orchestrator that started something."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"
    """It ran on another host or in another container, so its state cannot be determined from here."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One orchestrator process: host name, boot id, process id namespace, process id, start time in clock ticks."""

    boot: str
    pid_namespace: int
    pid: int
    start_time: int
    host: str

    @classmethod
    def current_process(cls) -> Self:
        """Returns the owner that stands for this process."""
        pid = os.getpid()
        return cls(boot_id(), Path("/proc/self/ns/pid").stat().st_ino, pid, start_time(pid) or 0, socket.gethostname())

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Returns the owner that `str` wrote, or None if the text is not one."""
        parts = text.split(":")
        if len(parts) != _FIELD_COUNT or not all(part.isascii() and part.isdigit() for part in parts[1:4]):
            return None
        return cls(parts[0], int(parts[1]), int(parts[2]), int(parts[3]), parts[4])

    def __str__(self) -> str:
        return f"{self.boot}:{self.pid_namespace}:{self.pid}:{self.start_time}:{self.host}"

    def state_seen_by(self, observer: "Owner") -> OwnerState:
        """Returns the state of this owner, as far as the process `observer` can determine it."""
        if self.host != observer.host:
            return OwnerState.UNKNOWN
        if self.boot != observer.boot:
            return OwnerState.DEAD
        if self.pid_namespace != observer.pid_namespace:
            return OwnerState.UNKNOWN
        return OwnerState.ALIVE if start_time(self.pid) == self.start_time else OwnerState.DEAD


def boot_id() -> str:
    """Returns the kernel's name for this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def start_time(pid: int) -> int | None:
    """Returns when a process started, in clock ticks since boot; None for no such process or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in {b"Z", b"X"} else int(fields[19])
