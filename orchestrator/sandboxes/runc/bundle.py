"""A container's configuration in the format of the OCI runtime specification (config.json of a bundle).

It comes from the policy and from the few settings that an image may make; `container_spec` does the same for Docker.
The function is pure; tests read what it returns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.domain import environment
from orchestrator.domain.images import ImageConfig
from orchestrator.domain.policy import Network, SandboxPolicy, Seccomp, User
from orchestrator.errors import UsageError
from orchestrator.sandboxes.base import SandboxSpec
from orchestrator.sandboxes.linux import seccomp
from orchestrator.sandboxes.linux.constant_files import HOSTS_PATH
from orchestrator.sandboxes.linux.host_limits import (
    HOME,
    MAX_PENDING_SIGNALS,
    MEMLOCK_BYTES,
    TMP_INODES,
    HostLimits,
)
from orchestrator.sandboxes.runc.cdi import GpuEdits

INIT = "/dev/init"
"""The path of the init program in a container."""
READ_ONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
CPU_PERIOD = 100_000
"""The period of the limit on processor time, in microseconds."""
_VERSION = "1.0.2"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  the sandbox's own
_HIDDEN = ("nosuid", "noexec", "nodev")
_NO_GPU = GpuEdits()


@dataclass(frozen=True, slots=True)
class BundleFiles:
    """The files of this machine for a container: its root file system, a static init program, its /etc/hosts."""

    rootfs: Path
    init: Path
    hosts: Path


def container_config(
    spec: SandboxSpec,
    config: ImageConfig,
    uid: int,
    host: HostLimits,
    cgroup: str,
    files: BundleFiles,
    gpu: GpuEdits = _NO_GPU,
) -> dict[str, Any]:
    """Returns the configuration of one container.

    `cgroup` is the path of its control group from the root. `gpu` are the additions for its GPU, if it has one. Limits
    on processors and open files are lowered to what the machine has, because the kernel refuses more.

    Raises:
        UsageError: the policy asks for an engine's own seccomp profile or logs.
    """
    policy = spec.policy
    if policy.seccomp is Seccomp.ENGINE or policy.engine_logs:
        raise UsageError("only the docker backend offers an engine's seccomp profile and logs")
    uid = uid if policy.user is User.UNIQUE else 0
    return {
        "ociVersion": _VERSION,
        "root": {"path": str(files.rootfs), "readonly": policy.read_only_root},
        "hostname": environment.HOST_NAME,
        "process": _process(spec, config, uid, host, gpu),
        "mounts": [*_mounts(policy, uid, host, files), *gpu.mounts],
        "hooks": dict(gpu.hooks),
        "linux": {
            "namespaces": [{"type": name} for name in _namespaces(policy)],
            "cgroupsPath": cgroup,
            "rootfsPropagation": "private",
            "devices": list(gpu.devices),
            "resources": _resources(spec, host, gpu),
            "maskedPaths": list(host.hidden) if policy.masked_proc else [],
            "readonlyPaths": list(READ_ONLY_PATHS) if policy.masked_proc else [],
            **({"seccomp": seccomp.oci_profile()} if policy.seccomp is Seccomp.PLAYER else {}),
        },
    }


def _process(spec: SandboxSpec, config: ImageConfig, uid: int, host: HostLimits, gpu: GpuEdits) -> dict[str, Any]:
    policy = spec.policy
    variables = {
        **config.environment,
        **environment.player_variables(HOME, spec.limits.threads, spec.device),
    }
    variables.setdefault("PATH", environment.DEFAULT_PATH)
    capabilities = [f"CAP_{name}" for name in policy.capabilities]
    sets = ("bounding", "effective", "permitted", "inheritable", "ambient")
    return {
        "terminal": False,
        "user": {"uid": uid, "gid": uid},
        "args": [*((INIT, "--") if policy.init else ()), *(spec.image.command or config.command)],
        "env": [*(f"{name}={value}" for name, value in variables.items()), *gpu.variables],
        "cwd": config.folder,
        "capabilities": {name: capabilities if name in sets[:3] else [] for name in sets},
        "rlimits": _rlimits(spec, host),
        "noNewPrivileges": policy.no_new_privileges,
        "oomScoreAdj": 1000,
    }


def _rlimits(spec: SandboxSpec, host: HostLimits) -> list[dict[str, Any]]:
    limits = spec.limits
    amounts = {
        "NOFILE": min(limits.files, host.max_open_files),
        "CORE": 0,
        "FSIZE": max(limits.tmp, limits.shm),
        "MEMLOCK": MEMLOCK_BYTES,
        "MSGQUEUE": 0,
        "SIGPENDING": MAX_PENDING_SIGNALS,
    }
    return [{"type": f"RLIMIT_{name}", "soft": amount, "hard": amount} for name, amount in amounts.items()]


def _namespaces(policy: SandboxPolicy) -> tuple[str, ...]:
    return (
        *("pid", "uts", "mount"),
        *(("network",) if policy.network is Network.NONE else ()),
        *(("ipc",) if policy.private_ipc else ()),
        *(("cgroup",) if policy.private_cgroup else ()),
    )


def _mounts(policy: SandboxPolicy, uid: int, host: HostLimits, files: BundleFiles) -> list[dict[str, Any]]:
    execution = "noexec" if policy.noexec_tmp else "exec"
    amounts = (f"size={policy.limits.tmp}", f"nr_inodes={TMP_INODES}", "mode=0700", f"uid={uid}", f"gid={uid}")
    shared = ("mode=1777", f"size={policy.limits.shm}")
    constants = host.constants if policy.masked_proc else ()
    return [
        _mount("/proc", "proc", *_HIDDEN),
        _mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
        _mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
        _mount("/sys", "sysfs", *_HIDDEN, "ro"),
        _mount("/sys/fs/cgroup", "cgroup", *_HIDDEN, "relatime", "ro"),
        _mount("/dev/mqueue", "mqueue", *_HIDDEN),
        _mount(_SHARED_MEMORY, "tmpfs", *_HIDDEN, *shared) if policy.private_ipc else _bind(*[_SHARED_MEMORY] * 2),
        _mount(HOME, "tmpfs", "rw", execution, "nosuid", "nodev", *amounts),
        _bind(str(files.init), INIT, "ro", "nosuid", "nodev"),
        _bind(str(files.hosts), HOSTS_PATH, "ro", *_HIDDEN),
        *(_bind(source, place, "ro", *_HIDDEN) for place, source in constants),
    ]


def _mount(place: str, kind: str, *options: str) -> dict[str, Any]:
    return {"destination": place, "type": kind, "source": kind, "options": list(options)}


def _bind(source: str, place: str, *options: str) -> dict[str, Any]:
    return {"destination": place, "type": "bind", "source": source, "options": ["bind", *options]}


def _resources(spec: SandboxSpec, host: HostLimits, gpu: GpuEdits) -> Mapping[str, Any]:
    limits = spec.limits
    quota = int(min(limits.cpus, float(host.cpus)) * 1_000_000_000) * CPU_PERIOD // 1_000_000_000
    swappiness = {"swappiness": 0} if host.cgroup1 else {}
    return {
        "devices": [{"allow": False, "access": "rwm"}, *gpu.rules],
        "memory": {"limit": limits.memory, "swap": limits.memory, **swappiness},
        "cpu": {"quota": quota, "period": CPU_PERIOD},
        "pids": {"limit": limits.pids},
    }
