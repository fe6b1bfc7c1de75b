"""One attempt's pod: a sandbox's policy, line by line, as Kubernetes can be told it.

Three containers: `prepare` makes what the other two share, `player` is the submission, `driver` asks it. Pure: the
functions return plain dictionaries, and tests hold them against the schemas of Kubernetes and Pod Security. Of a
submission nothing gets in here but its image's digest, the words of its command and names of variables.

What a pod cannot be told is in docs/sandbox.md, "The policy as a pod".
"""

from typing import Any

from orchestrator.domain.environment import player_variables
from orchestrator.domain.ids import digest
from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError
from orchestrator.executors.kubernetes.command_escaping import escape_command, is_shell_variable
from orchestrator.executors.kubernetes.labels import Attempt
from orchestrator.executors.kubernetes.settings import FIRST_PLAYER_UID, PLAYER_UIDS, ClusterSettings
from orchestrator.oci.references import InvalidReferenceError, parse_reference
from orchestrator.sandboxes.base import Image

HOSTNAME = "sandbox"
HOME = "/tmp"  # noqa: S108  the player's own, a volume in memory
IO_DIR = "/io"
FIFO_DIR = f"{IO_DIR}/fifos"
"""What `prepare` makes. Not in the volume's root: a kubelet mounts that with mode 1777, and where the node's
fs.protected_fifos is set, as systemd sets it, no shell may open another user's FIFO in such a folder for writing."""
IO_SIZE = "8Mi"
"""Room for five FIFOs and a static shell of 2 MiB."""
_PAGE_BYTES = 64 * 1024
_DISK_BYTES = 16 * 1024**2
"""Disk that a container may use: what the kubelet itself keeps of it. A player can write to none."""
PLAYER_MESSAGE_PATH = f"{FIFO_DIR}/closed/message"
"""Where the kubelet mounts the player's termination message: a file on the node's disk that every user may write to,
and whose bytes get into the pod's status. No player reaches it here: `prepare` makes a folder around it that is closed
to the player's user. The file has to exist before, since the volume is mounted read-only."""
_LOG_BYTES = 128 * 1024**2
"""Disk for what the driver logs: more than the kubelet keeps of it."""
_GVISOR_MOUNT = "dev.gvisor.spec.mount.io."
_RUNTIME_CLASSES = {Runtime.RUNC: None, Runtime.RUNSC: "gvisor", Runtime.KATA: "kata"}
_RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def pod_template(attempt: Attempt, player: Image, policy: SandboxPolicy, settings: ClusterSettings) -> dict[str, Any]:
    """Returns what the Job makes its pod from.

    Raises:
        UsageError: the policy is weaker than for strangers, or the image is not named by its digest.
        Rejected: the player's command cannot be given to a program.
    """
    if not _is_pinned(player.reference):
        raise UsageError(
            f"{printable(player.name)} has no reference by its digest, which a cluster needs; admit it first"
        )
    if weaker := policy.weaknesses():
        raise UsageError(f"a pod is never weaker than for strangers, not in {', '.join(weaker)}; use --backend docker")
    return {
        "metadata": {"labels": attempt.labels(), "annotations": attempt.annotations() | _gvisor_annotations(policy)},
        "spec": {
            **_scheduling(policy, settings),
            **_elsewhere(attempt, settings),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostname": HOSTNAME,
            # No name resolves: the only server is the pod's own loopback, where nothing listens.
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["127.0.0.1"]},
            "hostNetwork": False,
            "hostPID": False,
            "hostIPC": False,
            "shareProcessNamespace": False,
            # No fsGroup: the player would be in that group too.
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": settings.user,
                "runAsGroup": settings.user,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": _volumes(policy, settings),
            "initContainers": [_prepare_container(policy, settings)],
            # The player first: images are pulled in this order, and a driver need not wait for the larger one.
            "containers": [_player_container(attempt, player, policy, settings), _driver_container(attempt, settings)],
        },
    }


def _is_pinned(reference: str) -> bool:
    """Whether a node can pull only one image by this name. A received image's own digest is of its configuration."""
    try:
        return bool(parse_reference(reference).digest)
    except InvalidReferenceError:
        return False


