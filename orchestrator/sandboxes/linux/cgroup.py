"""A container's own control group: reads its resource usage, and kills the processes left in it.

The engine may consider a container ended although its processes still run (PID 1 lets itself be traced and signals
itself: the shim takes the stop for an exit). The control group lists all of them. Its path is known for the engine's
two drivers, and if the request named a parent (see `parent_cgroup`). Otherwise (rootless) there are no folders, and
this class reports no usage and no processes.
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
    """The control groups of one container: one in each hierarchy of version 1, or the one of version 2.

    `parent` is the path of the parent group that the engine was given, if any.
    """

    def __init__(self, container: str, root: Path = CGROUP_ROOT, parent: str | None = None) -> None:
        patterns = _PATH_PATTERNS if parent is None else (f"{parent.removeprefix('/')}/{{}}",)
        names = [pattern.format(container) for pattern in patterns]
        self._folders = [
            folder
            for hierarchy in cgroup_counters.hierarchies(root)
            for name in names
            if (folder := hierarchy / name).is_dir()
        ]
        self._sampled_at = 0.0
        self.usage = Usage()
        """The usage at the last sample."""

    def sample(self, *, now: bool = False) -> None:
        """Reads the usage so far, at most four times a second unless `now`: it is lost when the container ends."""
        time_now = time.monotonic()
        if now or time_now - self._sampled_at >= _SAMPLE_SECONDS:
            self._sampled_at = time_now
            self.usage = cgroup_counters.read_usage(self._folders).merged_with(self.usage)

    def kill_all(self) -> bool:
        """Kills all processes and removes the groups; returns False if a process survives for 5 s."""
        return kill_and_remove(self._folders)

    def _processes(self) -> set[int]:
        return cgroup_counters.processes_in(self._folders)


def kill_and_remove(folders: Sequence[Path]) -> bool:
    """Kills all processes in groups and their subgroups, and removes the groups.

    Returns False if a process survives for 5 s.
    """
    until = time.monotonic() + _KILL_SECONDS
    while alive := cgroup_counters.processes_in(folders):
        if time.monotonic() > until:
            return False
        for pid in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    for folder in folders:
        for path, _, _ in os.walk(folder, topdown=False):  # skips groups that were removed meanwhile
            with suppress(OSError):  # the engine removed it first, or still will
                Path(path).rmdir()
    return True
