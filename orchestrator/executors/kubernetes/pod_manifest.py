"""The pod of one attempt: a sandbox's policy, line by line, as far as Kubernetes can express it.

A pod has three containers: `prepare` makes the files that the other two share, `player` runs the submission, `driver`
asks it. A query job has two players: `attack` is the submission that queries. It has its own `prepare-attack`, volumes
and user, so that it shares files with the driver only. All functions are pure: they return plain dictionaries, which
tests validate against the schemas of Kubernetes and Pod Security. From a submission they take only its image's digest,
the words of its command and names of variables.

docs/sandbox.md, "The policy as a pod", lists what a pod cannot express.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.environment import HOST_NAME, player_variables
from orchestrator.domain.ids import digest
from orchestrator.domain.policy import Runtime, SandboxPolicy
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError
from orchestrator.executors.kubernetes.command_escaping import escape_command, is_shell_variable
from orchestrator.executors.kubernetes.labels import Attempt
from orchestrator.executors.kubernetes.settings import FIRST_PLAYER_UID, PLAYER_UIDS, ClusterSettings
from orchestrator.oci.references import InvalidReferenceError, parse_reference
from orchestrator.sandboxes.base import Image

HOME = "/tmp"  # noqa: S108  the player's own, a volume in memory
IO_DIR = "/io"
FIFO_DIR = f"{IO_DIR}/fifos"
"""The folder that `prepare` makes. It is not the volume's root, which a kubelet mounts with mode 1777: if the node's
fs.protected_fifos is set, as systemd sets it, no shell may open another user's FIFO in such a folder for writing."""
ATTACK_IO_DIR = "/attack-io"
ATTACK_FIFO_DIR = f"{ATTACK_IO_DIR}/fifos"
"""The folder that the driver shares with the attack, as the driver sees it; the attack sees it as `FIFO_DIR`."""
PLAYER, ATTACK, DRIVER = "player", "attack", "driver"
"""The names of the containers of the job's submission, of the attack that queries it, and of the driver."""
IO_SIZE = "8Mi"
"""Room for five FIFOs and a static shell of 2 MiB."""
_PAGE_BYTES = 64 * 1024
_DISK_BYTES = 16 * 1024**2
"""Disk that a container may use, for what the kubelet itself stores of it. A player cannot write to any disk."""
PLAYER_MESSAGE_PATH = f"{FIFO_DIR}/closed/message"
"""Where the kubelet mounts the player's termination message: a file on the node's disk that every user may write to,
and whose bytes get into the pod's status. No player can open it here: `prepare` puts it into a folder that is closed to
the player's user. The file has to exist before, because the volume is mounted read-only."""
_LOG_BYTES = 128 * 1024**2
"""Disk for the driver's logs: more than the kubelet keeps of them."""
_GVISOR_MOUNT = "dev.gvisor.spec.mount"
_RUNTIME_CLASSES = {Runtime.RUNC: None, Runtime.RUNSC: "gvisor", Runtime.KATA: "kata"}
_UNDISTURBED = {"karpenter.sh/do-not-disrupt": "true"}
"""Karpenter, which EKS runs too, moves no such pod to save nodes; each time, the step in progress would be lost."""
_RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


@dataclass(frozen=True, slots=True)
class _Player:
    """A player of the pod: its container, its image, its user, and where the driver mounts the volume of its FIFOs."""

    container: str
    image: Image
    user: int
    io_dir: str

    @property
    def suffix(self) -> str:
        """The suffix of the names of a second player's own objects; empty for the first."""
        return "" if self.container == PLAYER else f"-{self.container}"

    def volume(self, name: str) -> str:
        """Returns the name of one of the player's own volumes."""
        return name if self.container == PLAYER else f"{self.container}-{name}"


def pod_template(
    attempt: Attempt, player: Image, policy: SandboxPolicy, settings: ClusterSettings, attack: Image | None = None
) -> dict[str, Any]:
    """Returns the template of a Job's pod; `attack` is the image of the attack that queries the player, if any.

    Raises:
        UsageError: the policy is weaker than for strangers, or an image is not named by its digest.
        Rejected: a player's command cannot be passed to a program.
    """
    players = [_Player(PLAYER, player, player_uid(attempt), IO_DIR)]
    if attack is not None:
        players.append(_Player(ATTACK, attack, attack_uid(attempt), ATTACK_IO_DIR))
    for each in players:
        if not _is_pinned(each.image.reference):
            name = printable(each.image.name)
            raise UsageError(f"{name} has no reference by its digest, which a cluster needs; admit it first")
    if weaker := policy.weaknesses():
        raise UsageError(f"a pod is never weaker than for strangers, not in {', '.join(weaker)}; use --backend docker")
    return {
        "metadata": {
            "labels": attempt.labels(),
            "annotations": attempt.annotations() | _UNDISTURBED | _gvisor_annotations(players, policy),
        },
        "spec": {
            **_scheduling(policy, settings),
            **_elsewhere(attempt, settings),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostname": HOST_NAME,
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
            "volumes": _volumes(players, policy, settings),
            "initContainers": [_prepare_container(each, policy, settings) for each in players],
            # Players first: images are pulled in this order, and a driver need not wait for the larger ones.
            "containers": [
                *(_player_container(each, policy, settings) for each in players),
                _driver_container(attempt, players, settings),
            ],
        },
    }


