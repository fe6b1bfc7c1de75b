"""`results.json`: all results of a round, in one file. Its schema is schemas/results.schema.json.

Every number is computed from the ledger. The fields `seconds`, `cpu_seconds`, `peak_bytes`, `bytes_in`, `bytes_out` and
`endings` are measured, and `commitment` and `ledger` depend on random numbers. The round's secret decides which
questions a replay asks again, so `findings` and `replays` of a cheat depend on it. All other fields are the same
whenever deterministic players play the same round on the same backend; `sandboxes` is higher if a fault of ours cost
some.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.plan import Stage
from orchestrator.domain.submissions import Side


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TaskPart(_Part):
    """The task. `epsilon` is in steps of 1/255; `norm` and `epsilon` are null if the task has no budget."""

    name: str
    classes: list[str]
    shape: list[int] = Field(description="channels, height, width")
    pictures: int
    digest: str
    norm: str | None
    epsilon: str | None


class FaultPart(_Part):
    """A submission's faults of one kind in the round. `message` is ours, since the player's words may hold labels (A2).

    `times` is how often the fault occurred, `pictures` how many pictures are charged with it (A7): fewer if the
    pictures were then asked about alone and answered.
    """

    code: str
    reason: str
    times: int
    pictures: int
    message: str


class SubmissionPart(_Part):
    """One submission, with its faults and the resources that it used."""

    id: str
    name: str
    team: str
    side: Side
    baseline: bool
    submitted: str = Field(default="", description="when it was submitted, ISO 8601 in UTC; empty if that is not known")
    image: str = Field(description="the identity of what was started")
    status: Literal["pending", "played", "faulted", "disqualified"]
    findings: list[str] = Field(description="ids of findings against it")
    forfeits: int = Field(description="attack: candidates that do not count, among all its pictures (A8, A14)")
    forfeit_reasons: dict[Literal["missing", "type", "shape", "not_finite", "budget"], int] = Field(
        description="attack: the number of forfeits for each reason"
    )
    violations: int = Field(description="attack: candidates beyond the budget (A14)")
    largest: float | None = Field(description="attack: the largest distance that it delivered, in steps of 1/255")
    faults: list[FaultPart]
    sandboxes: int
    seconds: float = Field(description="how long it worked, without starting and loading")
    cpu_seconds: float | None
    peak_bytes: int | None
    bytes_in: int | None = Field(description="bytes written to its standard input")
    bytes_out: int | None = Field(description="bytes read from its standard output and standard error")
    endings: dict[str, int] = Field(description="for each reason, how many of its sandboxes ended for it")


@dataclass(frozen=True, slots=True)
class CellPart:
    """A defence against one attack; `attack` null is clean pictures. `delta` is in percentage points (A11).

    `held`, `fooled`, `abstained` and `not_played` add up to `total`. If a picture was not played, `accuracy` is 0, the
    worst case, and attacks are not scored against the defence (A7).

    `accuracy_interval` and `delta_interval` are 95 % confidence limits; those of delta are paired by picture.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    defence: str
    attack: str | None
    total: int
    held: int
    fooled: int
    abstained: int
    forfeits: int
    faults: int
    not_played: int
    accuracy: float
    accuracy_interval: tuple[float, float]
    delta: float | None
    delta_interval: tuple[float, float] | None


class ColumnPart(_Part):
    """One column of a leaderboard besides the score."""

    name: str
    title: str
    unit: str
    more_is_better: bool | None
    measure: str


class ValuePart(_Part):
    """A number in such a column. `value` is null if there is none yet; `exact` is the number as a fraction."""

    value: float | None
    exact: str | None
    interval: tuple[float, float] | None = Field(description="95 % confidence limits, if the column has them")


class RowPart(_Part):
    """One row of a leaderboard. If `rank` is null, `reason` says why. `exact` is the score as a fraction."""

    rank: int | None
    submission: str
    score: float | None
    exact: str | None
    interval: tuple[float, float] | None = Field(description="95 % confidence limits of the score")
    ranks: tuple[int, int] | None = Field(description="the best and the worst rank that the pictures cannot exclude")
    values: dict[str, ValuePart] = Field(description="the values in the leaderboard's other columns, by their names")
    reason: str
    remark: str = Field(default="", description="a remark about a row that is ranked nevertheless")
    prize_rank: int | None = Field(description="the place among the submissions that may get a prize (A5)")
    no_prize: str = Field(description="why it may not get a prize")


@dataclass(frozen=True, slots=True)
class QueryPart:
    """An attack's queries to one defence (X6), over all pictures that it attacked.

    `success` is the share of pictures that the defence misclassified or abstained on, at a query within the budget or
    when they were judged (A7), with 95 % confidence limits. `median` is the median number of queries until then; null
    if fewer than half of the pictures are successes. `curve` has pairs of a number of queries and the share after it,
    at the numbers where it grows.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    attack: str
    defence: str
    pictures: int
    queries: int
    successes: int
    success: float
    success_interval: tuple[float, float]
    median: int | None
    curve: list[tuple[int, float]]


class LeaderboardPart(_Part):
    """One leaderboard."""

    name: str
    title: str
    measure: str
    unit: str
    more_is_better: bool
    columns: list[ColumnPart]
    rules: list[str]
    rows: list[RowPart]


class DisagreementPart(_Part):
    """One picture with two decisions, -1 for abstained. `margin` is from the defence's scores, null without them."""

    attack: str | None
    picture: int
    answer_in_play: int
    answer_in_replay: int
    margin: float | None


class QuestionPart(_Part):
    """One question of a sequence and its answer. `pause` is the silence before it, in seconds."""

    attack: str | None
    picture: int
    answer: int
    pause: float


