"""What a player does not see of /proc and /sys: everything but what is listed here as kept.

The kernel shows counters of the whole machine there. What one sandbox does changes them, and another sandbox can read
that: with `/proc/sys/fs/dentry-state` a defence kept the labels of pictures from one sandbox to the next. So what is
listed is what a program needs, and whatever else this kernel has is hidden, a counter of a later kernel too.
docs/kernel-files.md gives the verdict on each file and the reason.
"""

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

ALWAYS_MASKED = frozenset(
    {
        *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
        *("/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats"),
        *("/sys/devices/virtual/powercap", "/sys/firmware"),
        *("/proc/meminfo", "/proc/stat", "/proc/sys/fs", "/proc/sys/kernel", "/proc/vmstat", "/proc/zoneinfo"),
        *("/sys/kernel", "/proc/slabinfo"),
    }
)
"""What is masked whatever is found. The first three lines are what engines mask unasked: a list of ours takes the place
of theirs, and a path that a kernel does not have does no harm in it."""

_VISIBLE: Mapping[str, tuple[str, ...]] = {
    "/proc": (
        *("[0-9]*", "self", "thread-self", "mounts", "net", "sysvipc"),  # the sandbox's own
        *("cpuinfo", "filesystems", "sys", "version"),
        "sysrq-trigger",  # nobody can read it, and under a mask it could be written to without an error
    ),
    "/proc/sys": ("abi", "crypto", "debug", "dev", "net", "sunrpc", "user", "vm"),
    "/sys": ("devices", "fs"),
    "/sys/devices": ("system",),
    "/sys/devices/system": ("cpu", "node"),
    "/sys/devices/system/cpu": (
        *("cpu[0-9]*", "enabled", "isolated", "kernel_max", "modalias", "nohz_full", "offline", "online", "possible"),
        *("present", "smt", "uevent", "vulnerabilities"),
    ),
    "/sys/devices/system/cpu/cpu[0-9]*": ("cache", "cpu_capacity", "hotplug", "online", "topology", "uevent"),
    "/sys/devices/system/node": ("has_*", "node[0-9]*", "online", "possible", "uevent"),
    "/sys/devices/system/node/node[0-9]*": ("cpulist", "cpumap", "distance", "uevent"),
    "/sys/fs": ("cgroup",),
}
"""Folders, each with the names in it that stay. A name that is a folder here too is looked into."""

_VISIBLE_WITH_GPU: Mapping[str, tuple[str, ...]] = {"/proc": ("driver",)}
"""What stays besides for a player with a GPU. CUDA 13 works without it, and older versions may ask for the driver's
version there. In /sys, where CUDA looks for nothing that it needs, disks and modules have counters of the machine."""

_CGROUP_COUNTERS = (
    *("blkio", "cgroup.pressure", "cpu.pressure", "io.pressure", "irq.pressure", "memory.pressure", "io.stat"),
    *("memory.current", "memory.events", "memory.events.local", "memory.numa_stat", "memory.peak", "memory.stat"),
    *("memory.swap.current", "memory.swap.peak", "memory.zswap.current"),
    *("memory/memory.failcnt", "memory/memory.max_usage_in_bytes", "memory/memory.numa_stat", "memory/memory.stat"),
    *("memory/memory.usage_in_bytes", "memory/memory.kmem.failcnt", "memory/memory.kmem.max_usage_in_bytes"),
    *("memory/memory.kmem.slabinfo", "memory/memory.kmem.usage_in_bytes", "memory/memory.memsw.failcnt"),
    *("memory/memory.memsw.max_usage_in_bytes", "memory/memory.memsw.usage_in_bytes"),
)
"""Counters of the sandbox's own control group, versions 1 and 2. They show whether an earlier sandbox used a file:
only the first group that uses a kernel object or reads a page from disk is charged for it. Limits are not masked."""


def masked_paths(*, gpu: bool = False, root: Path = Path("/")) -> tuple[str, ...]:
    """Returns the paths to be masked on this kernel, sorted; `gpu`: for a player that has one.

    The function looks for /proc and /sys below `root`. The paths of control groups are always listed, because a sandbox
    may have one that `root` lacks.
    """
    found = {path for folder in ("/proc", "/sys") for path in _hidden_paths(root, folder, folder, gpu=gpu)}
    named = ALWAYS_MASKED | {f"/sys/fs/cgroup/{name}" for name in _CGROUP_COUNTERS}
    return tuple(sorted(found | {path for path in named if found.isdisjoint(map(str, Path(path).parents))}))


def _hidden_paths(root: Path, folder: str, pattern: str, *, gpu: bool) -> Iterator[str]:
    """Yields what is hidden below a folder that stays; `pattern` is its key."""
    visible = (*_VISIBLE[pattern], *(_VISIBLE_WITH_GPU.get(pattern, ()) if gpu else ()))
    try:
        entries = list(os.scandir(root / folder.lstrip("/")))
    except FileNotFoundError:  # a processor that was taken away, a kernel without the folder
        return
    for entry in entries:
        path, inside = f"{folder}/{entry.name}", next((k for k in visible if fnmatchcase(entry.name, k)), None)
        if entry.is_symlink():  # a mask would lie on what it leads to
            continue
        if inside is None:
            yield path
        elif f"{pattern}/{inside}" in _VISIBLE:
            yield from _hidden_paths(root, path, f"{pattern}/{inside}", gpu=gpu)
