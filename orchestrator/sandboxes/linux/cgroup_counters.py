"""What a control group says it used, in version 1 and in version 2 of the kernel's interface.

Both kinds of counters are hierarchical where it matters: a group's processor time, peak memory and peak of processes
include its children's, those that are gone too. The one exception is version 1's count of kills at the memory limit,
which belongs to the group that the victim was in and goes with it; see `parent_cgroup` for what is done about
it. The files are described in the kernel's Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
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
    """What was used so far. None is not known; `kills` is how many processes the kernel killed at the memory limit."""

    peak_bytes: int | None = None
    cpu_seconds: float | None = None
    peak_pids: int | None = None
    kills: int = 0

    def merged_with(self, older: "Usage") -> "Usage":
        """Returns this, with what it does not know taken from an older look. Counters never go down."""
        return Usage(
            _larger_known(self.peak_bytes, older.peak_bytes),
            _larger_known(self.cpu_seconds, older.cpu_seconds),
            _larger_known(self.peak_pids, older.peak_pids),
            max(self.kills, older.kills),
        )


def is_version_2(root: Path = CGROUP_ROOT) -> bool:
    """Whether the one hierarchy of version 2 is mounted here."""
    return (root / "cgroup.controllers").exists()


def hierarchies(root: Path = CGROUP_ROOT) -> list[Path]:
    """Returns where hierarchies are mounted: one in version 2, one a controller in version 1, each once."""
    if is_version_2(root):
        return [root]
    return sorted({path.resolve() for path in root.glob("*") if path.is_dir()})


def read_usage(folders: Sequence[Path]) -> Usage:
    """Returns what one group used: its folder of version 2, or its folders in the hierarchies of version 1."""
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
    """Pages of files in a group's memory, in bytes: `size` now, and `refaulted` that were evicted and read again."""

    size: int
    refaulted: int


def read_file_cache(folders: Sequence[Path]) -> FileCache | None:
    """Returns what a group, with all below it, keeps of files; None where that is not known."""
    for total, cached in (("total_", "total_cache"), ("", "file")):
        counts = [_read_field(folders, "memory.stat", name) for name in (cached, f"{total}shmem")]
        refaults = _read_field(folders, "memory.stat", f"{total}workingset_refault_file")
        if refaults is not None and counts[0] is not None:
            return FileCache(max(0, counts[0] - (counts[1] or 0)), refaults * _PAGE)
    return None


def processes_in(folders: Sequence[Path]) -> set[int]:
    """Returns the processes in these groups and in groups below them."""
    processes: set[int] = set()
    for folder in folders:
        for path, _, _ in os.walk(folder):  # it passes over what is gone by the time that it comes there
            with suppress(OSError):  # the group is gone, and everything in it
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
