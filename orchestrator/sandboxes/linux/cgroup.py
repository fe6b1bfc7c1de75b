"""A container's own control group: what it uses while it lives, and whether anything still lives there.

The engine may take a container for ended while its processes live on (PID 1 lets itself be traced and signals itself:
the shim takes the stop for an exit). The control group knows better. Where the engine puts groups is known for its
two drivers, and where we named a parent (see `parent_cgroup`); elsewhere (rootless) nothing is found
and nothing is claimed.
"""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from orchestrator.sandboxes.linux import cgroup_counters
from orchestrator.sandboxes.linux.cgroup_counters import CGROUP_ROOT, Usage

_PATH_PATTERNS = ("docker/{}", "system.slice/docker-{}.scope")
_SAMPLE_SECONDS = 0.25
_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.005


class ContainerCgroup:
    """The groups of one container, in each version 1 hierarchy or in the one of version 2.

    `parent` is the group that the engine was told to put it under, if any.
    """

    def __init__(self, container: str, root: Path = CGROUP_ROOT, parent: str | None = None) -> None:
        patterns = _PATH_PATTERNS if parent is None else (f"{parent.removeprefix('/')}/{{}}",)
        names = [pattern.format(container) for pattern in patterns]
        self._folders = [
            place
            for hierarchy in cgroup_counters.hierarchies(root)
            for name in names
            if (place := hierarchy / name).is_dir()
        ]
        self._sampled_at = 0.0
        self.usage = Usage()
        """What it used when it was last looked at."""

    def sample(self, *, now: bool = False) -> None:
        """Notes what was used so far, at most four times a second: when the container ends, this is gone."""
        moment = time.monotonic()
        if now or moment - self._sampled_at >= _SAMPLE_SECONDS:
            self._sampled_at = moment
            self.usage = cgroup_counters.read_usage(self._folders).merged_with(self.usage)

    def kill_all(self) -> bool:
        """Kills whatever still lives here, for at most 5 s; returns whether nothing does. Removes what is left."""
        return kill_and_remove(self._folders)

    def _processes(self) -> set[int]:
        return cgroup_counters.processes_in(self._folders)


def kill_and_remove(folders: Sequence[Path]) -> bool:
    """Kills whatever lives in groups and below, for at most 5 s; returns whether nothing does. Removes the groups."""
    until = time.monotonic() + _KILL_SECONDS
    while alive := cgroup_counters.processes_in(folders):
        if time.monotonic() > until:
            return False
        for pid in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    for folder in folders:
        for path, _, _ in os.walk(folder, topdown=False):  # it passes over what is gone by the time that it comes there
            with suppress(OSError):  # the engine's own removal came first, or is its business
                Path(path).rmdir()
    return True
