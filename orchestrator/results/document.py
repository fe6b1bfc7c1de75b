"""`results.json`: everything a round decided, in one file. Its schema is schemas/results.schema.json.

Every number is folded from the ledger. Fields named `sandboxes`, `seconds`, `cpu_seconds`, `peak_bytes`, `bytes_in`,
`bytes_out` and `endings` are measured, `commitment` and `ledger` are drawn anew; all the others are the same whenever
deterministic players play the same round on the same backend.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.plan import Stage
from orchestrator.domain.submissions import Side


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskPart(_Part):
    """What was played for. `epsilon` is in steps of 1/255."""

    name: str
    classes: list[str]
    shape: list[int] = Field(description="channels, height, width")
    pictures: int
    digest: str
    norm: str
    epsilon: str


class FaultPart(_Part):
    """A submission's faults of one kind, counted over the round, with the message of the first."""

    code: str
    reason: str
    pictures: int
    message: str


class SubmissionPart(_Part):
    """One submission and what it used."""

    id: str
    name: str
    team: str
    side: Side
    baseline: bool
    image: str = Field(description="the identity of what was started")
    status: Literal["pending", "played", "faulted", "disqualified"]
    findings: list[str] = Field(description="ids of findings against it")
    forfeits: int = Field(description="attack: candidates that do not count, among all its pictures (A8, A14)")
    violations: int = Field(description="attack: candidates beyond the budget (A14)")
    largest: float | None = Field(description="attack: the largest distance it delivered, in steps of 1/255")
    faults: list[FaultPart]
    sandboxes: int
    seconds: float = Field(description="its own work, without start and load")
    cpu_seconds: float | None
    peak_bytes: int | None
    bytes_in: int | None = Field(description="what was written to its standard input")
    bytes_out: int | None = Field(description="what it wrote to standard output and standard error, as far as read")
    endings: dict[str, int] = Field(description="how many of its sandboxes ended for which reason")


class CellPart(_Part):
    """A defence against one attack; `attack` null is clean pictures. `delta` is in percentage points (A11)."""

    defence: str
    attack: str | None
    total: int
    held: int
    fooled: int
    abstained: int
    forfeits: int
    faults: int
    accuracy: float
    delta: float | None


class RowPart(_Part):
    """One line of a board. `rank` null is not ranked, and `reason` says why. `exact` is the score as a fraction."""

    rank: int | None
    submission: str
    score: float | None
    exact: str | None
    violations: int
    reason: str


class BoardPart(_Part):
    """One ranking."""

    name: str
    title: str
    measure: str
    unit: str
    more_is_better: bool
    rules: list[str]
    rows: list[RowPart]


class DisagreementPart(_Part):
    """One picture with different decisions: -1 abstained, -2 no valid answer."""

    attack: str | None
    picture: int
    played: int
    replayed: int
    repeated: int | None


class FindingPart(_Part):
    """Evidence that a rule was broken."""

    id: str
    submission: str
    kind: FindingKind
    rules: list[str]
    summary: str
    compared: int
    disagreements: list[DisagreementPart]


class JobPart(_Part):
    """One job. `seconds` is null until it is finished."""

    id: str
    stage: Stage
    submission: str
    status: Literal["finished", "pending"]
    seconds: float | None


class Results(_Part):
    """The whole file."""

    schema_version: Literal[1] = 1
    contest: str
    title: str
    format: str
    round: str
    complete: bool = Field(description="false while jobs are pending")
    task: TaskPart
    isolation: str
    backend: str
    seed: int
    notes: list[str] = Field(description="what a reader of the boards has to know, one sentence each")
    rules: dict[str, object] = Field(description="the readings of the rules that this round used")
    commitment: str = Field(description="hash of the round's secret, recorded before play")
    ledger: str = Field(description="hash of the last ledger entry")
    software: str
    submissions: list[SubmissionPart]
    cells: list[CellPart]
    boards: list[BoardPart]
    findings: list[FindingPart]
    jobs: list[JobPart]