def _is_pinned(reference: str) -> bool:
    """Returns whether a node can pull only one image by this name. A received image has its configuration's digest."""
    try:
        return bool(parse_reference(reference).digest)
    except InvalidReferenceError:
        return False


def player_uid(attempt: Attempt) -> int:
    """Returns the player's user id, drawn from the attempt's name: another player of the round hardly ever has it."""
    return FIRST_PLAYER_UID + int(digest(attempt.name).removeprefix("sha256:"), 16) % PLAYER_UIDS


def attack_uid(attempt: Attempt) -> int:
    """Returns the user id of the attack that queries: in the players' range, and never that of its pod's player."""
    distance = 1 + int(digest(f"{attempt.name} {ATTACK}").removeprefix("sha256:"), 16) % (PLAYER_UIDS - 1)
    return FIRST_PLAYER_UID + (player_uid(attempt) - FIRST_PLAYER_UID + distance) % PLAYER_UIDS


def qualified_image(image: str, registry: str) -> str:
    """Returns the name by which nodes pull one of our images: with the settings' registry if it names none.

    Raises:
        UsageError: it is not the name of an image.
    """
    try:
        name = parse_reference(image, "" if registry == "none" else registry.rstrip("/"))
    except InvalidReferenceError as error:
        raise UsageError(f"cluster.runner: {error}; write it like sparring/runner:cpu") from error
    tag = f":{name.tag}" if name.tag else ""
    return f"{name.host}/{name.repository}{tag}{f'@{name.digest}' if name.digest else ''}"


def _scheduling(policy: SandboxPolicy, settings: ClusterSettings) -> dict[str, Any]:
    """Returns the fields that decide where the pod may run, and with which runtime, priority and pull secrets."""
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
    """Returns the affinity that keeps a pod off nodes.

    A node that has just refused a pod or a player may refuse all of them, so another node is preferred.
    """
    avoided = frozenset[str]() if settings.replay_nodes == "any" else attempt.avoided
    rule: dict[str, Any] = {}
    if avoided and settings.replay_nodes == "others":
        rule["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [_not_on(avoided)]}
        avoided = frozenset()
    preferences = [nodes for nodes in (avoided, frozenset({attempt.refused_by} - {""})) if nodes]
    if preferences:
        rule["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": 100, "preference": _not_on(nodes)} for nodes in preferences
        ]
    return {"affinity": {"nodeAffinity": rule}} if rule else {}


def _not_on(nodes: Iterable[str]) -> dict[str, Any]:
    """Returns a selector of all other nodes, by their names, because a node's label may be wrong or missing."""
    return {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in sorted(nodes)]}


def _gvisor_annotations(players: Sequence[_Player], policy: SandboxPolicy) -> dict[str, str]:
    """Returns the annotations without which gVisor gives each container of a pod its own FIFOs with the same names."""
    if policy.runtime is not Runtime.RUNSC:
        return {}
    hints = {"share": "pod", "type": "tmpfs", "options": "rw"}
    return {f"{_GVISOR_MOUNT}.{player.volume('io')}.{key}": hint for player in players for key, hint in hints.items()}


def _volumes(players: Sequence[_Player], policy: SandboxPolicy, settings: ClusterSettings) -> list[dict[str, Any]]:
    sizes = {
        "io": IO_SIZE,
        "tmp": _whole_pages(policy.limits.tmp),
        "shm": _whole_pages(policy.limits.shm),
        "mqueue": "64Ki",
    }
    return [
        *(_memory_volume(player.volume(name), size) for player in players for name, size in sizes.items()),
        _memory_volume("driver-home", "16Mi"),
        {"name": "work", "persistentVolumeClaim": {"claimName": settings.claim}},
    ]


