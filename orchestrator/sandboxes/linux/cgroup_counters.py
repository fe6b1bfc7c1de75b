"""Reads the resource usage of a control group, from version 1 or version 2 of the kernel's interface.

In both versions a group's processor time, peak memory and peak number of processes include those of its children, even
of removed ones. The exception is version 1's count of kills at the memory limit: it belongs to the victim's own group
and is lost with it; `parent_cgroup` works around that. The kernel's Documentation/admin-guide/cgroup-v1/memory.rst and
cgroup-v2.rst describe the files.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

CGROUP_ROOT = Path("/sys/fs/cgroup")
_PAGE = 4096
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage so far; None is unknown. `kills` is the number of processes that the kernel killed at the limit."""

    peak_bytes: int | None = None
    cpu_seconds: float | None = None
    peak_pids: int | None = None
    kills: int = 0

    def merged_with(self, older: "Usage") -> "Usage":
        """Returns the larger value of each counter, because counters never decrease; None only if both are unknown."""
        return Usage(
            _larger_known(self.peak_bytes, older.peak_bytes),
            _larger_known(self.cpu_seconds, older.cpu_seconds),
            _larger_known(self.peak_pids, older.peak_pids),
            max(self.kills, older.kills),
        )


def is_version_2(root: Path = CGROUP_ROOT) -> bool:
    """Returns whether the single hierarchy of version 2 is mounted at `root`."""
    return (root / "cgroup.controllers").exists()


def hierarchies(root: Path = CGROUP_ROOT) -> list[Path]:
    """Returns the mount points of the hierarchies, each once: one in version 2, one per controller in version 1."""
    if is_version_2(root):
        return [root]
    return sorted({path.resolve() for path in root.glob("*") if path.is_dir()})


def read_usage(folders: Sequence[Path]) -> Usage:
    """Returns the usage of one group: `folders` is its folder of version 2, or those in version 1's hierarchies."""
    nanoseconds = _read_number(folders, "cpuacct.usage")
    microseconds = _read_field(folders, "cpu.stat", "usage_usec")
    cpu = microseconds / 1e6 if microseconds is not None else None
    return Usage(
        peak_bytes=_read_number(folders, "memory.max_usage_in_bytes", "memory.peak"),
        cpu_seconds=nanoseconds / 1e9 if nanoseconds is not None else cpu,
        peak_pids=_read_number(folders, "pids.peak"),
        kills=(
            _read_field(folders, "memory.events", "oom_kill")
            or _read_field(folders, "memory.oom_control", "oom_kill")
            or 0
        ),
    )


@dataclass(frozen=True, slots=True)
class FileCache:
    """A group's page cache in bytes: its current `size`, and the pages `refaulted`: evicted and read again."""

    size: int
    refaulted: int


def read_file_cache(folders: Sequence[Path]) -> FileCache | None:
    """Returns the page cache of a group and its subgroups; None if the kernel does not report it."""
    for total, cached in (("total_", "total_cache"), ("", "file")):
        counts = [_read_field(folders, "memory.stat", name) for name in (cached, f"{total}shmem")]
        refaults = _read_field(folders, "memory.stat", f"{total}workingset_refault_file")
        if refaults is not None and counts[0] is not None:
            return FileCache(max(0, counts[0] - (counts[1] or 0)), refaults * _PAGE)
    return None


def processes_in(folders: Sequence[Path]) -> set[int]:
    """Returns the ids of the processes in these groups and their subgroups."""
    processes: set[int] = set()
    for folder in folders:
        for path, _, _ in os.walk(folder):  # skips groups that were removed meanwhile
            with suppress(OSError):  # the group was removed, so it is empty
                processes |= {int(pid) for pid in Path(path, "cgroup.procs").read_text("ascii").split()}
    return processes


def _larger_known(new: Number | None, old: Number | None) -> Number | None:
    return old if new is None else new if old is None else max(new, old)


def _read_number(folders: Sequence[Path], *names: str) -> int | None:
    for folder in folders:
        for name in names:
            with suppress(OSError, ValueError):
                return int((folder / name).read_text("ascii"))
    return None


def _read_field(folders: Sequence[Path], file: str, field: str) -> int | None:
    for folder in folders:
        with suppress(OSError, ValueError):
            for line in (folder / file).read_text("ascii").splitlines():
                name, _, value = line.partition(" ")
                if name == field:
                    return int(value)
    return None
