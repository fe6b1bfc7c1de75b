"""Mounts control groups and writes their root's settings back as they are, which changes nothing."""

import os
from pathlib import Path

from _report import attempt, report_all, syscall

MOUNT, UMOUNT = 165, 166
HIERARCHIES = ((b"cgroup", b"memory"), (b"cgroup", b"pids"), (b"cgroup", b"rdma"), (b"cgroup2", None))
SETTINGS = ("release_agent", "notify_on_release", "cgroup.subtree_control")


def take(kind: bytes, option: bytes | None) -> str:
    """Returns what of the root of a hierarchy can be written."""
    syscall(MOUNT, b"none", b"/tmp/groups", kind, 0, option)
    try:
        written = []
        for setting in SETTINGS:
            path = Path("/tmp/groups", setting)
            try:
                path.write_bytes(path.read_bytes() if setting != "cgroup.subtree_control" else b"")
                written.append(setting)
            except OSError:
                continue
        if not written:
            raise PermissionError(1, "mounted, nothing written")
        return ", ".join(written)
    finally:
        syscall(UMOUNT, b"/tmp/groups", 0)


os.mkdir("/tmp/groups")
report_all(*(attempt(f"{kind.decode()} {option}", take, kind, option) for kind, option in HIERARCHIES))
