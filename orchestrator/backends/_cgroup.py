"""A container's control group: what it used, whether the kernel killed in it, and whether anything still lives there.

The engine may take a container for ended while its processes live on (PID 1 lets itself be traced and signals itself:
the shim takes the stop for an exit). The control group knows better. Where the engine puts groups is known for its
two drivers; elsewhere (rootless, another parent) nothing is found and nothing is claimed.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_PLACES = ("docker/{}", "system.slice/docker-{}.scope")
_LOOK_EVERY = 0.25
_PATIENCE = 5.0
_PAUSE = 0.005


class Group:
    """The groups of one container, in each version 1 hierarchy or in the one of version 2."""

    def __init__(self, container: str, root: Path = ROOT) -> None:
        hierarchies = [root] if (root / "cgroup.controllers").exists() else sorted(root.glob("*"))
        places = [hierarchy / place.format(container) for hierarchy in hierarchies for place in _PLACES]
        self._folders = [place for place in places if place.is_dir()]
        self._looked = 0.0
        self.peak_bytes: int | None = None
        self.cpu_seconds: float | None = None
        self.kills = 0
        """How many processes the kernel killed at the memory limit, as far as was seen."""

    def look(self, *, now: bool = False) -> None:
        """Notes what was used so far, at most four times a second: when the container ends, this is gone."""
        moment = time.monotonic()
        if not now and moment - self._looked < _LOOK_EVERY:
            return
        self._looked = moment
        peak = self._number("memory.max_usage_in_bytes", "memory.peak")
        self.peak_bytes = self.peak_bytes if peak is None else peak
        nanoseconds = self._number("cpuacct.usage")
        microseconds = self._field("cpu.stat", "usage_usec")
        if nanoseconds is not None:
            self.cpu_seconds = nanoseconds / 1e9
        elif microseconds is not None:
            self.cpu_seconds = microseconds / 1e6
        kills = self._field("memory.events", "oom_kill") or self._field("memory.oom_control", "oom_kill")
        self.kills = max(self.kills, kills or 0)

    def empty(self) -> bool:
        """Kills whatever still lives here, for at most 5 s; returns whether nothing does. Removes what is left."""
        until = time.monotonic() + _PATIENCE
        while alive := self._processes():
            if time.monotonic() > until:
                return False
            for pid in alive:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_PAUSE)
        for folder in self._folders:
            with suppress(OSError):  # the engine's own removal came first, or is its business
                folder.rmdir()
        return True

    def _processes(self) -> set[int]:
        found: set[int] = set()
        for folder in self._folders:
            with suppress(OSError):  # the group is gone, and everything in it
                found |= {int(pid) for pid in (folder / "cgroup.procs").read_text("ascii").split()}
        return found

    def _number(self, *names: str) -> int | None:
        for folder in self._folders:
            for name in names:
                with suppress(OSError, ValueError):
                    return int((folder / name).read_text("ascii"))
        return None

    def _field(self, file: str, field: str) -> int | None:
        for folder in self._folders:
            with suppress(OSError, ValueError):
                for line in (folder / file).read_text("ascii").splitlines():
                    name, _, value = line.partition(" ")
                    if name == field:
                        return int(value)
        return None