def player_uid(attempt: Attempt) -> int:
    """Returns the player's user: the attempt's own, so that no other player of a round is likely to have it."""
    return FIRST_PLAYER_UID + int(digest(attempt.name).removeprefix("sha256:"), 16) % PLAYER_UIDS


def qualified_image(image: str, registry: str) -> str:
    """Returns an image of ours as nodes pull it: in the registry of the settings where its name has none.

    Raises:
        UsageError: it is no image's name.
    """
    try:
        name = parse_reference(image, "" if registry == "none" else registry.rstrip("/"))
    except InvalidReferenceError as error:
        raise UsageError(f"cluster.runner: {error}; write it like sparring/runner:cpu") from error
    tag = f":{name.tag}" if name.tag else ""
    return f"{name.host}/{name.repository}{tag}{f'@{name.digest}' if name.digest else ''}"


def _scheduling(policy: SandboxPolicy, settings: ClusterSettings) -> dict[str, Any]:
    """Returns where the pod may run, and under what."""
    system, architecture, *_ = settings.platform.split("/")
    fields = {
        "runtimeClassName": settings.runtime_class or _RUNTIME_CLASSES[policy.runtime],
        "nodeSelector": {"kubernetes.io/os": system, "kubernetes.io/arch": architecture} | settings.node_selector,
        "tolerations": [each.model_dump(by_alias=True, exclude_none=True) for each in settings.tolerations],
        "priorityClassName": settings.priority_class,
        "imagePullSecrets": [{"name": name} for name in settings.pull_secrets],
        "hostUsers": False if settings.user_namespaces else None,
    }
    return {name: value for name, value in fields.items() if value not in (None, [])}


