"""The events that a ledger holds.

An event is a pydantic model because it is read back from disk, perhaps years later: unknown kinds and unknown keys are
errors, never ignored. Events hold no arrays. Arrays are blobs, which events name by their SHA-256.
"""

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    SerializationInfo,
    TypeAdapter,
)
from pydantic_core import CoreSchema, PydanticSerializationError

from orchestrator.domain.contest_events import CoreContestEvent, FormatEvent
from orchestrator.domain.exit_reasons import ExitReason
from orchestrator.domain.findings import FindingKind
from orchestrator.domain.ids import LARGEST_EXACT, Digest, canonical_json
from orchestrator.domain.plan import Stage
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Budget, Norm, Task
from orchestrator.domain.versions import FORMAT_VERSION

Seconds = Annotated[float, Field(ge=0)]


def _plain_number(number: float, info: SerializationInfo) -> float | int:
    """Returns the number in a form that pydantic writes as RFC 8785 does.

    If there is none, returns it unchanged, or raises ValueError if `event_text` requires canonical JSON.
    """
    if -LARGEST_EXACT <= number <= LARGEST_EXACT:
        if number.is_integer():
            return int(number)
        if abs(number) >= _SMALLEST_PLAIN:
            return number
    if info.context is _REQUIRE_CANONICAL:
        raise ValueError(f"{number} has an exponent or is not a JSON number")
    return number


def _sorted_members(members: dict[Any, Any]) -> dict[Any, Any]:
    """Returns a JSON object's members in canonical order. Raises ValueError for a name with half a surrogate pair."""
    if not members or (len(members) == 1 and str(*members).isascii()):
        return members
    return dict(sorted(members.items(), key=lambda item: str(item[0]).encode("utf-16be")))


_REQUIRE_CANONICAL = object()
"""The serialization context that refuses a number which pydantic would write in another way than RFC 8785."""
_SMALLEST_PLAIN = 1e-4
"""RFC 8785 and pydantic write smaller numbers with an exponent, in different forms."""
_Number = Annotated[float, PlainSerializer(_plain_number, when_used="json")]
_Seconds = Annotated[_Number, Field(ge=0)]
_Integer = Annotated[int, Field(ge=-LARGEST_EXACT, le=LARGEST_EXACT)]
_Count = Annotated[int, Field(ge=0, le=LARGEST_EXACT)]
_Blobs = Annotated[dict[str, Digest], PlainSerializer(_sorted_members, dict[str, str], when_used="json")]
_Pauses = Annotated[dict[int, _Seconds], PlainSerializer(_sorted_members, dict[int, _Number], when_used="json")]


_field_names: dict[frozenset[str], set[str]] = {}
"""The sets of field names that events have been created with: only a few, shared by all events."""


