"""A control group of ours above each sandbox: it keeps the kernel's counters when the sandbox is gone.

A container's own group is removed as it ends, so whoever looks now and then misses a player that lived for 20 ms, and
the last moments of every other. The group above it stays until we have read it. Its name carries who made it, so that
a sweep removes those of the dead.

In version 1 the number of kills at the memory limit stays with the group of the victim. Therefore the group above has
a limit of its own, a little lower, and the kernel tells us by an event counter whenever it reaches that: no kill is
missed, whatever the exit code says.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.linux import cgroup_counters
from orchestrator.sandboxes.linux.cgroup import kill_and_remove
from orchestrator.sandboxes.linux.cgroup_counters import CGROUP_ROOT, Usage
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
    """The group above one sandbox. `parent` is what the engine is told: the group's path from the root."""

    def __init__(self, name: str, folders: list[Path], root: Path, bell: int | None) -> None:
        self.parent = f"/{name}"
        self._name, self._root = name, root
        self._folders = folders
        self._bell = bell
        self._rung = 0

    @classmethod
    def open(cls, owner: Owner, run: str, memory: int, root: Path = CGROUP_ROOT) -> Self | None:
        """Makes the group for a sandbox that may use `memory` bytes; None where we may not write this tree."""
        name = ProcessTag.fresh(owner, run).text
        whole = cgroup_counters.is_version_2(root)
        counting = (
            [root] if whole else [found for one in cgroup_counters.hierarchies(root) if (found := _if_counting(one))]
        )
        if not counting or not all(os.access(folder, os.W_OK) for folder in counting):
            return None
        folders = [folder / name for folder in counting]
        try:
            for folder in folders:
                folder.mkdir()
            bell = None if whole else _register_oom_eventfd(folders, memory)
        except OSError:
            kill_and_remove(folders)
            return None
        return cls(name, folders, root, bell)

    def usage(self) -> Usage | None:
        """Returns what the sandbox used so far; None when the engine never put anything here."""
        found = cgroup_counters.read_usage(self._folders)
        if not found.cpu_seconds:
            return None
        if self._bell is not None:
            with suppress(BlockingIOError):
                self._rung += os.eventfd_read(self._bell)
        return Usage(found.peak_bytes, found.cpu_seconds, found.peak_pids, max(found.kills, self._rung))

    def close(self) -> None:
        """Removes the group, in every hierarchy. Safe to call twice.

        Raises:
            SandboxLost: something lives in it.
        """
        if self._bell is not None:
            os.close(self._bell)
            self._bell = None
        _remove_cgroup(self._name, self._root)


def remove_dead_cgroups(
    here: Owner, failed: DeferredErrors, keep: str | None = None, root: Path = CGROUP_ROOT, ended: str | None = None
) -> int:
    """Removes the groups whose owner is dead or whose run `ended`, and ends what lives there, sparing the run `keep`.

    Runs are named as `short` writes them. A group that does not go away is noted in `failed`.

    Returns how many it removed.
    """
    found = {path.name for hierarchy in cgroup_counters.hierarchies(root) for path in hierarchy.glob("sparring-*")}
    removed = 0
    for name in sorted(found):
        mark = ProcessTag.parse(name)
        if mark is None or mark.run == keep:
            continue
        if mark.run == ended or mark.owner(here).life(here) is OwnerState.DEAD:
            with failed.noted():
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
