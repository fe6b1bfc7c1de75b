"""`cluster:` in a contest file: how its rounds are played on a Kubernetes cluster."""

from typing import Annotated, Literal

from pydantic import BaseModel, ByteSize, ConfigDict, Field, field_validator

from orchestrator.domain.text import printable
from orchestrator.oci.image_names import NO_REGISTRY
from orchestrator.oci.references import InvalidReferenceError, parse_reference

MOST_JOBS = 5000
"""Most Jobs of one round at a time."""

ObjectName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$", description="lower case, digits, - and .")
]
"""The name of an object of Kubernetes (a DNS subdomain)."""
LabelValue = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
        description="at most 63 letters, digits, -, _ and .",
    ),
]
"""A label's value."""
VolumePath = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?$",
        description="a path without / at its beginning or end",
    ),
]
"""A path below a volume's root, without dots at the beginning of a part."""
FIRST_PLAYER_UID, PLAYER_UIDS = 20_000, 40_000
"""Players' user ids: below 65,536, because a user namespace of a pod has no more."""


class Toleration(BaseModel):
    """A taint that the pods bear; the keys are those of Kubernetes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)  # by name, as a ledger has it

    key: str | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Annotated[int | None, Field(alias="tolerationSeconds")] = None


class ClusterSettings(BaseModel):
    """Where Jobs are made, what they run on, and how many at a time; see docs/run-on-kubernetes.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    namespace: Annotated[
        str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", description="lower case, digits and -")
    ] = "sparring"
    """The namespace of all objects: a volume belongs to one namespace."""
    claim: ObjectName = "sparring-work"
    """The claim of the volume that drivers read and write, and no player; the controller mounts it under DIR."""
    folder: VolumePath = ""
    """The folder on that volume with this contest's `blobs` and `cluster`; empty for its root."""
    user: Annotated[int, Field(ge=1, lt=65_536)] = 10_002
    """The id of the user who writes there, the same for the controller and the drivers."""
    runner: str = "sparring/runner:cpu"
    """The image of the driver and of the init container."""
    registry: str = ""
    """The prefix of image names without a registry; `none` if there is no registry."""
    insecure_registries: list[str] = []
    """Registries, as host[:port], that are asked without TLS."""
    platform: Annotated[
        str, Field(pattern=r"^[a-z0-9]+/[a-z0-9]+(/[a-z0-9]+)?$", description="a platform such as linux/amd64")
    ] = "linux/amd64"
    """The platform whose image is played if an image has several."""
    max_jobs: Annotated[int, Field(ge=1, le=MOST_JOBS)] = 20
    """The most Jobs at a time."""
    runtime_class: ObjectName | None = None
    """The RuntimeClass; if it is not given, none for `runtime: runc`, gvisor for runsc, kata for kata."""
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    replay_nodes: Literal["any", "others-first", "others"] = "others-first"
    """Where a submission's replays run: on any node, preferably on nodes where it has not played, or only on these."""
    priority_class: ObjectName | None = None
    pull_secrets: list[ObjectName] = []
    queue: LabelValue | None = None
    """The LocalQueue of Kueue that decides when a Job may start; no queue if it is not given."""
    gpu: str = "nvidia.com/gpu"
    """The resource name of a GPU."""
    driver_cpus: Annotated[float, Field(gt=0, le=64)] = 1.0
    """The processors of the driver's container: its start takes most of a second of one core, in every job."""
    driver_memory: Annotated[ByteSize, Field(ge=64 * 1024**2)] = ByteSize(1024**3)
    """The memory of the driver's container, which holds the pictures of its job."""
    pending_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3600.0
    """How long a pod may wait for a node or for its images before that attempt is given up."""
    seccomp: str | None = None
    """A seccomp profile on the nodes, by its path below the kubelet's; the runtime's own if it is not given."""
    user_namespaces: bool = False
    """Whether a pod's user ids are mapped to others on the node (`hostUsers: false`)."""

    @field_validator("user")
    @classmethod
    def _is_not_a_player_uid(cls, user: int) -> int:
        if FIRST_PLAYER_UID <= user < FIRST_PLAYER_UID + PLAYER_UIDS:
            last = FIRST_PLAYER_UID + PLAYER_UIDS - 1
            raise ValueError(f"{FIRST_PLAYER_UID} to {last} are players; give a user below or above")
        return user

    @field_validator("registry")
    @classmethod
    def _is_a_registry(cls, registry: str) -> str:
        if registry not in {"", NO_REGISTRY}:
            try:
                parse_reference("entry", registry.rstrip("/"))
            except InvalidReferenceError:
                shown = printable(registry, 120)
                raise ValueError(f"'{shown}' is not a registry; write it like registry.example.org/teams") from None
        return registry
