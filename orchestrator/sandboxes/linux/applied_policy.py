"""Compares what the kernel applied to a sandbox with the policy.

A runtime may ignore an option that it does not know or cannot apply, with only a warning. So after every start the
backend inspects the player's process, if it is visible from here. This module states what the policy requires
independently of the code that requested it, on purpose: so it also detects a fault in that code. Each claim is
(control, wanted, found); a control has the name of the policy's field, if there is one. Every difference is reported,
even if the actual value is stricter: limits are rules of the contest.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.policy import Network, Runtime, Seccomp, User
from orchestrator.domain.text import printable
from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.base import SandboxSpec
from orchestrator.sandboxes.linux import seccomp
from orchestrator.sandboxes.linux.constant_files import MountSources
from orchestrator.sandboxes.linux.host_limits import (
    HOME,
    MAX_PENDING_SIGNALS,
    MEMLOCK_BYTES,
    TMP_INODES,
    HostLimits,
)
from orchestrator.sandboxes.linux.proc_view import ProcView

ALWAYS_MASKED = frozenset(
    {
        *("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/scsi", "/proc/timer_list", "/sys/firmware"),
        *("/proc/meminfo", "/proc/stat", "/proc/sys/fs", "/proc/sys/kernel", "/proc/vmstat", "/proc/zoneinfo"),
        "/sys/kernel",
    }
)
"""Paths that have to be masked in every sandbox."""
ALWAYS_READ_ONLY = frozenset({"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"})
_EMPTY: tuple[Any, ...] = (None, "", [], {}, ())
_IN_MEMORY = frozenset({"overlay", "proc", "tmpfs", "devpts", "sysfs", "cgroup", "cgroup2", "mqueue"})
_PAGE = 4096
_ALL_DEVICES = "a *:* rwm"
_LIMIT_NAMES = (
    *("Max open files", "Max core file size", "Max file size"),
    *("Max locked memory", "Max msgqueue size", "Max pending signals"),
)
Claim = tuple[str, Any, Any]


@dataclass(frozen=True, slots=True)
class RequestedPolicy:
    """What was requested for a sandbox: its specification, its user id, and the limits of the machine."""

    spec: SandboxSpec
    uid: int
    host: HostLimits

    @property
    def expected_uid(self) -> int:
        """The user id that the policy requires."""
        return self.uid if self.spec.policy.user is User.UNIQUE else 0

    @property
    def constants(self) -> MountSources:
        """The constant files that are mounted over the kernel's, sorted."""
        return tuple(sorted(self.host.constants)) if self.spec.policy.masked_proc else ()

    @property
    def mounts(self) -> MountSources:
        """All bind mounts from this machine, sorted; each is read-only."""
        return tuple(sorted((*self.constants, *self.host.pipes, *self.host.hosts)))

    @property
    def masked_paths(self) -> tuple[str, ...]:
        """The paths that have to be masked."""
        return self.host.hidden if self.spec.policy.masked_proc else ()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A control that is missing or differs from the policy."""

    control: str
    wanted: str
    found: str

    def __str__(self) -> str:
        return f"{self.control}: wanted {self.wanted}, found {self.found}"


class PolicyNotAppliedError(SandboxLost):
    """Controls are missing or differ from the policy, because of the runtime or of the image's files."""

    def __init__(self, runtime: str, mismatches: Sequence[Mismatch]) -> None:
        super().__init__(
            f"{runtime} did not apply what the policy demands, so nothing is played in this sandbox: "
            + "; ".join(str(each) for each in mismatches)
        )


def unmet_claims(claims: Iterable[Claim]) -> list[Mismatch]:
    """Returns the first unmet claim of each control."""
    mismatch_by_control: dict[str, Mismatch] = {}
    for control, expected, actual in claims:
        if expected != actual and not (expected in _EMPTY and actual in _EMPTY):
            mismatch_by_control.setdefault(control, Mismatch(control, _display_value(expected), _display_value(actual)))
    return list(mismatch_by_control.values())


def kernel_claims(requested: RequestedPolicy, view: ProcView, runtime_files: Collection[str]) -> Iterator[Claim]:
    """Yields each control with its requested value and the value that the kernel reports.

    Under gVisor the visible process is gVisor's own, not the player; of the policy only the control groups are checked.
    `runtime_files` are further files that the container runtime mounts, read-only.
    """
    yield from _cgroup_claims(requested, view)
    if requested.spec.policy.runtime is Runtime.RUNSC:
        yield "runtime", "runsc", view.program
        yield "gVisor's own filter", (("1",), ("2",)), (view.status.get("NoNewPrivs"), view.status.get("Seccomp"))
    if requested.spec.policy.runtime is Runtime.RUNC:
        yield from _process_claims(requested, view)
        yield from _mount_claims(requested, view, runtime_files)


def _cgroup_claims(requested: RequestedPolicy, view: ProcView) -> Iterator[Claim]:
    limits, amounts = requested.spec.limits, view.cgroup_amounts
    memory = limits.memory - limits.memory % _PAGE
    period = 100_000
    quota = cpu_nanoseconds(requested) * period // 1_000_000_000
    yield "limits.memory", str(memory), amounts.get("memory")
    if "memory and swap" in amounts:  # absent if the kernel does not account for swap
        yield "limits.memory", str(memory) if view.version1 else "0", amounts["memory and swap"]
    yield "limits.pids", str(limits.pids), amounts.get("pids")
    if view.version1:
        yield "limits.cpus", (str(quota), str(period)), (amounts.get("cpu"), amounts.get("cpu period"))
    else:
        yield "limits.cpus", f"{quota} {period}", amounts.get("cpu")


