"""The request that creates a container.

An image's configuration is hostile input: VOLUME gives writable host disk in spite of a read-only root, HEALTHCHECK
runs code beside the player, ENV has reached hooks on the host, WORKDIR has led out of the container (CVE-2024-21626).
So a container takes only entrypoint, command, working directory and a filtered environment from its image. This module
overrides all else, or admission refuses it by name. The functions are pure; tests read what they return.
"""

import re
from typing import Any

from orchestrator.domain import environment
from orchestrator.domain.images import SPARRING_LABELS, ImageConfig
from orchestrator.domain.policy import SandboxPolicy, Seccomp, User
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError
from orchestrator.sandboxes.base import SandboxSpec
from orchestrator.sandboxes.docker import player_fifos
from orchestrator.sandboxes.linux import seccomp
from orchestrator.sandboxes.linux.host_limits import (
    HOME,
    MAX_PENDING_SIGNALS,
    MEMLOCK_BYTES,
    TMP_INODES,
    HostLimits,
)

RUN_LABEL, JOB_LABEL, OWNER_LABEL = SPARRING_LABELS
_GPU = re.compile(r"(GPU|MIG)-[0-9a-fA-F-]{8,64}")


def container_options(
    spec: SandboxSpec,
    config: ImageConfig,
    uid: int,
    host: HostLimits,
    owner: str = "",
    parent_cgroup: str | None = None,
) -> dict[str, Any]:
    """Returns the engine's description of one sandbox (the body of POST /containers/create).

    Every setting comes from `spec.policy`. Limits on processors and open files are lowered to what the machine has,
    because an engine refuses more. The image's own command is used if `spec.image` names none. `parent_cgroup` is the
    path of the parent of the sandbox's control group (see `parent_cgroup`). With `host.pipes` the player's streams are
    FIFOs, and the engine's pipes stay with its init program. With `host.hosts` the engine sets up nothing of a network,
    which would double the duration of a start: the sandbox has only the loopback that its runtime makes.

    Raises:
        UsageError: `spec.device` is not the UUID of one GPU.
    """
    uid = uid if spec.policy.user is User.UNIQUE else 0
    variables = {
        **config.environment,
        **environment.player_variables(HOME, spec.limits.threads, spec.device),
        "NVIDIA_VISIBLE_DEVICES": spec.device or "void",
    }
    variables.setdefault("PATH", environment.DEFAULT_PATH)
    launcher, attached = (player_fifos.LAUNCHER, False) if host.pipes else ((), True)
    return {
        "Image": spec.image.digest,
        "Entrypoint": [*launcher, *(spec.image.command or config.command)],
        "Cmd": [],
        "WorkingDir": config.folder,
        # The engine adds the image's own variables to these; a name without a value unsets one.
        "Env": [
            *(f"{name}={value}" for name, value in variables.items()),
            *(name for name in config.unset_variables if name not in variables),
        ],
        "User": f"{uid}:{uid}",
        "NetworkDisabled": bool(host.hosts),
        "Hostname": environment.HOST_NAME,
        "Domainname": "",
        "AttachStdin": attached,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": attached,
        "StdinOnce": attached,
        "Tty": False,
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {RUN_LABEL: spec.run, JOB_LABEL: spec.job, OWNER_LABEL: owner},
        "HostConfig": _host_config(spec, uid, host)
        | ({} if parent_cgroup is None else {"CgroupParent": parent_cgroup}),
    }


def _host_config(spec: SandboxSpec, uid: int, host: HostLimits) -> dict[str, Any]:
    policy, limits = spec.policy, spec.limits
    config: dict[str, Any] = {
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
            _ulimit("nofile", min(limits.files, host.max_open_files)),
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
        "DeviceRequests": _device_requests(spec.device),
    }
    if mounts := (*(host.constants if policy.masked_proc else ()), *host.pipes, *host.hosts):
        config["Mounts"] = [_read_only_bind(place, source) for place, source in mounts]
    if host.cgroup1:
        config["MemorySwappiness"] = 0
    # ReadonlyPaths is left out under the policy, so that the engine applies its own list.
    config |= {"MaskedPaths": list(host.hidden)} if policy.masked_proc else {"MaskedPaths": [], "ReadonlyPaths": []}
    return config


def _read_only_bind(place: str, source: str) -> dict[str, Any]:
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
