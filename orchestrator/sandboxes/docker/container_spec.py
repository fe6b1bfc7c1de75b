"""What a container is made of: everything we decide, and the little that is taken from an image.

An image's configuration is hostile input: VOLUME gives writable host disk in spite of a read-only root, HEALTHCHECK
runs code beside the player, ENV has reached hooks on the host, WORKDIR has led out of the container (CVE-2024-21626).
So entrypoint, command, working directory and a filtered environment are taken from it; the rest is overridden, or
refused by name. No I/O here: the functions are pure, and tests read what they return.
"""

import re
from dataclasses import dataclass
from typing import Any

from orchestrator.domain import environment
from orchestrator.domain.images import SPARRING_LABELS, ImageConfig
from orchestrator.domain.policy import SandboxPolicy, Seccomp, User
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError
from orchestrator.sandboxes.base import SandboxSpec
from orchestrator.sandboxes.docker import seccomp
from orchestrator.sandboxes.docker.constant_files import Sources

RUN_LABEL, JOB_LABEL, OWNER_LABEL = SPARRING_LABELS
HOME = "/tmp"  # noqa: S108  the sandbox's own, a tmpfs of a known size
FIRST_UID = 20_000
TMP_INODES = 16_384
MAX_PENDING_SIGNALS = 4_096
MEMLOCK_BYTES = 64 * 1024
_GPU = re.compile(r"(GPU|MIG)-[0-9a-fA-F-]{8,64}")


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What the engine's machine allows: processors, open files, and how its control groups are made, and the runtimes.

    `cgroupfs`: the engine makes them itself, so that it takes a parent by its path (else systemd makes them). `masks`
    are the paths below /proc and /sys that a player does not see on this kernel (see `_masks`), and `constants` what it
    sees instead of some of them (see `_constants`).
    """

    cpus: int
    files: int
    cgroup1: bool
    cgroupfs: bool = False
    runtimes: frozenset[str] = frozenset({"runc"})
    masks: tuple[str, ...] = ()
    constants: Sources = ()

    @property
    def hidden(self) -> tuple[str, ...]:
        """The paths that are masked: a mask upon a constant would hide it."""
        return tuple(path for path in self.masks if path not in dict(self.constants))


def container_options(
    order: SandboxSpec, config: ImageConfig, uid: int, host: HostLimits, owner: str = "", parent: str | None = None
) -> dict[str, Any]:
    """Returns the engine's description of one sandbox (the body of POST /containers/create).

    Everything comes from `order.policy`; what the machine has less of bounds processors and open files, where asking
    for more is an error and changes nothing. The image's own command is used when the order names none. `parent` is
    the control group to put the sandbox's own under, as a path (see `_account`).

    Raises:
        UsageError: `order.device` is not the UUID of one GPU.
    """
    uid = uid if order.policy.user is User.UNIQUE else 0
    variables = {
        **config.environment,
        **environment.player_variables(HOME, order.limits.threads, order.device),
        "NVIDIA_VISIBLE_DEVICES": order.device or "void",
    }
    variables.setdefault("PATH", environment.DEFAULT_PATH)
    return {
        "Image": order.image.digest,
        "Entrypoint": list(order.image.command or config.command),
        "Cmd": [],
        "WorkingDir": config.folder,
        # The engine adds the image's own variables to these; a name without a value unsets one.
        "Env": [
            *(f"{name}={value}" for name, value in variables.items()),
            *(name for name in config.dropped if name not in variables),
        ],
        "User": f"{uid}:{uid}",
        "Hostname": "sandbox",
        "Domainname": "",
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": True,
        "StdinOnce": True,
        "Tty": False,
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {RUN_LABEL: order.run, JOB_LABEL: order.job, OWNER_LABEL: owner},
        "HostConfig": _host_config(order, uid, host) | ({} if parent is None else {"CgroupParent": parent}),
    }


def _host_config(order: SandboxSpec, uid: int, host: HostLimits) -> dict[str, Any]:
    policy, limits = order.policy, order.limits
    made: dict[str, Any] = {
        "Runtime": policy.runtime.value,
        "NetworkMode": policy.network.value,
        "ReadonlyRootfs": policy.read_only_root,
        "Tmpfs": {HOME: _tmpfs_options(policy, uid)},
        "IpcMode": "private" if policy.private_ipc else "host",
        "ShmSize": limits.shm,
        "CgroupnsMode": "private" if policy.private_cgroup else "host",
        "Privileged": False,
        "CapDrop": ["ALL"],
        "CapAdd": list(policy.capabilities),
        "SecurityOpt": _security_options(policy),
        "Memory": limits.memory,
        "MemorySwap": limits.memory,
        "OomScoreAdj": 1000,
        "NanoCpus": int(min(limits.cpus, float(host.cpus)) * 1_000_000_000),
        "PidsLimit": limits.pids,
        "Ulimits": [
            _ulimit("nofile", min(limits.files, host.files)),
            _ulimit("core", 0),
            _ulimit("fsize", max(limits.tmp, limits.shm)),
            _ulimit("memlock", MEMLOCK_BYTES),
            _ulimit("msgqueue", 0),
            _ulimit("sigpending", MAX_PENDING_SIGNALS),
        ],
        "LogConfig": {"Type": "json-file" if policy.engine_logs else "none", "Config": {}},
        "Init": policy.init,
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,
        "DeviceRequests": _device_requests(order.device),
    }
    if policy.masked_proc and host.constants:
        made["Mounts"] = [_constant(place, source) for place, source in host.constants]
    if host.cgroup1:
        made["MemorySwappiness"] = 0
    # Read-only paths are the engine's own list, which no list of ours takes the place of.
    made |= {"MaskedPaths": list(host.hidden)} if policy.masked_proc else {"MaskedPaths": [], "ReadonlyPaths": []}
    return made


def _constant(place: str, source: str) -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": place, "ReadOnly": True}


def _tmpfs_options(policy: SandboxPolicy, uid: int) -> str:
    execution = "noexec" if policy.noexec_tmp else "exec"
    return f"rw,{execution},nosuid,nodev,size={policy.limits.tmp},nr_inodes={TMP_INODES},mode=0700,uid={uid},gid={uid}"


def _security_options(policy: SandboxPolicy) -> list[str]:
    options = [f"no-new-privileges:{str(policy.no_new_privileges).lower()}"]
    if policy.seccomp is not Seccomp.ENGINE:
        options.append(f"seccomp={seccomp.seccomp_profile() if policy.seccomp is Seccomp.PLAYER else 'unconfined'}")
    return options


def _ulimit(name: str, value: int) -> dict[str, Any]:
    return {"Name": name, "Soft": value, "Hard": value}


def _device_requests(device: str | None) -> list[dict[str, Any]]:
    if device is None:
        return []
    if not _GPU.fullmatch(device):
        raise UsageError(f"{printable(device)!r} is not the UUID of one GPU; `nvidia-smi -L` lists them")
    return [{"Driver": "", "Count": 0, "DeviceIDs": [device], "Capabilities": [["gpu"]], "Options": {}}]
