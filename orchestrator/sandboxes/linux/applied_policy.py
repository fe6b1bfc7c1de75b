"""What the kernel really applied, held against the policy.

A runtime may drop what it does not know or cannot do, with no more than a warning. So after every start the player's
process is looked at where it can be seen from here. What the policy demands is written down here once more, on
purpose: a fault in the translation is found too. Each claim is (control, wanted, found); controls have the names of
the policy's fields where there is one. Anything but what was asked for is reported, stricter values too: limits are
rules of the contest.
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
"""What may be missing from no list of masks."""
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
    """What a sandbox was to be: its specification, the user id it got, and what the machine has."""

    spec: SandboxSpec
    uid: int
    host: HostLimits

    @property
    def expected_uid(self) -> int:
        """The user id that the policy demands."""
        return self.uid if self.spec.policy.user is User.UNIQUE else 0

    @property
    def constants(self) -> MountSources:
        """The files that are seen in place of the kernel's, in their order."""
        return tuple(sorted(self.host.constants)) if self.spec.policy.masked_proc else ()

    @property
    def mounts(self) -> MountSources:
        """Everything of this machine that is mounted, all of it read-only, in its order."""
        return tuple(sorted((*self.constants, *self.host.pipes)))

    @property
    def masked_paths(self) -> tuple[str, ...]:
        """The paths that have to be masked."""
        return self.host.hidden if self.spec.policy.masked_proc else ()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A control that is missing or not what the policy demands."""

    control: str
    wanted: str
    found: str

    def __str__(self) -> str:
        return f"{self.control}: wanted {self.wanted}, found {self.found}"


class PolicyNotAppliedError(SandboxLost):
    """Controls are missing or not what the policy demands: through the runtime, or through what the image holds."""

    def __init__(self, who: str, found: Sequence[Mismatch]) -> None:
        super().__init__(
            f"{who} did not apply what the policy demands, so nothing is played in this sandbox: "
            + "; ".join(str(each) for each in found)
        )


def unmet_claims(claims: Iterable[Claim]) -> list[Mismatch]:
    """Returns the claims that are not met, one for each control."""
    mismatch_by_control: dict[str, Mismatch] = {}
    for control, expected, actual in claims:
        if expected != actual and not (expected in _EMPTY and actual in _EMPTY):
            mismatch_by_control.setdefault(control, Mismatch(control, _display_value(expected), _display_value(actual)))
    return list(mismatch_by_control.values())


def kernel_claims(requested: RequestedPolicy, view: ProcView, runtime_files: Collection[str]) -> Iterator[Claim]:
    """Yields each control with its requested value and the value that the kernel reports.

    Under gVisor the sandboxed process is gVisor's own, not the player, and only its control groups are checked as ours.
    `runtime_files` are the further files that the container runtime mounts, read-only.
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
    if "memory and swap" in amounts:  # not where the kernel does not account for swap
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
    """Returns the processor time that it may use, in nanoseconds a second."""
    return int(min(requested.spec.limits.cpus, float(requested.host.cpus)) * 1_000_000_000)


def _round_to_pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _parse_kib(text: str | None) -> int | None:
    """Returns the bytes that `65536k` means."""
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
    """Returns a value as a message can hold it: a profile is a name there, not 15 KB."""
    if value in _EMPTY:
        return "nothing"
    if isinstance(value, list):
        return ", ".join(_display_value(each) for each in value)
    if value == seccomp.seccomp_profile():
        return "our profile"
    if isinstance(value, str) and value.startswith("{"):
        return f"another profile ({hashlib.sha256(value.encode()).hexdigest()[:12]})"
    return printable(str(value), 200)
