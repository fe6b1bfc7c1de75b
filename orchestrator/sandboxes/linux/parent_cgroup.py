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
from orchestrator.sandboxes.linux.process_tree import ProcessTag
from orchestrator.sandboxes.linux.sandbox_owner import Owner, OwnerState

_LIMIT_MARGIN = 64 * 1024
"""Bytes by which the parent's limit is lower: more than the kernel ever charges in one step without a smaller fallback,
so that always the parent's limit is reached. Otherwise only the container's own group would get the event."""
_COUNTING_CONTROLLERS = ("memory", "cpuacct", "pids")
_REMOVAL_SECONDS = 5.0
_POLL_SECONDS = 0.02


class ParentCgroup:
    """The parent control group of one sandbox. `path` is its path from the root, which the engine is given."""

    def __init__(self, name: str, folders: list[Path], root: Path, oom_eventfd: int | None) -> None:
        self.path = f"/{name}"
        self._name, self._root = name, root
        self._folders = folders
        self._oom_eventfd = oom_eventfd
        self._oom_count = 0

    @classmethod
    def open(cls, owner: Owner, run: str, memory: int, root: Path = CGROUP_ROOT) -> Self | None:
        """Makes the group for a sandbox of `memory` bytes; returns None if this process may not write there."""
        name = ProcessTag.create(owner, run).text
        is_version_2 = cgroup_counters.is_version_2(root)
        hierarchies = [root] if is_version_2 else [each for each in cgroup_counters.hierarchies(root) if _counts(each)]
        if not hierarchies or not all(os.access(hierarchy, os.W_OK) for hierarchy in hierarchies):
            return None
        folders = [hierarchy / name for hierarchy in hierarchies]
        try:
            for folder in folders:
                folder.mkdir()
            oom_eventfd = None if is_version_2 else _register_oom_eventfd(folders, memory)
        except OSError:
            kill_and_remove(folders)
            return None
        return cls(name, folders, root, oom_eventfd)

    def usage(self) -> Usage | None:
        """Returns the sandbox's usage so far; None if no process ever ran in the group."""
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
        """Returns the group's page cache; None if the kernel does not report it."""
        return cgroup_counters.read_file_cache(self._folders)

    def close(self) -> None:
        """Removes the group, in every hierarchy. Safe to call twice.

        Raises:
            SandboxLost: a process in it survived.
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
    """Kills the processes in the groups of dead owners and of the run `ended_run`, and removes the groups.

    It spares `spare_run`. Both runs are digests of `run_digest`. A fault of one group goes into `errors`. Returns the
    number of groups removed.
    """
    names = {path.name for hierarchy in cgroup_counters.hierarchies(root) for path in hierarchy.glob("sparring-*")}
    removed = 0
    for name in sorted(names):
        tag = ProcessTag.parse(name)
        if tag is None or tag.run_digest == spare_run:
            continue
        if tag.run_digest == ended_run or tag.owner(observer).state_seen_by(observer) is OwnerState.DEAD:
            with errors.collect():
                _remove_cgroup(name, root)
                removed += 1
    return removed


def _counts(hierarchy: Path) -> bool:
    """Returns whether a hierarchy of version 1 has a controller whose counters are read."""
    return not set(hierarchy.name.split(",")).isdisjoint(_COUNTING_CONTROLLERS)


def _register_oom_eventfd(folders: list[Path], memory: int) -> int:
    """Sets the memory limit of the version 1 group; returns an eventfd that the kernel increments at each kill."""
    folder = next(folder for folder in folders if (folder / "memory.limit_in_bytes").exists())
    (folder / "memory.limit_in_bytes").write_text(str(memory - _LIMIT_MARGIN), "ascii")
    oom_eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        with (folder / "memory.oom_control").open("rb") as control:
            (folder / "cgroup.event_control").write_text(f"{oom_eventfd} {control.fileno()}", "ascii")
    except BaseException:
        os.close(oom_eventfd)
        raise
    return oom_eventfd


def _remove_cgroup(name: str, root: Path) -> None:
    """Removes a group from every hierarchy, also from those in which the engine created it."""
    until = time.monotonic() + _REMOVAL_SECONDS
    while folders := [folder for one in cgroup_counters.hierarchies(root) if (folder := one / name).is_dir()]:
        if not kill_and_remove(folders) or time.monotonic() > until:
            raise SandboxLost(f"control group {name} does not go away; end what lives there by hand")
        if any(folder.is_dir() for folder in folders):
            time.sleep(_POLL_SECONDS)