class ReplayDesignPart(_Part):
    """The contest's settings for replays (X3)."""

    power: float = Field(
        description="planned probability that a cheat of the size `cheat` has at least one mismatch; 0: no replays"
    )
    cheat: float = Field(description="share of its answers that such a cheat changes")
    noise: float = Field(description="how often two sandboxes of an honest defence may disagree")
    attacks: float = Field(description="share of an attack's questions that is asked again")


class DetectionPart(_Part):
    """The probability that a cheat of the contest's size is accused, by the kind of evidence (X3)."""

    sequence: float = Field(
        description="for a cheat that a sequence of questions reproduces: state, memory, time since the start"
    )
    chance: float = Field(description="for a cheat that changes each answer at random")
    start: float = Field(description="for a cheat that depends on the sandbox's start or on the company in a question")


class ReplayCoveragePart(_Part):
    """How much one replay of a defence covered (X3)."""

    submission: str
    job: str
    questions: int = Field(description="questions answered in play")
    changed: int = Field(description="how many of them a cheat of the contest's size changes")
    drawn: int = Field(description="questions drawn to be asked again")
    decided: int = Field(description="how many of the drawn questions were answered in play and in a replay")
    fresh_copy: Literal["yes", "mount", "baseline", "backend", "unrecorded"] = Field(
        description="whether its sandboxes ran from a fresh copy of the image; otherwise why not",
    )
    achieved: float = Field(description="probability that a cheat of the contest's size has at least one mismatch")
    accused: DetectionPart
    mismatches: int = Field(description="comparisons that disagree; without a finding they were not confirmed")
    noise: int = Field(
        description="further comparisons that disagree, within the floating-point margin that the defence claimed"
    )
    refused: int = Field(description="questions answered in play and not again: the player ended or broke the protocol")
    late: int = Field(description="questions answered in play and not again: the deadline passed")


class FindingPart(_Part):
    """Evidence that a rule was broken."""

    id: str
    submission: str
    kind: FindingKind
    rules: list[str]
    summary: str
    compared: int
    disagreements: list[DisagreementPart]
    image: str
    job: str
    steps: list[int] = Field(description="the steps of the replay job that prove it")
    seeds: list[int | None] = Field(
        description="the seed of a defence's sandbox in each of these steps; empty for an attack"
    )
    sequence: list[QuestionPart] = Field(
        description="the shortest sequence found that shows it; only its ends if it is long"
    )
    length: int = Field(description="the number of questions in that sequence")
    batch: int
    answer_alone: int | None = Field(
        description="the answer to the last picture of the sequence when nothing else is asked"
    )
    p_value: float | None = Field(description="an upper bound on the probability of such rates for an honest defence")


class WaitingPart(_Part):
    """A submission without a result for now: one of its jobs failed at every attempt, through no fault of its own."""

    submission: str
    stage: Stage
    job: str
    code: str = Field(description="the kind of fault; `sparring explain CODE` says what it means")
    message: str = Field(description="the message of the last attempt's fault")


@dataclass(frozen=True, slots=True)
class JobPart:
    """One job. `seconds` is null until it is finished."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    id: str
    stage: Stage
    submission: str
    status: Literal["finished", "pending"]
    seconds: float | None


class Results(_Part):
    """The whole results file."""

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
    alarms: list[str] = Field(
        description="reasons not to use the leaderboards until the organizers correct them, one sentence each"
    )
    waiting: list[WaitingPart] = Field(
        description="submissions that the next run tries again; no leaderboard ranks them"
    )
    notes: list[str] = Field(description="what a reader of the leaderboards has to know, one sentence each")
    rules: dict[str, object] = Field(description="the values of the contest file's `rules` in this round")
    commitment: str = Field(description="hash of the round's secret, recorded before play")
    ledger: str = Field(description="hash of the last ledger entry")
    software: str
    submissions: list[SubmissionPart]
    cells: list[CellPart]
    boards: list[LeaderboardPart]
    queries: list[QueryPart] = Field(
        default=[], description="the queries of attacks to defences, if the contest allows them (X6)"
    )
    coarse: bool = Field(
        default=False,
        description="whether everybody but the organizers sees rounded boards and no cells until scores are released",
    )
    replay: ReplayDesignPart
    replays: list[ReplayCoveragePart]
    findings: list[FindingPart]
    jobs: list[JobPart]


_LONG_LISTS: dict[str, TypeAdapter[Any]] = {"cells": TypeAdapter(list[CellPart]), "jobs": TypeAdapter(list[JobPart])}
"""The lists with an entry for each cell or job, in the order of the fields."""
_PARTS_PER_PIECE = 1000


def results_json(results: Results) -> Iterator[bytes]:
    """Yields the file in pieces: for a round of 300 x 300 it has 50 MB, and as one text it would be in memory twice."""
    text = results.model_copy(update={name: [] for name in _LONG_LISTS}).model_dump_json(indent=2)
    for name, parts_type in _LONG_LISTS.items():
        before, key, text = text.partition(f'\n  "{name}": ')  # JSON strings contain no unescaped line feed
        yield (before + key).encode()
        yield from _list_pieces(parts_type, getattr(results, name))
        text = text.removeprefix("[]")
    yield f"{text}\n".encode()


def _list_pieces(parts_type: TypeAdapter[Any], parts: Sequence[Any]) -> Iterator[bytes]:
    """Yields a list of the file as JSON, with the indentation of the file."""
    opening = b"["
    for start in range(0, len(parts), _PARTS_PER_PIECE):
        piece = parts_type.dump_json(parts[start : start + _PARTS_PER_PIECE], indent=2)
        yield opening + piece.removeprefix(b"[").removesuffix(b"\n]").replace(b"\n", b"\n  ")
        opening = b","
    yield b"\n  ]" if parts else b"[]"