def _memory_volume(name: str, size: str) -> dict[str, Any]:
    """Returns a volume in memory, which counts as memory of the container that writes to it."""
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def _whole_pages(size: int) -> str:
    """Returns a size in whole pages; within a page a player could exceed it, for which the kubelet evicts the pod."""
    return str(-(-size // _PAGE_BYTES) * _PAGE_BYTES)


def _prepare_container(player: _Player, policy: SandboxPolicy, settings: ClusterSettings) -> dict[str, Any]:
    # gVisor runs no program that the user may not read; no process there may trace one that it descends from (Yama).
    mode = ["555"] if policy.runtime is Runtime.RUNSC else []
    return {
        "name": f"prepare{player.suffix}",
        "image": qualified_image(settings.runner, settings.registry),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/opt/runner/sh", "/opt/runner/prepare", FIFO_DIR, *mode],
        "resources": _resources(0.1, 64 * 1024**2, _DISK_BYTES),
        "securityContext": dict(_RESTRICTED),
        "volumeMounts": [{"name": player.volume("io"), "mountPath": IO_DIR}],
    }


def _player_container(player: _Player, policy: SandboxPolicy, settings: ClusterSettings) -> dict[str, Any]:
    limits, image = policy.limits, player.image
    largest = max(limits.tmp, limits.shm)
    numbers = (limits.files, largest, limits.pids)
    gpus = {settings.gpu: str(limits.gpus)} if limits.gpus else {}
    profile: dict[str, Any] = {"type": "RuntimeDefault"}
    if settings.seccomp is not None:
        profile = {"type": "Localhost", "localhostProfile": settings.seccomp}
    return {
        "name": player.container,
        "image": image.reference,
        "imagePullPolicy": "IfNotPresent",
        "command": [f"{FIFO_DIR}/sh", f"{FIFO_DIR}/play", *map(str, numbers), *escape_command(image.command)],
        "env": [{"name": name, "value": value} for name, value in player_environment(image, policy).items()],
        "terminationMessagePath": PLAYER_MESSAGE_PATH,
        "resources": _resources(limits.cpus, limits.memory, _DISK_BYTES, gpus),
        "securityContext": {
            **_RESTRICTED,
            "privileged": False,
            "runAsNonRoot": True,
            "runAsUser": player.user,
            "runAsGroup": player.user,
            "seccompProfile": profile,
        },
        "volumeMounts": [
            {"name": player.volume("io"), "mountPath": IO_DIR, "readOnly": True},
            {"name": player.volume("tmp"), "mountPath": HOME},
            {"name": player.volume("shm"), "mountPath": "/dev/shm"},  # noqa: S108  its own, a volume in memory
            # In place of the runtime's mount, which is writable and shares its files with the driver's container.
            {"name": player.volume("mqueue"), "mountPath": "/dev/mqueue", "readOnly": True},
        ],
    }


def player_environment(player: Image, policy: SandboxPolicy) -> dict[str, str]:
    """Returns the variables of the player's container: those of every backend, and the image's unset ones as blank.

    A pod cannot remove a variable of its image. A blank one does nothing to the hooks of a runtime, and the shell that
    starts the player removes it. If the player gets a GPU, the node decides which one.
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
    }


def _driver_container(attempt: Attempt, players: Sequence[_Player], settings: ClusterSettings) -> dict[str, Any]:
    above = f"{settings.folder}/" if settings.folder else ""
    queries = ["--attack-io", ATTACK_FIFO_DIR] if len(players) > 1 else []
    return {
        "name": DRIVER,
        "image": qualified_image(settings.runner, settings.registry),
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "orchestrator"],
        "args": ["pod", "play", "--job", "/work/job", "--blobs", "/work/blobs", "--io", FIFO_DIR, *queries],
        # The attempt's status shows the last lines if the driver ended without a result.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": [
            {"name": "HOME", "value": HOME},
            # The driver writes this into the attempt's folder, to say which pod took it.
            {"name": "HOSTNAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "resources": _resources(settings.driver_cpus, int(settings.driver_memory), _LOG_BYTES),
        "securityContext": dict(_RESTRICTED),
        "volumeMounts": [
            *({"name": player.volume("io"), "mountPath": player.io_dir} for player in players),
            {"name": "driver-home", "mountPath": HOME},
            {"name": "work", "mountPath": "/work/blobs", "subPath": f"{above}blobs"},
            {"name": "work", "mountPath": "/work/job", "subPath": f"{above}cluster/{attempt.name}"},
        ],
    }


def _resources(cpus: float, memory: int, disk: int, more: dict[str, str] | None = None) -> dict[str, Any]:
    """Returns a container's requests and limits: they are equal, so that the pod is Guaranteed."""
    amounts = {"cpu": f"{max(1, round(cpus * 1000))}m", "memory": str(memory), "ephemeral-storage": str(disk)}
    amounts |= more or {}
    return {"requests": amounts, "limits": dict(amounts)}
