"""What a container is made of: everything we decide, and the little that is taken from an image.

An image's configuration is hostile input: VOLUME gives writable host disk in spite of a read-only root, HEALTHCHECK
runs code beside the player, ENV has reached hooks on the host, WORKDIR has led out of the container (CVE-2024-21626).
So entrypoint, command, working directory and a filtered environment are taken from it; the rest is overridden, or
refused by name. No I/O here: the functions are pure, and tests read what they return.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from orchestrator.backends import _environment, _seccomp
from orchestrator.backends.base import Order
from orchestrator.domain.policy import SandboxPolicy, Seccomp, User
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, UsageError

RUN, JOB, OWNER = "sparring.run", "sparring.job", "sparring.owner"
HOME = "/tmp"  # noqa: S108  the sandbox's own, a tmpfs of a known size
FIRST_UID = 20_000
INODES = 16_384
SIGNALS = 4_096
MEMLOCK = 64 * 1024
LARGEST_IMAGE = 20 * 1024**3
"""Bytes of an image: PyTorch with CUDA has 6 to 10 GiB."""
_MOST_WORDS = 256
_MOST_BYTES = 64 * 1024
_GPU = re.compile(r"(GPU|MIG)-[0-9a-fA-F-]{8,64}")
_REFERENCE = re.compile(r"sha256:[0-9a-f]{64}|[A-Za-z0-9][A-Za-z0-9_-]*(?:[./:@][A-Za-z0-9_-]+)*")
_FORBIDDEN_FOLDERS = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What is taken from an image: how to start it, where, and its filtered environment."""

    command: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]
    dropped: tuple[str, ...] = ()
    """The names of its variables that are unset."""


@dataclass(frozen=True, slots=True)
class Host:
    """What the engine's machine allows: processors, open files, and how its control groups are made, and the runtimes.

    `cgroupfs`: the engine makes them itself, so that it takes a parent by its path (else systemd makes them).
    """

    cpus: int
    files: int
    cgroup1: bool
    cgroupfs: bool = False
    runtimes: frozenset[str] = frozenset({"runc"})


def is_reference(text: str) -> bool:
    """Whether this can be an image's name or id; nothing else goes into a request to the engine."""
    return len(text) <= 255 and _REFERENCE.fullmatch(text) is not None  # noqa: PLR2004  the engine's own limit


def read_config(
    image: Mapping[str, Any], architecture: str = "", largest: int | None = None
) -> tuple[ImageConfig, list[Problem]]:
    """Takes what `docker image inspect` says; returns what is used of it, and everything that is refused.

    `architecture` is the engine's, as images spell it; empty if it should not be compared. `largest` is how many bytes
    it may have, `LARGEST_IMAGE` if nothing else is said.
    """
    config = image.get("Config") or {}
    command = _words(config.get("Entrypoint")) + _words(config.get("Cmd"))
    folder = config.get("WorkingDir") or "/"
    variables = _words(config.get("Env"))
    problems = [
        *_refused(config),
        *_platform(image, architecture),
        *_startable(command, folder, variables),
        *_size(image.get("Size"), LARGEST_IMAGE if largest is None else largest),
    ]
    kept, dropped = _environment.filtered(variables), _environment.dropped(variables)
    return ImageConfig(command, folder, kept, dropped), problems