def _elsewhere(attempt: Attempt, settings: ClusterSettings) -> dict[str, Any]:
    """Returns what keeps a pod off nodes. By their names: a label of a node may say another one, or be missing."""
    if not attempt.avoided or settings.replay_nodes == "any":
        return {}
    term = {
        "matchFields": [
            {"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in sorted(attempt.avoided)
        ]
    }
    if settings.replay_nodes == "others":
        rule: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    else:
        rule = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    return {"affinity": {"nodeAffinity": rule}}


def _gvisor_annotations(policy: SandboxPolicy) -> dict[str, str]:
    """Returns what gVisor has to be told: else each container of a pod has FIFOs of its own by the same names."""
    if policy.runtime is not Runtime.RUNSC:
        return {}
    return {f"{_GVISOR_MOUNT}share": "pod", f"{_GVISOR_MOUNT}type": "tmpfs", f"{_GVISOR_MOUNT}options": "rw"}


def _volumes(policy: SandboxPolicy, settings: ClusterSettings) -> list[dict[str, Any]]:
    return [
        _memory_volume("io", IO_SIZE),
        _memory_volume("tmp", _whole_pages(policy.limits.tmp)),
        _memory_volume("shm", _whole_pages(policy.limits.shm)),
        _memory_volume("mqueue", "64Ki"),
        _memory_volume("desk", "16Mi"),
        {"name": "work", "persistentVolumeClaim": {"claimName": settings.claim}},
    ]


def _memory_volume(name: str, size: str) -> dict[str, Any]:
    """Returns a volume in memory, which counts as the memory of whoever writes to it."""
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def _whole_pages(size: int) -> str:
    """Returns a size as whole pages. One that ends within a page could be passed, and the kubelet evicts for that."""
    return str(-(-size // _PAGE_BYTES) * _PAGE_BYTES)


def _prepare_container(policy: SandboxPolicy, settings: ClusterSettings) -> dict[str, Any]:
    # gVisor runs no program that it may not read; of its processes none may look into one it descends from (Yama).
    mode = ["555"] if policy.runtime is Runtime.RUNSC else []
    return {
        "name": "prepare",
        "image": qualified_image(settings.runner, settings.registry),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/opt/runner/sh", "/opt/runner/prepare", FIFO_DIR, *mode],
        "resources": _resources(0.1, 64 * 1024**2, _DISK_BYTES),
        "securityContext": dict(_RESTRICTED),
        "volumeMounts": [{"name": "io", "mountPath": IO_DIR}],
    }


def _player_container(
    attempt: Attempt, player: Image, policy: SandboxPolicy, settings: ClusterSettings
) -> dict[str, Any]:
    limits, uid = policy.limits, player_uid(attempt)
    largest = max(limits.tmp, limits.shm)
    numbers = (limits.files, largest, limits.pids)
    gpus = {settings.gpu: str(limits.gpus)} if limits.gpus else {}
    profile: dict[str, Any] = {"type": "RuntimeDefault"}
    if settings.seccomp is not None:
        profile = {"type": "Localhost", "localhostProfile": settings.seccomp}
    return {
        "name": "player",
        "image": player.reference,
        "imagePullPolicy": "IfNotPresent",
        "command": [f"{FIFO_DIR}/sh", f"{FIFO_DIR}/play", *map(str, numbers), *escape_command(player.command)],
        "env": [{"name": name, "value": value} for name, value in player_environment(player, policy).items()],
        "terminationMessagePath": PLAYER_MESSAGE_PATH,
        "resources": _resources(limits.cpus, limits.memory, _DISK_BYTES, gpus),
        "securityContext": {
            **_RESTRICTED,
            "privileged": False,
            "runAsNonRoot": True,
            "runAsUser": uid,
            "runAsGroup": uid,
            "seccompProfile": profile,
        },
        "volumeMounts": [
            {"name": "io", "mountPath": IO_DIR, "readOnly": True},
            {"name": "tmp", "mountPath": HOME},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108  its own, a volume in memory
            # In place of the runtime's mount, which can be written to and shows the driver's container the same files.
            {"name": "mqueue", "mountPath": "/dev/mqueue", "readOnly": True},
        ],
    }


def player_environment(player: Image, policy: SandboxPolicy) -> dict[str, str]:
    """Returns the variables of the player's container: those of every backend, and the image's loud ones blanked.

    A pod cannot leave a variable of its image out. A blank one does nothing to the hooks of a runtime, and the shell
    that starts the player takes it away. Where there is a GPU, which one is said by the node.
    """
    gpu = policy.limits.gpus > 0
    blank = {name: "" for name in player.unset_variables if is_shell_variable(name)}
    if gpu:
        blank.pop("NVIDIA_VISIBLE_DEVICES", None)
    devices = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"} if gpu else {"NVIDIA_VISIBLE_DEVICES": "void"}
    return {
        **blank,
        **player_variables(HOME, policy.limits.threads, "0" if gpu else None),
        **devices,
        "HOSTNAME": HOSTNAME,
    }


def _driver_container(attempt: Attempt, settings: ClusterSettings) -> dict[str, Any]:
    above = f"{settings.folder}/" if settings.folder else ""
    return {
        "name": "driver",
        "image": qualified_image(settings.runner, settings.registry),
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "orchestrator"],
        "args": ["pod", "play", "--job", "/work/job", "--blobs", "/work/blobs", "--io", FIFO_DIR],
        # Why it ended without a result is shown with the attempt.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": [
            {"name": "HOME", "value": HOME},
            # By this the attempt's folder tells which pod took it.
            {"name": "HOSTNAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "resources": _resources(settings.driver_cpus, int(settings.driver_memory), _LOG_BYTES),
        "securityContext": dict(_RESTRICTED),
        "volumeMounts": [
            {"name": "io", "mountPath": IO_DIR},
            {"name": "desk", "mountPath": HOME},
            {"name": "work", "mountPath": "/work/blobs", "subPath": f"{above}blobs"},
            {"name": "work", "mountPath": "/work/job", "subPath": f"{above}cluster/{attempt.name}"},
        ],
    }


def _resources(cpus: float, memory: int, disk: int, more: dict[str, str] | None = None) -> dict[str, Any]:
    """Returns what a container asks for and may have: the same, so that the pod is Guaranteed."""
    amounts = {"cpu": f"{max(1, round(cpus * 1000))}m", "memory": str(memory), "ephemeral-storage": str(disk)}
    amounts |= more or {}
    return {"requests": amounts, "limits": dict(amounts)}
