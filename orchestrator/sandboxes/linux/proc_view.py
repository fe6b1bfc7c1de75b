"""The kernel's view of a running container's first process, read from the host's /proc without the engine."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

_NAMESPACES = ("net", "ipc", "pid", "mnt", "uts", "cgroup")
_CGROUP_FILES = {
    "memory": ("memory/{}/memory.limit_in_bytes", "{}/memory.max"),
    "memory and swap": ("memory/{}/memory.memsw.limit_in_bytes", "{}/memory.swap.max"),
    "pids": ("pids/{}/pids.max", "{}/pids.max"),
    "cpu": ("cpu/{}/cpu.cfs_quota_us", "{}/cpu.max"),
    "cpu period": ("cpu/{}/cpu.cfs_period_us", ""),
    "devices": ("devices/{}/devices.list", ""),
}
CGROUP_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo: mount point, file system, source, and the options of the mount and the file system."""

    path: str
    filesystem: str
    source: str
    options: frozenset[str]
    filesystem_options: Mapping[str, str]
    """The file system's own options: `size=64k` is the key `size` with the value `64k`."""


@dataclass(frozen=True, slots=True)
class ProcView:
    """One process as /proc shows it.

    `status` and `limits` have the kernel's names as keys. `cgroup_amounts` are the limits of its control groups, with
    the keys of `_CGROUP_FILES`. `shared_namespaces` are the namespaces that it shares with this process.
    `routed_interfaces` are the network interfaces with a route. `unmasked_paths` are the paths that should be masked
    but exist without a mount on them.
    """

    program: str
    status: Mapping[str, tuple[str, ...]]
    limits: Mapping[str, str]
    mounts: Mapping[str, Mount]
    shared_namespaces: frozenset[str]
    routed_interfaces: frozenset[str]
    oom_score_adj: str
    version1: bool
    cgroup_amounts: Mapping[str, str] = field(default_factory=dict)
    unmasked_paths: tuple[str, ...] = ()

    @classmethod
    def read_process(
        cls,
        pid: int,
        container: str,
        root: Path = Path("/proc"),
        groups: Path = CGROUP_ROOT,
        *,
        masks: Sequence[str] = (),
    ) -> Self | None:
        """Returns the process `pid` if it belongs to the container and is still alive after the reading, else None.

        `masks` are the paths that have to be masked. None proves no violation: the player may have ended, or the engine
        may be in another process id namespace, where ids differ.
        """
        if pid <= 0:
            return None
        try:
            return cls._read_folder(root / str(pid), root / "self", container, masks, groups)
        except OSError:
            return None

    @classmethod
    def _read_folder(
        cls, folder: Path, own_folder: Path, container: str, masks: Sequence[str], groups: Path
    ) -> Self | None:
        paths = dict(_cgroup_paths((folder / "cgroup").read_text("utf-8")))
        if not any(container in path for path in paths.values()):
            return None
        version1 = not (groups / "cgroup.controllers").exists()
        mounts = {mount.path: mount for mount in _parse_mounts((folder / "mountinfo").read_text("utf-8", "replace"))}
        view = cls(
            program=(folder / "exe").readlink().name,
            status=_parse_status((folder / "status").read_text("utf-8", "replace")),
            limits=_parse_limits((folder / "limits").read_text("utf-8")),
            mounts=mounts,
            shared_namespaces=frozenset(
                name for name in _NAMESPACES if _same_file(folder / "ns" / name, own_folder / "ns" / name)
            ),
            routed_interfaces=_routed_interfaces(folder / "net"),
            oom_score_adj=(folder / "oom_score_adj").read_text("ascii").strip(),
            version1=version1,
            cgroup_amounts=_cgroup_amounts(paths, groups, version1=version1),
            unmasked_paths=tuple(
                path for path in masks if path not in mounts and os.path.lexists(f"{folder}/root{path}")
            ),
        )
        state = _parse_status((folder / "status").read_text("utf-8", "replace")).get("State", ())
        return None if not state or state[0] in "ZX" else view


def _cgroup_paths(text: str) -> Iterator[tuple[str, str]]:
    """Yields each controller with its path; the name of version 2 is empty."""
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            yield name, path


def _cgroup_amounts(paths: Mapping[str, str], groups: Path, *, version1: bool) -> dict[str, str]:
    amounts = {}
    for name, (pattern1, pattern2) in _CGROUP_FILES.items():
        pattern = pattern1 if version1 else pattern2
        path = paths.get(pattern.split("/")[0]) if version1 else paths.get("")
        file = None if not pattern or path is None else groups / pattern.format(path.lstrip("/"))
        if file is not None and file.exists():  # a kernel without swap accounting has no such file
            amounts[name] = file.read_text("ascii").strip()
    return amounts


def _parse_status(text: str) -> dict[str, tuple[str, ...]]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: tuple(value.split()) for name, _, value in pairs}


def _parse_limits(text: str) -> dict[str, str]:
    """Returns the hard limits by the kernel's names, such as `Max open files`."""
    heading, *lines = text.splitlines()
    hard, units = heading.index("Hard Limit"), heading.index("Units")
    return {line[: heading.index("Soft Limit")].strip(): line[hard:units].strip() for line in lines}


def _parse_mounts(text: str) -> Iterator[Mount]:
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        place, options = left.split(" ")[4:6]
        kind, source, inner = right.split(" ", 2)
        pairs = (each.partition("=") for each in inner.split(","))
        yield Mount(place, kind, source, frozenset(options.split(",")), {name: value for name, _, value in pairs})


def _routed_interfaces(net: Path) -> frozenset[str]:
    interfaces = {line.split()[0] for line in (net / "route").read_text("ascii").splitlines()[1:]}
    ipv6_routes = net / "ipv6_route"
    if ipv6_routes.exists():  # absent if IPv6 is off
        interfaces |= {line.split()[-1] for line in ipv6_routes.read_text("ascii").splitlines()}
    return frozenset(interfaces - {"lo"})


def _same_file(one: Path, other: Path) -> bool:
    return os.path.samestat(one.stat(), other.stat())