class _Event(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def model_post_init(self, _context: Any) -> None:
        """Makes events that were created with the same fields share one set of field names.

        A set for each event would take 728 bytes, and a large round keeps 200,000 events in memory. Sharing is safe:
        events are immutable, so nothing changes the set, and a copy of an event copies it.
        """
        names = self.model_fields_set
        object.__setattr__(self, "__pydantic_fields_set__", _field_names.setdefault(frozenset(names), names))


class _Canonical(_Event):
    """An event, or a part of one, that pydantic writes as canonical JSON.

    `canonical_json` takes several times as long, and a large round has two such events for each cell. The fields are in
    canonical order. Each has a type whose values pydantic writes as RFC 8785 does, or refuses to write.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        found = handler(source)
        fields: Any = handler.resolve_ref_schema(found)["schema"]
        fields["fields"] = dict(sorted(fields["fields"].items()))
        return found


class TaskRecord(_Event):
    """The task, with its pictures and labels as blobs. `norm` and `epsilon` are null if it has no budget."""

    name: str
    classes: list[str]
    shape: list[int]
    count: int
    digest: Digest
    norm: str | None
    epsilon: str | None
    pixels: Digest
    labels: Digest

    def budget(self) -> Budget | None:
        """Returns how far a candidate may be from its picture, None if the task has no budget."""
        if self.norm is None or self.epsilon is None:
            return None
        return Budget(Norm(self.norm), Fraction(self.epsilon))

    def task(self) -> Task:
        """Returns the task that this record describes."""
        channels, height, width = self.shape
        return Task(
            name=self.name,
            classes=tuple(self.classes),
            shape=(channels, height, width),
            count=self.count,
            digest=self.digest,
            budget=self.budget(),
        )


class RoundOpened(_Event):
    """The first event of a round. `contest` is the whole resolved contest file; `commitment` the hash of its secret.

    `phase` names the round within its season; it is empty for a round by itself. `software` is the version of this
    software that opened the round, `ledger_version` the version of the ledger's format.
    """

    kind: Literal["round_opened"] = "round_opened"
    ledger_version: Literal[2] = FORMAT_VERSION
    round: str
    phase: str = ""
    contest: dict[str, Any]
    task: TaskRecord
    backend: str
    commitment: Digest
    software: str
    protocol: int


class SubmissionAdmitted(_Event):
    """A submission plays in this round.

    `digest` identifies the image or folder that is started, or the archive of submitted pictures. For pictures,
    `pixels` is the digest of the decoded array, and `decoder` names the libraries that decoded it, with their versions;
    both are empty for a program.
    """

    kind: Literal["submission_admitted"] = "submission_admitted"
    id: str
    name: str
    team: str
    side: Side
    baseline: bool
    digest: str
    image: str
    submitted: str
    pixels: str = ""
    decoder: str = ""


@dataclass(frozen=True, slots=True)
class CellRecord:
    """A defence against an attack, or against clean pictures (null). Its fields are in canonical order."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    attack: str | None
    defence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job of the plan. Its fields are in canonical order.

    `cells` are the cells whose pictures the job asks about. `keys` holds for each a digest of everything that its
    answers depend on: a cell with the same key is never played twice (X4). `origin_round` names the round in which the
    job was played, empty for this one.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    cells: tuple[CellRecord, ...] = ()
    id: str
    keys: tuple[str, ...] = ()
    origin_round: str = ""
    stage: Stage
    submission: str


class PlanMade(_Canonical):
    """The jobs that have to be played. A later plan replaces an earlier one; finished jobs keep their ids."""

    kind: Literal["plan_made"] = "plan_made"
    jobs: list[JobRecord]


class FaultRecord(_Canonical):
    """A submission's fault. `code` is that of its class in `orchestrator.errors`.

    `pictures` is how many pictures of the step are charged with the fault. It is 0 if a sandbox did not get ready, if
    it ended with a question that was then asked again picture by picture, and for output after the last reply.
    `question_pictures` is how many pictures were in the question that the fault ended, or that waited for the sandbox;
    0 if there was no question. `times` is more than 1 only in a sealed bundle, which keeps counts instead of single
    faults. `submission` is the attack's id if the fault is that of an attack in a query job, else empty: the fault is
    that of the job's submission.
    """

    code: str
    reason: str = ""
    message: str
    pictures: _Count
    question_pictures: _Count = 0
    times: _Count = Field(default=1, ge=1)
    submission: str = ""


class SandboxRecord(_Canonical):
    """How one sandbox of a job ended, why, and what it used.

    `ending` is what the backend observed; `reason` also covers why execution ended the sandbox. `code` is the exit
    status if the player ended by itself. `kills` counts the kernel's kills at the memory limit. `sampled` says that
    processor time and peaks were sampled while the player ran, not read from the kernel's counters after its end. The
    byte counts are the bytes that the orchestrator passed on or read. `stderr` is the blob with the last bytes of
    standard error. A value that the backend cannot determine is None. `submission` is the attack's id if it is the
    sandbox of an attack in a query job, else empty: it is that of the job's submission.
    """

    ending: str
    reason: ExitReason | None
    code: _Integer | None
    wall_seconds: _Seconds
    cpu_seconds: _Number | None
    peak_bytes: _Integer | None
    peak_pids: _Integer | None
    kills: _Count
    sampled: bool
    stdin_bytes: _Count | None
    stdout_bytes: _Count | None
    stderr_bytes: _Count | None
    stderr: Digest | None
    submission: str = ""


class SessionRecord(_Canonical):
    """The settings of a replayed session (integrity.replay_session).

    `seed` is the seed that its last sandbox got in `hello`; null if none was started because the job had given up.
    """

    purpose: str
    batch: _Integer
    pauses: _Pauses = {}
    seed: _Integer | None


class StepFinished(_Canonical):
    """A step of a job was played. `seconds` is the time of the player's work alone (rule A15).

    `blobs` names the arrays of the step, which have one row per picture:

    PERTURB: `index` (which pictures), `candidates` (the pictures that are played), `forfeits` (see
    domain.outcomes.Forfeit), `violations`, and `distances` in steps of 1/255, NaN if no candidate came.

    QUERY: as PERTURB, with the fields `queries`, `fooled_at`, `failures` and `given_up` of domain.queries.QueryRecord.
    `replies`, int32 [q, 3], has a row for every picture that the defence was asked about, in the order of the queries:
    the task's picture on whose behalf it was asked, the answer, and the price. `sampled_pixels` and `sampled_rows`,
    int32 [m, 3]: question, picture, answer, are the questions that may be asked again. A full transcript adds the
    arrays of domain.query_transcript. The last step of a query job has none of these arrays but `checked_rows`, int32
    [m, 3]: picture, answer in play, answer in a fresh sandbox.

    CLASSIFY: `rows`, int32 [k, 4]: position in `cells`, picture, answer, and the sandbox that was asked last, counted
    from 0 within the step. If the format keeps scores, also `scores`, f32 [k, classes], NaN where the defence gave
    none.

    REPLAY of a defence, one session per step: `rows` as in CLASSIFY without the sandbox, and `margins`, `at` and
    `refused` of integrity.replay_session.SessionAnswers. REPLAY of an attack: as PERTURB.

    `sandboxes` are those that ended in this step, so that the ledger keeps or loses them with it. `fresh` says that a
    fresh sandbox got the first question: the step is the first, or follows a fault of the submission, a fault of ours
    or a kill of the orchestrator. `fault_seconds` is the time that faults of a defence took in it
    (limits.fault_seconds). `node` is the cluster's node on which the controller saw the pod; empty elsewhere, and if
    the pod was gone before the controller saw it. `transcript` is, in a query job, the SHA-256 of a chain over the
    queries: each link hashes the link before, the pictures that were asked about, the answers, and the scores or
    gradients. `attack_seconds` is, in a query job, the time of the attack's work alone, if the attack is a submission.
    `fresh_copy` is the digest of the copy of the image's files from which a replay's sandboxes ran; empty if there is
    no copy, also because no sandbox was started, and if they ran from the image itself, as control sessions do.
    """

    kind: Literal["step_finished"] = "step_finished"
    job: str
    stage: Stage
    submission: str
    step: _Integer
    cells: list[CellRecord]
    blobs: _Blobs
    faults: list[FaultRecord]
    seconds: _Seconds
    fault_seconds: _Seconds = 0.0
    node: str = ""
    sandboxes: list[SandboxRecord] = Field(default_factory=list)
    fresh: bool = True
    fresh_copy: str = ""
    transcript: str = ""
    attack_seconds: _Seconds = 0.0
    session: SessionRecord | None = None


class JobFinished(_Canonical):
    """Every step of a job was played. `sandboxes` are those that no step has: they were lost, or started in vain."""

    kind: Literal["job_finished"] = "job_finished"
    job: str
    stage: Stage
    submission: str
    device: str | None
    seconds: _Seconds
    sandboxes: list[SandboxRecord]


class JobsReused(_Event):
    """Jobs that an earlier round of the contest finished are reused in this one, not played again (X4).

    The next `count` entries are copies of that round's steps, ends of jobs and findings. `head` is the hash of its
    ledger's last entry.
    """

    kind: Literal["jobs_reused"] = "jobs_reused"
    round: str
    head: Digest
    jobs: list[str]
    count: int = Field(ge=0)


class StepsLost(_Event):
    """The steps of some jobs are no longer valid: these jobs, and the jobs that depend on them, are played again.

    Either their arrays are missing or damaged, or the plan changed before the replay of a defence was judged; the
    judgement depends on the answers of the whole plan.
    """

    kind: Literal["steps_lost"] = "steps_lost"
    jobs: list[str]
    reason: str


class AttemptFailed(_Event):
    """An infrastructure fault ended an attempt at a job. Its finished steps stay, the others are tried again (X1)."""

    kind: Literal["attempt_failed"] = "attempt_failed"
    job: str
    attempt: int
    code: str
    message: str


class JobParked(_Event):
    """A job failed at every attempt (X1). It waits for another run; jobs that do not need its submission are played."""

    kind: Literal["job_parked"] = "job_parked"
    job: str
    stage: Stage
    submission: str
    code: str
    message: str


class BackendReturned(_Event):
    """The backend was unavailable after a failed attempt and is back after `seconds`; the job continues."""

    kind: Literal["backend_returned"] = "backend_returned"
    job: str
    seconds: Seconds


class ClusterProbed(_Event):
    """The result of the last network probe of a cluster when play began or continued there.

    `outcome` is blocked, connected, unknown or never (there was no probe); `probed_at` is the time of the probe, empty
    for never. `override_reason` is the operator's reason to play although no probe shows that players cannot connect;
    empty if a probe shows it.
    """

    kind: Literal["cluster_probed"] = "cluster_probed"
    namespace: str
    outcome: Literal["blocked", "connected", "unknown", "never"]
    probed_at: str
    override_reason: str = ""


class PlayClosed(_Event):
    """All pictures are classified. Replays are drawn from the round's secret and `answers_digest`.

    `head` is the hash of the entry before this one. `answers_digest` is a digest of every answer in play: somebody who
    knows the secret cannot choose the replays without choosing the answers.
    """

    kind: Literal["play_closed"] = "play_closed"
    head: Digest
    answers_digest: Digest


class DisagreementRecord(_Event):
    """One picture with two decisions: see domain.findings.Disagreement."""

    attack: str | None
    picture: int
    answer_in_play: int
    answer_in_replay: int
    margin: float | None


class SequenceQuestionRecord(_Event):
    """One question of the sequence that shows a finding. `pause` is the silence before it, in seconds."""

    attack: str | None
    picture: int
    answer: int
    pause: Seconds


class ReplayJudged(_Event):
    """How much the replays of one defence covered: see integrity.determinism_check.Coverage."""

    kind: Literal["replay_judged"] = "replay_judged"
    submission: str
    job: str
    questions: int
    changed: int
    drawn: int
    decided: int
    achieved: Annotated[float, Field(ge=0, le=1)]
    asked: int
    compared: int
    mismatches: int
    noise: int
    refused: int
    late: int
    sandboxes: int


class FindingMade(_Event):
    """A rule was broken, with the evidence: see domain.findings.Finding."""

    kind: Literal["finding_made"] = "finding_made"
    id: str
    submission: str
    finding: FindingKind
    rules: list[str]
    summary: str
    compared: int
    disagreements: list[DisagreementRecord]
    image: str
    job: str
    steps: list[int]
    sequence: list[SequenceQuestionRecord]
    length: int
    batch: int
    answer_alone: int | None
    p_value: float | None


class RoundClosed(_Event):
    """Every job of the round is finished, and every replay is judged."""

    kind: Literal["round_closed"] = "round_closed"


CoreEvent = (
    RoundOpened
    | SubmissionAdmitted
    | PlanMade
    | StepFinished
    | JobFinished
    | JobsReused
    | StepsLost
    | AttemptFailed
    | JobParked
    | BackendReturned
    | ClusterProbed
    | PlayClosed
    | ReplayJudged
    | FindingMade
    | RoundClosed
    | CoreContestEvent
)

Event = CoreEvent | FormatEvent

_canonical_events: dict[str, type[PlanMade] | type[StepFinished] | type[JobFinished]] = {
    "plan_made": PlanMade,
    "step_finished": StepFinished,
    "job_finished": JobFinished,
}


def event_text(event: Event) -> str:
    """Returns an event as canonical JSON. Raises ValueError like `canonical_json`."""
    if isinstance(event, _Canonical):
        with suppress(PydanticSerializationError):
            return event.model_dump_json(context=_REQUIRE_CANONICAL)
    return canonical_json(event.model_dump(mode="json"))


def read_canonical_event(kind: str, text: str) -> Event | None:
    """Returns the event whose `event_text` is exactly `text`; it equals `parse_core_event` of the parsed text.

    Returns None for any other text, and for the kinds that pydantic does not write as canonical JSON.
    """
    model = _canonical_events.get(kind)
    if model is None:
        return None
    try:
        event = model.model_validate_json(text)
        is_canonical = event_text(event) == text
    except ValueError:  # no such event, or one with a number that has no canonical text
        return None
    return event if is_canonical else None


_event: TypeAdapter[CoreEvent] = TypeAdapter(Annotated[CoreEvent, Field(discriminator="kind")])


def parse_core_event(body: dict[str, Any]) -> Event:
    """Returns the core event that a ledger entry holds.

    Raises:
        pydantic.ValidationError: it is no core event. `ledger.event_registry` also knows the events of the formats.
    """
    return _event.validate_python(body)
