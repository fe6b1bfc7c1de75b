"""Verifies after every start that the engine applied the policy.

An engine may ignore an option that it does not know or cannot apply, with only a warning. So this module compares the
policy with `docker inspect` and, if the player's process is visible from here, with the kernel (see `applied_policy`).
It states what the policy requires independently of `container_spec`, on purpose: so it also detects a fault in that
translation. `mismatches` is pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.domain.policy import Seccomp
from orchestrator.errors import SandboxLost
from orchestrator.sandboxes.image_files.mount_points import INIT_FOLDERS, INIT_PROGRAM
from orchestrator.sandboxes.linux import applied_policy, seccomp
from orchestrator.sandboxes.linux.applied_policy import (
    ALWAYS_MASKED,
    ALWAYS_READ_ONLY,
    Claim,
    Mismatch,
    PolicyNotAppliedError,
    RequestedPolicy,
)
from orchestrator.sandboxes.linux.host_limits import HOME, TMP_INODES
from orchestrator.sandboxes.linux.proc_view import ProcView

_ENGINE_FILES = frozenset(
    {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts", *(f"{folder}/{INIT_PROGRAM}" for folder in INIT_FOLDERS)}
)
_REQUESTED_BIND = ("Type", "Source", "Target", "ReadOnly")
_ACTUAL_BIND = ("Type", "Source", "Destination", "RW")


def mismatches(requested: RequestedPolicy, inspect: Mapping[str, Any], view: ProcView | None = None) -> list[Mismatch]:
    """Returns every control that differs from the policy; `inspect` is the output of `docker inspect`.

    `view` is the kernel's view of the player's first process; None if the process ended already or is not visible.
    """
    kernel = () if view is None else applied_policy.kernel_claims(requested, view, _ENGINE_FILES)
    return applied_policy.unmet_claims([*_engine_claims(requested, inspect), *kernel])


def require_applied(requested: RequestedPolicy, inspect: Mapping[str, Any] | None) -> None:
    """Verifies a container that was just started, from `docker inspect` and, if visible, its first process.

    Raises:
        PolicyNotAppliedError: a control is missing or weaker; the error names each one.
        SandboxLost: another program removed the container.
    """
    if inspect is None:
        raise SandboxLost("somebody removed the container of a player that was being started")
    pid = (inspect.get("State") or {}).get("Pid") or 0
    view = ProcView.read_process(pid, str(inspect.get("Id")), masks=requested.masked_paths)
    if unmet := mismatches(requested, inspect, view):
        raise PolicyNotAppliedError("the engine", unmet)


def _engine_claims(requested: RequestedPolicy, inspect: Mapping[str, Any]) -> Iterator[Claim]:
    config, host_config = inspect.get("Config") or {}, inspect.get("HostConfig") or {}
    yield from _privilege_claims(requested, config, host_config)
    yield from _namespace_claims(requested, inspect, host_config)
    yield from _limit_claims(requested, host_config)
    yield from _file_claims(requested, inspect, host_config)
    yield from _lifecycle_claims(requested, config, host_config)


def _privilege_claims(
    requested: RequestedPolicy, config: Mapping[str, Any], host_config: Mapping[str, Any]
) -> Iterator[Claim]:
    policy = requested.spec.policy
    options = [str(option) for option in host_config.get("SecurityOpt") or []]
    filters = [option.removeprefix("seccomp=") for option in options if option.startswith("seccomp=")]
    profiles = {Seccomp.PLAYER: [seccomp.seccomp_profile()], Seccomp.ENGINE: [], Seccomp.NONE: ["unconfined"]}
    gains = [option for option in options if option.startswith("no-new-privileges")]
    # An engine itself adds label=disable if a namespace is the host's.
    known = ("seccomp=", "no-new-privileges", *(() if policy.private_ipc else ("label=disable",)))
    yield "user", f"{requested.expected_uid}:{requested.expected_uid}", config.get("User")
    yield "capabilities", ["ALL"], host_config.get("CapDrop")
    yield "capabilities", sorted(policy.capabilities), sorted(_name_set(host_config.get("CapAdd")))
    yield "no_new_privileges", [f"no-new-privileges:{str(policy.no_new_privileges).lower()}"], gains
    yield "seccomp", profiles[policy.seccomp], filters
    yield "security options", [], [option for option in options if not option.startswith(known)]
    yield "privileged", False, host_config.get("Privileged")
    yield "groups", [], host_config.get("GroupAdd")
    yield "runtime", policy.runtime.value, host_config.get("Runtime")


def _namespace_claims(
    requested: RequestedPolicy, inspect: Mapping[str, Any], host_config: Mapping[str, Any]
) -> Iterator[Claim]:
    policy = requested.spec.policy
    networks = (inspect.get("NetworkSettings") or {}).get("Networks") or {}
    yield "network", policy.network.value, host_config.get("NetworkMode")
    yield "network", [policy.network.value], list(networks) or [policy.network.value]
    yield "ports", {}, host_config.get("PortBindings")
    yield "ports", False, host_config.get("PublishAllPorts", False)
    yield "links", [], host_config.get("Links")
    yield "private_ipc", "private" if policy.private_ipc else "host", host_config.get("IpcMode")
    yield "private_cgroup", "private" if policy.private_cgroup else "host", host_config.get("CgroupnsMode")
    for name in ("PidMode", "UTSMode", "UsernsMode"):
        yield name, "", host_config.get(name)


def _limit_claims(requested: RequestedPolicy, host_config: Mapping[str, Any]) -> Iterator[Claim]:
    limits, host = requested.spec.limits, requested.host
    yield "limits.memory", limits.memory, host_config.get("Memory")
    yield "limits.memory", limits.memory, host_config.get("MemorySwap")  # to the engine, the sum of memory and swap
    yield "limits.memory", False, bool(host_config.get("OomKillDisable"))
    yield "oom score", 1000, host_config.get("OomScoreAdj")
    yield "limits.pids", limits.pids, host_config.get("PidsLimit")
    yield "limits.cpus", applied_policy.cpu_nanoseconds(requested), host_config.get("NanoCpus")
    yield "limits.shm", limits.shm, host_config.get("ShmSize")
    if host.cgroup1:
        yield "swappiness", 0, host_config.get("MemorySwappiness")
    ulimits = {
        str(entry.get("Name")): (entry.get("Soft"), entry.get("Hard")) for entry in host_config.get("Ulimits") or []
    }
    for name, control, value in applied_policy.ulimits(requested):
        yield control, (value, value), ulimits.get(name)


def _file_claims(
    requested: RequestedPolicy, inspect: Mapping[str, Any], host_config: Mapping[str, Any]
) -> Iterator[Claim]:
    policy, device = requested.spec.policy, requested.spec.device
    tmpfs = {place: sorted(str(options).split(",")) for place, options in (host_config.get("Tmpfs") or {}).items()}
    tmpfs_options = [
        *("rw", "nosuid", "nodev", "noexec" if policy.noexec_tmp else "exec", "mode=0700"),
        *(
            f"size={policy.limits.tmp}",
            f"nr_inodes={TMP_INODES}",
            f"uid={requested.expected_uid}",
            f"gid={requested.expected_uid}",
        ),
    ]
    yield "read_only_root", policy.read_only_root, host_config.get("ReadonlyRootfs")
    yield "tmp", {HOME: sorted(tmpfs_options)}, tmpfs
    for name in ("Binds", "VolumesFrom", "Devices", "DeviceCgroupRules"):
        yield name, [], host_config.get(name)
    requested_mounts = [tuple(mount.get(key) for key in _REQUESTED_BIND) for mount in host_config.get("Mounts") or []]
    actual_mounts = [tuple(mount.get(key) for key in _ACTUAL_BIND) for mount in inspect.get("Mounts") or []]
    yield (
        "Mounts",
        sorted((("bind", source, place, True) for place, source in requested.mounts), key=str),
        sorted(requested_mounts, key=str),
    )
    yield (
        "Mounts",
        sorted((("bind", source, place, False) for place, source in requested.mounts), key=str),
        sorted(actual_mounts, key=str),
    )
    yield "Volumes", {}, (inspect.get("Config") or {}).get("Volumes")
    requests = [sorted(request.get("DeviceIDs") or ["all"]) for request in host_config.get("DeviceRequests") or []]
    yield "devices", [] if device is None else [[device]], requests
    if policy.masked_proc:
        expected_masks = (ALWAYS_MASKED | set(requested.host.masked_paths)) - dict(requested.constants).keys()
        yield "masked_proc", [], sorted(expected_masks - _name_set(host_config.get("MaskedPaths")))
        yield "read-only paths", [], sorted(ALWAYS_READ_ONLY - _name_set(host_config.get("ReadonlyPaths")))


def _lifecycle_claims(
    requested: RequestedPolicy, config: Mapping[str, Any], host_config: Mapping[str, Any]
) -> Iterator[Claim]:
    policy = requested.spec.policy
    yield "init", policy.init, bool(host_config.get("Init"))
    yield "engine_logs", "json-file" if policy.engine_logs else "none", (host_config.get("LogConfig") or {}).get("Type")
    yield "restart policy", "no", (host_config.get("RestartPolicy") or {}).get("Name")
    yield "health check", ["NONE"], (config.get("Healthcheck") or {}).get("Test")
    yield "automatic removal", False, bool(host_config.get("AutoRemove"))
    yield "terminal", False, bool(config.get("Tty"))


def _name_set(value: Any) -> frozenset[str]:
    return frozenset(str(name) for name in value or ())
