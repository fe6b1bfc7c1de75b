"""Reads counters that the kernel keeps for the whole machine, or for the sandbox's group in too much detail."""

from pathlib import Path

from _report import attempt, report_all

COUNTERS = (
    *("/proc/buddyinfo", "/proc/cgroups", "/proc/diskstats", "/proc/interrupts", "/proc/key-users"),
    *("/proc/schedstat", "/proc/softirqs", "/proc/swaps"),
    *("/proc/vmstat", "/proc/zoneinfo", "/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"),
    *("/proc/sys/fs/dentry-state", "/proc/sys/fs/file-nr", "/proc/sys/fs/inode-nr", "/proc/sys/fs/inode-state"),
    *("/proc/sys/fs/aio-nr", "/proc/sys/fs/quota/lookups", "/proc/sys/kernel/ns_last_pid"),
    *("/proc/sys/kernel/pty/nr", "/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/random/entropy_avail"),
    *("/sys/kernel/uevent_seqnum", "/sys/kernel/mm/transparent_hugepage/khugepaged/full_scans"),
    *("/sys/devices/system/node/node0/meminfo", "/sys/devices/system/node/node0/vmstat"),
    *("/sys/devices/system/cpu/cpu0/cpuidle/state0/usage", "/sys/module/page_reporting/parameters/passes"),
    *(
        "/proc/modules",
        "/sys/module/nvidia/refcnt",
        "/sys/class/block/loop0/stat",
        "/sys/devices/virtual/block/loop0/stat",
    ),
    *("/sys/fs/cgroup/memory/memory.kmem.usage_in_bytes", "/sys/fs/cgroup/memory/memory.stat"),
    *("/sys/fs/cgroup/memory.stat", "/sys/fs/cgroup/io.stat", "/sys/fs/cgroup/io.pressure"),
)


def read(path: str) -> str:
    """Returns the beginning of a file; an empty one is a masked one."""
    with Path(path).open("rb") as file:
        found = file.read(64)
    if not found:
        raise OSError(0, "empty")
    return found.split(b"\n")[0].decode()


report_all(*(attempt(path, read, path) for path in COUNTERS))
