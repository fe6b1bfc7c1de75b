"""What the engine really applied, held against the policy.

An engine may drop what it does not know or cannot do, with no more than a warning. So after every start it is asked
what it made (`docker inspect`), and where the player's process can be seen from here, the kernel is asked too. What the
policy demands is written down here once more, on purpose: a fault in the translation (`_container`) is found as well.
`weaker` is pure. Each claim is (control, wanted, found); controls have the names of the policy's fields where
there is one. Anything but what was asked for is reported, stricter values too: limits are rules of the contest.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.policy import Network, Runtime, Seccomp, User
from orchestrator.domain.text import printable
from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.base import SandboxSpec
from orchestrator.sandboxes.docker import seccomp
from orchestrator.sandboxes.docker.constant_files import Sources
from orchestrator.sandboxes.docker.container_spec import (
    HOME,
    MAX_PENDING_SIGNALS,
    MEMLOCK_BYTES,
    TMP_INODES,
    HostLimits,
)
from orchestrator.sandboxes.docker.proc_view import ProcView

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
_ENGINE_FILES = frozenset({"/etc/resolv.conf", "/etc/hostname", "/etc/hosts"})
_BIND_ASKED = ("Type", "Source", "Target", "ReadOnly")
_BIND_THERE = ("Type", "Source", "Destination", "RW")
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
    """What a sandbox was to be: its order, the user id it got, and what the machine has."""

    order: SandboxSpec
    uid: int
    host: HostLimits

    @property
    def user(self) -> int:
        """The user id that the policy demands."""
        return self.uid if self.order.policy.user is User.UNIQUE else 0

    @property
    def constants(self) -> Sources:
        """The files that are seen in place of the kernel's, in their order."""
        return tuple(sorted(self.host.constants)) if self.order.policy.masked_proc else ()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A control that is missing or not what the policy demands."""

    control: str
    wanted: str
    found: str

    def __str__(self) -> str:
        return f"{self.control}: wanted {self.wanted}, found {self.found}"


def mismatches(wish: RequestedPolicy, inspect: Mapping[str, Any], view: ProcView | None = None) -> list[Mismatch]:
    """Returns every control that is not as the policy demands; `inspect` is what `docker inspect` says.

    `view` is what the kernel says of the player's first process; None when it ended already or is not to be seen.
    """
    claims = [*_engine_claims(wish, inspect), *(() if view is None else _kernel_claims(wish, view))]
    found: dict[str, Mismatch] = {}
    for control, wanted, got in claims:
        if wanted != got and not (wanted in _EMPTY and got in _EMPTY):
            found.setdefault(control, Mismatch(control, _display_value(wanted), _display_value(got)))
    return list(found.values())


class PolicyNotAppliedError(SandboxLost):
    """A control is missing or not what the policy demands: through the engine, or through what the image holds."""


def require_applied(wish: RequestedPolicy, inspect: Mapping[str, Any] | None) -> None:
    """Reads back a container that was just started, as far as it can be seen from here.

    Raises:
        PolicyNotAppliedError: a control is missing or weaker; each control by its name.
        SandboxLost: somebody removed the container.
    """
    if inspect is None:
        raise SandboxLost("somebody removed the container of a player that was being started")
    masks = wish.host.hidden if wish.order.policy.masked_proc else ()
    view = ProcView.read((inspect.get("State") or {}).get("Pid") or 0, str(inspect.get("Id")), masks=masks)
    if found := mismatches(wish, inspect, view):
        raise PolicyNotAppliedError(
            "the engine did not apply what the policy demands, so nothing is played in this sandbox: "
            + "; ".join(str(each) for each in found)
        )


def _engine_claims(wish: RequestedPolicy, inspect: Mapping[str, Any]) -> Iterator[Claim]:
    config, made = inspect.get("Config") or {}, inspect.get("HostConfig") or {}
    yield from _privilege_claims(wish, config, made)
    yield from _namespace_claims(wish, inspect, made)
    yield from _limit_claims(wish, made)
    yield from _file_claims(wish, inspect, made)
    yield from _lifecycle_claims(wish, config, made)


def _privilege_claims(wish: RequestedPolicy, config: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[Claim]:
    policy = wish.order.policy
    options = [str(option) for option in made.get("SecurityOpt") or []]
    filters = [option.removeprefix("seccomp=") for option in options if option.startswith("seccomp=")]
    profiles = {Seccomp.PLAYER: [seccomp.seccomp_profile()], Seccomp.ENGINE: [], Seccomp.NONE: ["unconfined"]}
    gains = [option for option in options if option.startswith("no-new-privileges")]
    # An engine switches labels off by itself where a namespace is the host's.
    known = ("seccomp=", "no-new-privileges", *(() if policy.private_ipc else ("label=disable",)))
    yield "user", f"{wish.user}:{wish.user}", config.get("User")
    yield "capabilities", ["ALL"], made.get("CapDrop")
    yield "capabilities", sorted(policy.capabilities), sorted(_name_set(made.get("CapAdd")))
    yield "no_new_privileges", [f"no-new-privileges:{str(policy.no_new_privileges).lower()}"], gains
    yield "seccomp", profiles[policy.seccomp], filters
    yield "security options", [], [option for option in options if not option.startswith(known)]
    yield "privileged", False, made.get("Privileged")
    yield "groups", [], made.get("GroupAdd")
    yield "runtime", policy.runtime.value, made.get("Runtime")


def _namespace_claims(wish: RequestedPolicy, inspect: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[Claim]:
    policy = wish.order.policy
    networks = (inspect.get("NetworkSettings") or {}).get("Networks") or {}
    yield "network", policy.network.value, made.get("NetworkMode")
    yield "network", [policy.network.value], list(networks) or [policy.network.value]
    yield "ports", {}, made.get("PortBindings")
    yield "ports", False, made.get("PublishAllPorts", False)
    yield "links", [], made.get("Links")
    yield "private_ipc", "private" if policy.private_ipc else "host", made.get("IpcMode")
    yield "private_cgroup", "private" if policy.private_cgroup else "host", made.get("CgroupnsMode")
    for name in ("PidMode", "UTSMode", "UsernsMode"):
        yield name, "", made.get(name)


def _limit_claims(wish: RequestedPolicy, made: Mapping[str, Any]) -> Iterator[Claim]:
    limits, host = wish.order.limits, wish.host
    yield "limits.memory", limits.memory, made.get("Memory")
    yield "limits.memory", limits.memory, made.get("MemorySwap")  # the engine's word for both together
    yield "limits.memory", False, bool(made.get("OomKillDisable"))
    yield "oom score", 1000, made.get("OomScoreAdj")
    yield "limits.pids", limits.pids, made.get("PidsLimit")
    yield "limits.cpus", _nanoseconds(wish), made.get("NanoCpus")
    yield "limits.shm", limits.shm, made.get("ShmSize")
    if host.cgroup1:
        yield "swappiness", 0, made.get("MemorySwappiness")
    found = {str(entry.get("Name")): (entry.get("Soft"), entry.get("Hard")) for entry in made.get("Ulimits") or []}
    for name, control, value in _ulimits(wish):
        yield control, (value, value), found.get(name)


def _ulimits(wish: RequestedPolicy) -> tuple[tuple[str, str, int], ...]:
    limits = wish.order.limits
    return (
        ("nofile", "limits.files", min(limits.files, wish.host.files)),
        ("core", "ulimit core", 0),
        ("fsize", "ulimit fsize", max(limits.tmp, limits.shm)),
        ("memlock", "ulimit memlock", MEMLOCK_BYTES),
        ("msgqueue", "ulimit msgqueue", 0),
        ("sigpending", "ulimit sigpending", MAX_PENDING_SIGNALS),
    )


def _file_claims(wish: RequestedPolicy, inspect: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[Claim]:
    policy, device = wish.order.policy, wish.order.device
    tmpfs = {place: sorted(str(options).split(",")) for place, options in (made.get("Tmpfs") or {}).items()}
    wanted = [
        *("rw", "nosuid", "nodev", "noexec" if policy.noexec_tmp else "exec", "mode=0700"),
        *(f"size={policy.limits.tmp}", f"nr_inodes={TMP_INODES}", f"uid={wish.user}", f"gid={wish.user}"),
    ]
    yield "read_only_root", policy.read_only_root, made.get("ReadonlyRootfs")
    yield "tmp", {HOME: sorted(wanted)}, tmpfs
    for name in ("Binds", "VolumesFrom", "Devices", "DeviceCgroupRules"):
        yield name, [], made.get(name)
    asked = [tuple(mount.get(key) for key in _BIND_ASKED) for mount in made.get("Mounts") or []]
    there = [tuple(mount.get(key) for key in _BIND_THERE) for mount in inspect.get("Mounts") or []]
    yield "Mounts", [("bind", source, place, True) for place, source in wish.constants], sorted(asked, key=str)
    yield "Mounts", [("bind", source, place, False) for place, source in wish.constants], sorted(there, key=str)
    yield "Volumes", {}, (inspect.get("Config") or {}).get("Volumes")
    requests = [sorted(request.get("DeviceIDs") or ["all"]) for request in made.get("DeviceRequests") or []]
    yield "devices", [] if device is None else [[device]], requests
    if policy.masked_proc:
        wanted_masks = (ALWAYS_MASKED | set(wish.host.masks)) - dict(wish.constants).keys()
        yield "masked_proc", [], sorted(wanted_masks - _name_set(made.get("MaskedPaths")))
        yield "read-only paths", [], sorted(ALWAYS_READ_ONLY - _name_set(made.get("ReadonlyPaths")))


def _lifecycle_claims(wish: RequestedPolicy, config: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[Claim]:
    policy = wish.order.policy
    yield "init", policy.init, bool(made.get("Init"))
    yield "engine_logs", "json-file" if policy.engine_logs else "none", (made.get("LogConfig") or {}).get("Type")
    yield "restart policy", "no", (made.get("RestartPolicy") or {}).get("Name")
    yield "health check", ["NONE"], (config.get("Healthcheck") or {}).get("Test")
    yield "automatic removal", False, bool(made.get("AutoRemove"))
    yield "terminal", False, bool(config.get("Tty"))


def _kernel_claims(wish: RequestedPolicy, view: ProcView) -> Iterator[Claim]:
    """What the kernel says. Under gVisor its process is the boundary, not the player, and only its groups are ours."""
    yield from _cgroup_claims(wish, view)
    if wish.order.policy.runtime is Runtime.RUNSC:
        yield "runtime", "runsc", view.program
        yield "gVisor's own filter", (("1",), ("2",)), (view.status.get("NoNewPrivs"), view.status.get("Seccomp"))
    if wish.order.policy.runtime is Runtime.RUNC:
        yield from _process_claims(wish, view)
        yield from _mount_claims(wish, view)


def _cgroup_claims(wish: RequestedPolicy, view: ProcView) -> Iterator[Claim]:
    limits, amounts = wish.order.limits, view.amounts
    memory = limits.memory - limits.memory % _PAGE
    period = 100_000
    quota = _nanoseconds(wish) * period // 1_000_000_000
    yield "limits.memory", str(memory), amounts.get("memory")
    if "memory and swap" in amounts:  # not where the kernel does not account for swap
        yield "limits.memory", str(memory) if view.version1 else "0", amounts["memory and swap"]
    yield "limits.pids", str(limits.pids), amounts.get("pids")
    if view.version1:
        yield "limits.cpus", (str(quota), str(period)), (amounts.get("cpu"), amounts.get("cpu period"))
    else:
        yield "limits.cpus", f"{quota} {period}", amounts.get("cpu")


def _process_claims(wish: RequestedPolicy, view: ProcView) -> Iterator[Claim]:
    policy, status, uid = wish.order.policy, view.status, str(wish.user)
    if view.version1:
        yield "devices", False, _ALL_DEVICES in view.amounts.get("devices", _ALL_DEVICES).splitlines()
    yield "user", (uid,) * 4, status.get("Uid")
    yield "user", (uid,) * 4, status.get("Gid")
    yield "groups", [], sorted(set(status.get("Groups", ("?",))) - {uid})
    if not policy.capabilities:
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            yield "capabilities", (name, "0" * 16), (name, *status.get(name, ("?",)))
    yield "no_new_privileges", (str(int(policy.no_new_privileges)),), status.get("NoNewPrivs")
    yield "seccomp", ("0" if policy.seccomp is Seccomp.NONE else "2",), status.get("Seccomp")
    yield "oom score", "1000", view.oom_score_adj
    for name, (_, control, value) in zip(_LIMIT_NAMES, _ulimits(wish), strict=True):
        yield control, str(value), view.limits.get(name)
    shared = {"net"} if policy.network is Network.HOST else set()
    shared |= set() if policy.private_ipc else {"ipc"}
    shared |= set() if policy.private_cgroup else {"cgroup"}
    yield "namespaces", sorted(shared), sorted(view.shared)
    if policy.network is Network.NONE:
        yield "network", [], sorted(view.routes)


def _mount_claims(wish: RequestedPolicy, view: ProcView) -> Iterator[Claim]:
    policy, mounts = wish.order.policy, view.mounts
    yield "read_only_root", policy.read_only_root, "/" in mounts and "ro" in mounts["/"].options
    tmp = mounts.get(HOME)
    options = {"nosuid", "nodev", *({"noexec"} if policy.noexec_tmp else ())}
    yield "tmp", ("tmpfs", []), tmp and (tmp.kind, sorted(options - tmp.options))
    yield "limits.tmp", _round_to_pages(policy.limits.tmp), tmp and _parse_kib(tmp.inner.get("size"))
    yield "tmp", str(TMP_INODES), tmp and tmp.inner.get("nr_inodes")
    shm = mounts.get("/dev/shm")  # noqa: S108  the sandbox's own
    if policy.private_ipc:
        yield (
            "limits.shm",
            ("tmpfs", _round_to_pages(policy.limits.shm)),
            shm and (shm.kind, _parse_kib(shm.inner.get("size"))),
        )
    foreign = {place: mount for place, mount in mounts.items() if mount.kind not in _IN_MEMORY}
    ours = frozenset() if policy.read_only_root else _ENGINE_FILES  # the engine's own files are as writable as the root
    constants = dict(wish.constants).keys()
    there = {place for place in constants if place in mounts and "ro" in mounts[place].options}
    yield "constants", sorted(constants), sorted(there)
    writable = {place for place, mount in foreign.items() if "ro" not in mount.options}
    yield "mounts", [], sorted(writable - ours)
    if wish.order.device is None:
        known = _ENGINE_FILES | constants
        strange = (place for place in foreign if place not in known and not place.endswith("/docker-init"))
        yield "mounts", [], sorted(strange)
    if policy.masked_proc:
        yield "masked_proc", [], sorted(view.bare)
        for place in ("/sys", "/proc/sys"):
            yield "read-only paths", True, place in mounts and "ro" in mounts[place].options


def _nanoseconds(wish: RequestedPolicy) -> int:
    return int(min(wish.order.limits.cpus, float(wish.host.cpus)) * 1_000_000_000)


def _round_to_pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _parse_kib(text: str | None) -> int | None:
    """Returns the bytes that `65536k` means."""
    return int(text[:-1]) * 1024 if text and text.endswith("k") and text[:-1].isdigit() else None


def _name_set(value: Any) -> frozenset[str]:
    return frozenset(str(name) for name in value or ())


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