def _process_claims(requested: RequestedPolicy, view: ProcView) -> Iterator[Claim]:
    policy, status, uid = requested.spec.policy, view.status, str(requested.expected_uid)
    if view.version1:
        yield "devices", False, _ALL_DEVICES in view.cgroup_amounts.get("devices", _ALL_DEVICES).splitlines()
    yield "user", (uid,) * 4, status.get("Uid")
    yield "user", (uid,) * 4, status.get("Gid")
    yield "groups", [], sorted(set(status.get("Groups", ("?",))) - {uid})
    if not policy.capabilities:
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            yield "capabilities", (name, "0" * 16), (name, *status.get(name, ("?",)))
    yield "no_new_privileges", (str(int(policy.no_new_privileges)),), status.get("NoNewPrivs")
    yield "seccomp", ("0" if policy.seccomp is Seccomp.NONE else "2",), status.get("Seccomp")
    yield "oom score", "1000", view.oom_score_adj
    for name, (_, control, value) in zip(_LIMIT_NAMES, ulimits(requested), strict=True):
        yield control, str(value), view.limits.get(name)
    shared = {"net"} if policy.network is Network.HOST else set()
    shared |= set() if policy.private_ipc else {"ipc"}
    shared |= set() if policy.private_cgroup else {"cgroup"}
    yield "namespaces", sorted(shared), sorted(view.shared_namespaces)
    if policy.network is Network.NONE:
        yield "network", [], sorted(view.routed_interfaces)


def _mount_claims(requested: RequestedPolicy, view: ProcView, runtime_files: Collection[str]) -> Iterator[Claim]:
    policy, mounts = requested.spec.policy, view.mounts
    yield "read_only_root", policy.read_only_root, "/" in mounts and "ro" in mounts["/"].options
    tmp = mounts.get(HOME)
    options = {"nosuid", "nodev", *({"noexec"} if policy.noexec_tmp else ())}
    yield "tmp", ("tmpfs", []), tmp and (tmp.filesystem, sorted(options - tmp.options))
    yield "limits.tmp", _round_to_pages(policy.limits.tmp), tmp and _parse_kib(tmp.filesystem_options.get("size"))
    yield "tmp", str(TMP_INODES), tmp and tmp.filesystem_options.get("nr_inodes")
    shm = mounts.get("/dev/shm")  # noqa: S108  the sandbox's own
    if policy.private_ipc:
        yield (
            "limits.shm",
            ("tmpfs", _round_to_pages(policy.limits.shm)),
            shm and (shm.filesystem, _parse_kib(shm.filesystem_options.get("size"))),
        )
    foreign = {place: mount for place, mount in mounts.items() if mount.filesystem not in _IN_MEMORY}
    as_writable = frozenset() if policy.read_only_root else frozenset(runtime_files)  # as the root is
    for control, sources in (("constants", requested.constants), ("pipes", requested.host.pipes)):
        places = dict(sources).keys()
        mounted = {place for place in places if place in mounts and "ro" in mounts[place].options}
        yield control, sorted(places), sorted(mounted)
    writable = {place for place, mount in foreign.items() if "ro" not in mount.options}
    yield "mounts", [], sorted(writable - as_writable)
    if requested.spec.device is None:
        yield "mounts", [], sorted(foreign.keys() - set(runtime_files) - dict(requested.mounts).keys())
    if policy.masked_proc:
        yield "masked_proc", [], sorted(view.unmasked_paths)
        for place in ("/sys", "/proc/sys"):
            yield "read-only paths", True, place in mounts and "ro" in mounts[place].options


def cpu_nanoseconds(requested: RequestedPolicy) -> int:
    """Returns the processor time that the sandbox may use, in nanoseconds per second."""
    return int(min(requested.spec.limits.cpus, float(requested.host.cpus)) * 1_000_000_000)


def _round_to_pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _parse_kib(text: str | None) -> int | None:
    """Returns a size such as `65536k` in bytes, None for any other text."""
    return int(text[:-1]) * 1024 if text and text.endswith("k") and text[:-1].isdigit() else None


def ulimits(requested: RequestedPolicy) -> tuple[tuple[str, str, int], ...]:
    """Returns each resource limit: its name, the control, the amount."""
    limits = requested.spec.limits
    return (
        ("nofile", "limits.files", min(limits.files, requested.host.max_open_files)),
        ("core", "ulimit core", 0),
        ("fsize", "ulimit fsize", max(limits.tmp, limits.shm)),
        ("memlock", "ulimit memlock", MEMLOCK_BYTES),
        ("msgqueue", "ulimit msgqueue", 0),
        ("sigpending", "ulimit sigpending", MAX_PENDING_SIGNALS),
    )


def _display_value(value: Any) -> str:
    """Returns a short text for a message: a name or a digest in place of a seccomp profile of 15 KB."""
    if value in _EMPTY:
        return "nothing"
    if isinstance(value, list):
        return ", ".join(_display_value(each) for each in value)
    if value == seccomp.seccomp_profile():
        return "our profile"
    if isinstance(value, str) and value.startswith("{"):
        return f"another profile ({hashlib.sha256(value.encode()).hexdigest()[:12]})"
    return printable(str(value), 200)
