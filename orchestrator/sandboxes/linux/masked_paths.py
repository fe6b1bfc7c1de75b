"""Masks every path of /proc and /sys that is not on a list of visible ones.

There the kernel shows counters of the whole machine. One sandbox can change them and another can read them: with
`/proc/sys/fs/dentry-state` a defence kept the labels of pictures from one sandbox to the next. So the list has only
what programs need, and everything else is masked, including counters of later kernels. docs/kernel-files.md gives the
verdict on each file and the reason.
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
"""Paths that are masked even if this kernel lacks them, which does no harm. The first three lines are the engines'
default list, which a list in the request replaces."""

_VISIBLE: Mapping[str, tuple[str, ...]] = {
    "/proc": (
        *("[0-9]*", "self", "thread-self", "mounts", "net", "sysvipc"),  # the sandbox's own
        *("cpuinfo", "filesystems", "sys", "version"),
        "sysrq-trigger",  # it cannot be read, and under a mask a write to it would succeed
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
"""Folders, each with the names in it that stay visible. A visible folder with an entry here is searched in turn."""

_VISIBLE_WITH_GPU: Mapping[str, tuple[str, ...]] = {"/proc": ("driver",)}
"""What else stays visible to a player with a GPU. CUDA 13 works without it, but older versions may read the driver's
version there. CUDA needs nothing in /sys, where disks and modules have counters of the machine."""

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
    """Returns the paths to mask on this kernel, sorted; `gpu`: whether the player has a GPU.

    /proc and /sys are read below `root`. The counters of control groups are always included, because a sandbox may have
    one that `root` lacks.
    """
    hidden = {path for folder in ("/proc", "/sys") for path in _hidden_paths(root, folder, folder, gpu=gpu)}
    always = ALWAYS_MASKED | {f"/sys/fs/cgroup/{name}" for name in _CGROUP_COUNTERS}
    return tuple(sorted(hidden | {path for path in always if hidden.isdisjoint(map(str, Path(path).parents))}))


def _hidden_paths(root: Path, folder: str, pattern: str, *, gpu: bool) -> Iterator[str]:
    """Yields the paths to mask below a visible folder; `pattern` is its key in `_VISIBLE`."""
    visible = (*_VISIBLE[pattern], *(_VISIBLE_WITH_GPU.get(pattern, ()) if gpu else ()))
    try:
        entries = list(os.scandir(root / folder.lstrip("/")))
    except FileNotFoundError:  # a processor went offline, or the kernel lacks the folder
        return
    for entry in entries:
        path, inside = f"{folder}/{entry.name}", next((k for k in visible if fnmatchcase(entry.name, k)), None)
        if entry.is_symlink():  # a mask would cover the target
            continue
        if inside is None:
            yield path
        elif f"{pattern}/{inside}" in _VISIBLE:
            yield from _hidden_paths(root, path, f"{pattern}/{inside}", gpu=gpu)
