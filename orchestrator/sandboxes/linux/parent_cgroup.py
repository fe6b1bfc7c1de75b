"""A control group above each sandbox's own: it keeps the kernel's counters when the sandbox is gone.

The engine removes a container's own group when the container ends. Periodic samples of it would miss a player that
lived for 20 ms, and the last moments of every other player. The group above stays until its counters are read. Its name
states its owner, so that a sweep can remove the groups of dead orchestrators.

In version 1 of control groups, the number of kills at the memory limit stays with the group of the victim. Therefore
the group above has its own, slightly lower limit, and the kernel counts in an event counter how often the group reaches
it: no kill is missed, whatever the exit code says.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.linux import cgroup_counters
from orchestrator.sandboxes.linux.cgroup import kill_and_remove
from orchestrator.sandboxes.linux.cgroup_counters import CGROUP_ROOT, FileCache, Usage
from orchestrator.sandboxes.linux.deferred_errors import DeferredErrors
from orchestrator.sandboxes.linux.owner import Owner, OwnerState
from orchestrator.sandboxes.linux.process_tree import ProcessTag

_LIMIT_MARGIN = 64 * 1024
"""By how much our limit is lower: more than the kernel ever charges at once without being able to fall back to less,
so that ours is always the one that is reached. Without it the event would go to the container's group alone."""
_COUNTING_CONTROLLERS = ("memory", "cpuacct", "pids")
_REMOVAL_SECONDS = 5.0
_POLL_SECONDS = 0.02


class ParentCgroup:
    """The group above one sandbox. `path` is what the engine is told: the group's path from the root."""

    def __init__(self, name: str, folders: list[Path], root: Path, oom_eventfd: int | None) -> None:
        self.path = f"/{name}"
        self._name, self._root = name, root
        self._folders = folders
        self._oom_eventfd = oom_eventfd
        self._oom_count = 0

    @classmethod
    def open(cls, owner: Owner, run: str, memory: int, root: Path = CGROUP_ROOT) -> Self | None:
        """Makes the group for a sandbox that may use `memory` bytes; None where we may not write this tree."""
        name = ProcessTag.create(owner, run).text
        is_version_2 = cgroup_counters.is_version_2(root)
        counting = (
            [root]
            if is_version_2
            else [found for one in cgroup_counters.hierarchies(root) if (found := _if_counting(one))]
        )
        if not counting or not all(os.access(folder, os.W_OK) for folder in counting):
            return None
        folders = [folder / name for folder in counting]
        try:
            for folder in folders:
                folder.mkdir()
            bell = None if is_version_2 else _register_oom_eventfd(folders, memory)
        except OSError:
            kill_and_remove(folders)
            return None
        return cls(name, folders, root, bell)

    def usage(self) -> Usage | None:
        """Returns what the sandbox used so far; None when the engine never put anything here."""
        counters = cgroup_counters.read_usage(self._folders)
        if not counters.cpu_seconds:
            return None
        if self._oom_eventfd is not None:
            with suppress(BlockingIOError):
                self._oom_count += os.eventfd_read(self._oom_eventfd)
        return Usage(
            counters.peak_bytes, counters.cpu_seconds, counters.peak_pids, max(counters.kills, self._oom_count)
        )

    def file_cache(self) -> FileCache | None:
        """Returns what it keeps of files; None where the kernel does not say."""
        return cgroup_counters.read_file_cache(self._folders)

    def close(self) -> None:
        """Removes the group, in every hierarchy. Safe to call twice.

        Raises:
            SandboxLost: something lives in it.
        """
        if self._oom_eventfd is not None:
            os.close(self._oom_eventfd)
            self._oom_eventfd = None
        _remove_cgroup(self._name, self._root)


def remove_dead_cgroups(
    observer: Owner,
    errors: DeferredErrors,
    spare_run: str | None = None,
    root: Path = CGROUP_ROOT,
    ended_run: str | None = None,
) -> int:
    """Removes the groups of dead owners and of the run `ended_run`, and ends what lives there; spares `spare_run`.

    Runs are named as `short` writes them. A group that does not go away is noted in `errors`.

    Returns how many it removed.
    """
    found = {path.name for hierarchy in cgroup_counters.hierarchies(root) for path in hierarchy.glob("sparring-*")}
    removed = 0
    for name in sorted(found):
        mark = ProcessTag.parse(name)
        if mark is None or mark.run_digest == spare_run:
            continue
        if mark.run_digest == ended_run or mark.owner(observer).state_seen_by(observer) is OwnerState.DEAD:
            with errors.collect():
                _remove_cgroup(name, root)
                removed += 1
    return removed


def _if_counting(hierarchy: Path) -> Path | None:
    """Returns a hierarchy of version 1 if it counts what we want to know."""
    return hierarchy if set(hierarchy.name.split(",")) & set(_COUNTING_CONTROLLERS) else None


def _register_oom_eventfd(folders: list[Path], memory: int) -> int:
    """Limits the memory of version 1's group; returns an event counter that the kernel raises at each kill there."""
    folder = next(folder for folder in folders if (folder / "memory.limit_in_bytes").exists())
    (folder / "memory.limit_in_bytes").write_text(str(memory - _LIMIT_MARGIN), "ascii")
    bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        with (folder / "memory.oom_control").open("rb") as control:
            (folder / "cgroup.event_control").write_text(f"{bell} {control.fileno()}", "ascii")
    except BaseException:
        os.close(bell)
        raise
    return bell


def _remove_cgroup(name: str, root: Path) -> None:
    """Removes a group everywhere; the engine itself makes it in the hierarchies where we did not."""
    until = time.monotonic() + _REMOVAL_SECONDS
    while folders := [folder for one in cgroup_counters.hierarchies(root) if (folder := one / name).is_dir()]:
        if not kill_and_remove(folders) or time.monotonic() > until:
            raise SandboxLost(f"control group {name} does not go away; end what lives there by hand")
        if any(folder.is_dir() for folder in folders):
            time.sleep(_POLL_SECONDS)