def container_options(
    order: Order, config: ImageConfig, uid: int, host: Host, owner: str = "", parent: str | None = None
) -> dict[str, Any]:
    """Returns the engine's description of one sandbox (the body of POST /containers/create).

    Everything comes from `order.policy`; what the machine has less of bounds processors and open files, where asking
    for more is an error and changes nothing. The image's own command is used when the order names none. `parent` is
    the control group to put the sandbox's own under, as a path (see `_account`).

    Raises:
        UsageError: `order.device` is not the UUID of one GPU.
    """
    uid = uid if order.policy.user is User.UNIQUE else 0
    environment = {
        **config.environment,
        **_environment.told(order, HOME),
        "NVIDIA_VISIBLE_DEVICES": order.device or "void",
    }
    environment.setdefault("PATH", _environment.PATH)
    return {
        "Image": order.image.digest,
        "Entrypoint": list(order.image.command or config.command),
        "Cmd": [],
        "WorkingDir": config.folder,
        # The engine adds the image's own variables to these; a name without a value unsets one.
        "Env": [
            *(f"{name}={value}" for name, value in environment.items()),
            *(name for name in config.dropped if name not in environment),
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
        "Labels": {RUN: order.run, JOB: order.job, OWNER: owner},
        "HostConfig": _host_config(order, uid, host) | ({} if parent is None else {"CgroupParent": parent}),
    }


def _host_config(order: Order, uid: int, host: Host) -> dict[str, Any]:
    policy, limits = order.policy, order.limits
    made: dict[str, Any] = {
        "Runtime": policy.runtime.value,
        "NetworkMode": policy.network.value,
        "ReadonlyRootfs": policy.read_only_root,
        "Tmpfs": {HOME: _tmp(policy, uid)},
        "IpcMode": "private" if policy.private_ipc else "host",
        "ShmSize": limits.shm,
        "CgroupnsMode": "private" if policy.private_cgroup else "host",
        "Privileged": False,
        "CapDrop": ["ALL"],
        "CapAdd": list(policy.capabilities),
        "SecurityOpt": _security(policy),
        "Memory": limits.memory,
        "MemorySwap": limits.memory,
        "OomScoreAdj": 1000,
        "NanoCpus": int(min(limits.cpus, float(host.cpus)) * 1_000_000_000),
        "PidsLimit": limits.pids,
        "Ulimits": [
            _ulimit("nofile", min(limits.files, host.files)),
            _ulimit("core", 0),
            _ulimit("fsize", max(limits.tmp, limits.shm)),
            _ulimit("memlock", MEMLOCK),
            _ulimit("msgqueue", 0),
            _ulimit("sigpending", SIGNALS),
        ],
        "LogConfig": {"Type": "json-file" if policy.engine_logs else "none", "Config": {}},
        "Init": policy.init,
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,
        "DeviceRequests": _devices(order.device),
    }
    if host.cgroup1:
        made["MemorySwappiness"] = 0
    if not policy.masked_proc:
        made |= {"MaskedPaths": [], "ReadonlyPaths": []}
    return made


def _tmp(policy: SandboxPolicy, uid: int) -> str:
    execution = "noexec" if policy.noexec_tmp else "exec"
    return f"rw,{execution},nosuid,nodev,size={policy.limits.tmp},nr_inodes={INODES},mode=0700,uid={uid},gid={uid}"


def _security(policy: SandboxPolicy) -> list[str]:
    options = [f"no-new-privileges:{str(policy.no_new_privileges).lower()}"]
    if policy.seccomp is not Seccomp.ENGINE:
        options.append(f"seccomp={_seccomp.profile() if policy.seccomp is Seccomp.PLAYER else 'unconfined'}")
    return options


def _ulimit(name: str, value: int) -> dict[str, Any]:
    return {"Name": name, "Soft": value, "Hard": value}


def _devices(device: str | None) -> list[dict[str, Any]]:
    if device is None:
        return []
    if not _GPU.fullmatch(device):
        raise UsageError(f"{printable(device)!r} is not the UUID of one GPU; `nvidia-smi -L` lists them")
    return [{"Driver": "", "Count": 0, "DeviceIDs": [device], "Capabilities": [["gpu"]], "Options": {}}]


def _refused(config: Mapping[str, Any]) -> list[Problem]:
    problems = []
    if config.get("Volumes"):
        names = ", ".join(printable(str(name), 60) for name in list(config["Volumes"])[:5])
        problems.append(
            Problem("VOLUME", f"gives writable disk outside the sandbox ({names})", "remove it; write to /tmp")
        )
    test = (config.get("Healthcheck") or {}).get("Test") or []
    if test and test != ["NONE"]:
        problems.append(Problem("HEALTHCHECK", "runs code beside the player", "remove it, or write HEALTHCHECK NONE"))
    if config.get("OnBuild"):
        problems.append(Problem("ONBUILD", "changes images built from this one", "remove it"))
    ours = sorted({RUN, JOB, OWNER} & set(config.get("Labels") or {}))
    if ours:
        problems.append(
            Problem("LABEL", f"{', '.join(ours)} is how the orchestrator finds its own containers", "remove it")
        )
    return problems


def _platform(image: Mapping[str, Any], architecture: str) -> list[Problem]:
    system = image.get("Os") or "linux"
    if system != "linux":
        return [Problem("platform", f"made for {printable(str(system), 40)}", "build it for linux")]
    made_for = image.get("Architecture") or ""
    if architecture and made_for and made_for != architecture:
        what = f"made for {printable(str(made_for), 40)}, this engine runs {architecture}"
        return [Problem("platform", what, f"build it with --platform linux/{architecture}")]
    return []


def _startable(command: tuple[str, ...], folder: str, variables: Sequence[str]) -> list[Problem]:
    problems = []
    if not command or not command[0]:
        problems.append(Problem("ENTRYPOINT", "neither ENTRYPOINT nor CMD", "say how to start the player"))
    if len(command) > _MOST_WORDS or sum(map(len, command)) > _MOST_BYTES:
        problems.append(
            Problem("ENTRYPOINT", f"more than {_MOST_WORDS} words or {_MOST_BYTES} characters", "shorten it")
        )
    if len(variables) > _MOST_WORDS or sum(map(len, variables)) > _MOST_BYTES:
        problems.append(Problem("ENV", f"more than {_MOST_WORDS} variables or {_MOST_BYTES} characters", "set fewer"))
    if any(
        not name or "\0" in entry or not equals for entry in variables for name, equals, _ in [entry.partition("=")]
    ):
        problems.append(Problem("ENV", "an entry that is not NAME=value", "build the image with a Dockerfile"))
    if not _plain_folder(folder):
        what = f"{printable(folder, 80)!r} is not a plain absolute path outside {', '.join(_FORBIDDEN_FOLDERS)}"
        problems.append(Problem("WORKDIR", what, "use a folder like /player"))
    return problems


def _plain_folder(folder: str) -> bool:
    path = PurePosixPath(folder)
    plain = folder.isprintable() and folder in {str(path), f"{path}/"} and ".." not in path.parts
    inside = any(path.is_relative_to(forbidden) for forbidden in _FORBIDDEN_FOLDERS)
    return path.is_absolute() and plain and not inside and not folder.startswith("//")


def _size(size: Any, largest: int) -> list[Problem]:
    if not isinstance(size, int) or size <= largest:
        return []
    remedy = "leave out what playing does not need; each machine that plays keeps it whole"
    return [Problem("size", f"{size} bytes in its layers, at most {largest}", remedy)]


def _words(value: Any) -> tuple[str, ...]:
    """The engine gives lists of strings or null; what else an image claims is taken as nothing."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        return ()
    return tuple(value)
