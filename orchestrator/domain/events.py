"""Everything that can happen, as the ledger keeps it.

An event is a pydantic model because it is read back from disk, perhaps years later: unknown kinds and unknown keys are
errors, never ignored. Arrays are not in events; they are blobs, named by their SHA-256.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from orchestrator.domain.endings import ExitReason
from orchestrator.domain.findings import FindingKind
from orchestrator.domain.plan import Stage
from orchestrator.domain.submissions import Side

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Seconds = Annotated[float, Field(ge=0)]


class _Event(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskRecord(_Event):
    """The task, with its pictures and labels as blobs."""

    name: str
    classes: list[str]
    shape: list[int]
    count: int
    digest: Digest
    norm: str
    epsilon: str
    pixels: Digest
    labels: Digest


class RoundOpened(_Event):
    """The first event of a round. `contest` is the whole resolved contest file; `commitment` the hash of its secret."""

    kind: Literal["round_opened"] = "round_opened"
    round: str
    contest: dict[str, Any]
    task: TaskRecord
    backend: str
    commitment: Digest
    software: str
    protocol: int


class SubmissionAdmitted(_Event):
    """A submission plays in this round."""

    kind: Literal["submission_admitted"] = "submission_admitted"
    id: str
    name: str
    team: str
    side: Side
    baseline: bool
    digest: str
    image: str
    submitted: str


class JobRecord(_Event):
    """One job of the plan."""

    id: str
    stage: Stage
    submission: str


class PlanMade(_Event):
    """What has to be played. A later plan replaces an earlier one; finished jobs keep their ids."""

    kind: Literal["plan_made"] = "plan_made"
    jobs: list[JobRecord]


class CellRecord(_Event):
    """A defence against an attack, or against clean pictures (null)."""

    defence: str
    attack: str | None


class FaultRecord(_Event):
    """A submission's fault: what became of `pictures` pictures of one step, in the words of the error tree."""

    code: str
    reason: str = ""
    message: str
    pictures: int = Field(ge=0)


class SandboxRecord(_Event):
    """How one sandbox of a job ended, why, and what it used.

    `ending` is what the backend saw, `reason` also what the arena ended it for. `code` is the exit status where the
    player ended by itself. `kills` counts the kernel's kills at the memory limit. `sampled` says that processor time
    and peaks were looked at now and then while it ran, not read from the kernel's counters after its end. Bytes are
    what went through our hands. `stderr` is the blob with its last bytes. What has a default was not recorded by 0.1.0.
    """

    ending: str
    reason: ExitReason | None = None
    code: int | None
    wall_seconds: Seconds
    cpu_seconds: float | None
    peak_bytes: int | None
    peak_pids: int | None = None
    kills: int = Field(default=0, ge=0)
    sampled: bool = True
    stdin_bytes: int | None = Field(default=None, ge=0)
    stdout_bytes: int | None = Field(default=None, ge=0)
    stderr_bytes: int | None = Field(default=None, ge=0)
    stderr: Digest | None


class StepFinished(_Event):
    """A step of a job was played. `seconds` is the player's work alone (rule A15).

    `blobs` are its arrays, one row per picture. PERTURB: `index` (which pictures), `candidates` (what is played),
    `forfeits` (see domain.rulings.Forfeit), `violations` and `distances` (steps of 1/255, NaN where nothing came).
    CLASSIFY: `rows`, int32 [k, 3]: position in `cells`, picture, answer. REPLAY: `rows`, int32 [k, 5]: position in
    `cells`, picture, the answers played, replayed and repeated (NOT_ASKED where it was not asked again).
    """

    kind: Literal["step_finished"] = "step_finished"
    job: str
    stage: Stage
    submission: str
    step: int
    cells: list[CellRecord]
    blobs: dict[str, Digest]
    faults: list[FaultRecord]
    seconds: Seconds


class JobFinished(_Event):
    """Every step of a job was played."""

    kind: Literal["job_finished"] = "job_finished"
    job: str
    stage: Stage
    submission: str
    device: str | None
    seconds: Seconds
    sandboxes: list[SandboxRecord]


class AttemptFailed(_Event):
    """An infrastructure fault ended an attempt at a job; what was finished stays, the rest is tried again (X1)."""

    kind: Literal["attempt_failed"] = "attempt_failed"
    job: str
    attempt: int
    code: str
    message: str


class BackendReturned(_Event):
    """After a failed attempt the backend was away; it was waited for, for so many seconds, and the job goes on."""

    kind: Literal["backend_returned"] = "backend_returned"
    job: str
    seconds: Seconds


class PlayClosed(_Event):
    """Everything is classified. Replays are chosen from the round's secret and `head`, the chain's hash before this."""

    kind: Literal["play_closed"] = "play_closed"
    head: Digest


class DisagreementRecord(_Event):
    """One picture with different decisions."""

    attack: str | None
    picture: int
    played: int
    replayed: int
    repeated: int | None


class FindingMade(_Event):
    """A rule was broken, with the evidence."""

    kind: Literal["finding_made"] = "finding_made"
    id: str
    submission: str
    finding: FindingKind
    rules: list[str]
    summary: str
    compared: int
    disagreements: list[DisagreementRecord]


class RoundClosed(_Event):
    """Nothing is left to play."""

    kind: Literal["round_closed"] = "round_closed"


Event = (
    RoundOpened
    | SubmissionAdmitted
    | PlanMade
    | StepFinished
    | JobFinished
    | AttemptFailed
    | BackendReturned
    | PlayClosed
    | FindingMade
    | RoundClosed
)

_event: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])


def read_event(body: dict[str, Any]) -> Event:
    """Returns the event that a ledger entry holds. Raises pydantic.ValidationError when it is not one."""
    return _event.validate_python(body)
