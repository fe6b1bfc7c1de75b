"""Everything that can happen, as the ledger keeps it.

An event is a pydantic model because it is read back from disk, perhaps years later: unknown kinds and unknown keys are
errors, never ignored. Arrays are not in events; they are blobs, named by their SHA-256.
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
from orchestrator.domain.ids import LARGEST_EXACT, canonical_json
from orchestrator.domain.plan import Stage
from orchestrator.domain.submissions import Side
from orchestrator.domain.tasks import Budget, Norm, Task
from orchestrator.domain.versions import FORMAT_VERSION

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Seconds = Annotated[float, Field(ge=0)]


def _plain_number(number: float, info: SerializationInfo) -> float | int:
    """Returns a number that pydantic writes as RFC 8785 does, or raises ValueError where `event_text` asks for that."""
    if -LARGEST_EXACT <= number <= LARGEST_EXACT:
        if number.is_integer():
            return int(number)
        if abs(number) >= _SMALLEST_PLAIN:
            return number
    if info.context is _REQUIRE_CANONICAL:
        raise ValueError(f"{number} has an exponent or is not a JSON number")
    return number


def _sorted_members(members: dict[Any, Any]) -> dict[Any, Any]:
    """Returns an object's members in their canonical order. Raises ValueError for a name with half a surrogate pair."""
    if not members or (len(members) == 1 and str(*members).isascii()):
        return members
    return dict(sorted(members.items(), key=lambda item: str(item[0]).encode("utf-16be")))


_REQUIRE_CANONICAL = object()
"""The context in which a number that pydantic would write in another way than RFC 8785 is refused."""
_SMALLEST_PLAIN = 1e-4
"""Numbers below it are written with an exponent, by pydantic in another form."""
_Number = Annotated[float, PlainSerializer(_plain_number, when_used="json")]
_Seconds = Annotated[_Number, Field(ge=0)]
_Integer = Annotated[int, Field(ge=-LARGEST_EXACT, le=LARGEST_EXACT)]
_Count = Annotated[int, Field(ge=0, le=LARGEST_EXACT)]
_Blobs = Annotated[dict[str, Digest], PlainSerializer(_sorted_members, dict[str, str], when_used="json")]
_Pauses = Annotated[dict[int, _Seconds], PlainSerializer(_sorted_members, dict[int, _Number], when_used="json")]


_field_names: dict[frozenset[str], set[str]] = {}
"""The sets of field names that events were made with: a handful, which all events share."""


class _Event(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def model_post_init(self, _context: Any) -> None:
        """Lets events that were made with the same fields share the set of their names.

        A set of its own takes 728 bytes, and a large round keeps 200,000 events in memory. No event is ever changed, so
        nobody changes the set, and a copy of an event copies it.
        """
        names = self.model_fields_set
        object.__setattr__(self, "__pydantic_fields_set__", _field_names.setdefault(frozenset(names), names))


class _Canonical(_Event):
    """An event, or a part of one, that pydantic writes as canonical JSON.

    `canonical_json` takes several times as long, and a large round has two such events a cell. The fields are in their
    canonical order, and each is of a type whose values pydantic writes as RFC 8785 does, or refuses to write.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        found = handler(source)
        fields: Any = handler.resolve_ref_schema(found)["schema"]
        fields["fields"] = dict(sorted(fields["fields"].items()))
        return found


class TaskRecord(_Event):
    """The task, with its pictures and labels as blobs. `norm` and `epsilon` are null where it has no budget."""

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
        """Returns how far a candidate may be from its picture, None where the task has no budget."""
        if self.norm is None or self.epsilon is None:
            return None
        return Budget(Norm(self.norm), Fraction(self.epsilon))

    def task(self) -> Task:
        """Returns the task that is on record."""
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

    `phase` is the round's place in a season, empty for a round by itself. `software` is the version of this software
    that opened it, `ledger_version` that of the ledger's own form.
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
    """A submission plays in this round. `digest` is that of what is started, or of the archive that pictures came in.

    Of pictures, `pixels` is the digest of what was decoded, and `decoder` names the libraries that did it, with their
    versions; both are empty for a program.
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
    """A defence against an attack, or against clean pictures (null). Its fields are in their canonical order."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    attack: str | None
    defence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job of the plan. Its fields are in their canonical order.

    `cells` are those whose pictures it asks about, and `keys` a digest of everything that goes into each: a cell with
    the same key is never played twice (X4). `origin_round` names the round that it was played in, empty for this one.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    cells: tuple[CellRecord, ...] = ()
    id: str
    keys: tuple[str, ...] = ()
    origin_round: str = ""
    stage: Stage
    submission: str


class PlanMade(_Canonical):
    """What has to be played. A later plan replaces an earlier one; finished jobs keep their ids."""

    kind: Literal["plan_made"] = "plan_made"
    jobs: list[JobRecord]


class FaultRecord(_Canonical):
    """A submission's fault, in the words of the error tree, and how many pictures of the step are charged with it.

    None is where a sandbox did not get ready, or ended with a question that was then asked again picture by picture.
    None either for what a player writes after its last reply. `question_pictures` is how many pictures the question
    held that it ended, or that waited for its sandbox; 0 where there was none. `times` is more than 1 in a sealed
    bundle only, which keeps counts and not each fault. `submission` is whose fault it was where it was not that of the
    job's own: an attack's, in a query job.
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

    `ending` is what the backend saw, `reason` also what execution ended it for. `code` is the exit status where the
    player ended by itself. `kills` counts the kernel's kills at the memory limit. `sampled` says that processor time
    and peaks were looked at now and then while it ran, not read from the kernel's counters after its end. Bytes are
    what went through our hands. `stderr` is the blob with its last bytes. None is what the backend cannot tell.
    `submission` is whose sandbox it was where it was not the job's own: an attack's, in a query job.
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
    """How a replayed session was laid out (integrity.replay_session).

    `seed` is what its last sandbox was told in `hello`; null where none was started, the job having given up.
    """

    purpose: str
    batch: _Integer
    pauses: _Pauses = {}
    seed: _Integer | None


class StepFinished(_Canonical):
    """A step of a job was played. `seconds` is the player's work alone (rule A15).

    `blobs` are its arrays, one row per picture. PERTURB: `index` (which pictures), `candidates` (what is played),
    `forfeits` (see domain.outcomes.Forfeit), `violations` and `distances` (steps of 1/255, NaN where nothing came).
    QUERY: as PERTURB, and of domain.queries.QueryRecord `queries`, `fooled_at`, `failures` and `given_up`; and
    `replies`, int32 [q, 3], of every picture that was asked about the task's picture for which it was, the answer and
    the price, in the order of the queries. A full transcript has also the arrays of domain.query_transcript.
    Of the questions that may be asked again `sampled_pixels` and `sampled_rows`, int32 [m, 3]: question, picture,
    answer. The last step of a query job has none of these but `checked_rows`, int32 [m, 3]: picture, answer then,
    answer in a fresh sandbox.
    CLASSIFY: `rows`, int32 [k, 4]: position in `cells`, picture, answer, and the sandbox that it was put to last,
    counted from 0 within the step; where the format keeps scores, `scores`, f32 [k, classes], NaN where none came.
    REPLAY of a defence, one session a step: `rows` as in CLASSIFY without the sandbox, and `margins`, `at` and
    `refused` of integrity.replay_session.SessionAnswers. REPLAY of an attack: as PERTURB.
    `sandboxes` are those that ended in this step, which the ledger so keeps or loses with it. `fresh` says that its
    first question met a fresh one: a fault, a fault of ours or a killed orchestrator lies before it, or nothing.
    `fault_seconds` is what faults of a defence cost in it (limits.fault_seconds). `node` is the cluster's node on which
    it was played, as the controller saw it; empty elsewhere, and where the pod was gone before it was seen.
    `transcript` is, in a query job, the SHA-256 of a chain over the queries: each link is the hash of the one before,
    of the pictures that were asked about, and of the answers and scores or gradients. `attack_seconds` is there the
    attack's work alone, where it is a submission's.
    `fresh_copy` is the digest of the copy of the image's files that a replay's sandboxes run from; empty where none was
    made, also because no sandbox was started, and where they ran from the image itself, as those of calm sessions do.
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
    """Every step of a job was played. `sandboxes` are those that no step accounts for: lost, or started in vain."""

    kind: Literal["job_finished"] = "job_finished"
    job: str
    stage: Stage
    submission: str
    device: str | None
    seconds: _Seconds
    sandboxes: list[SandboxRecord]


class JobsReused(_Event):
    """What an earlier round of the contest finished and this one needs is not played again (X4).

    The `count` entries that follow are that round's steps, ends and findings, copied; `head` is its ledger's hash.
    """

    kind: Literal["jobs_reused"] = "jobs_reused"
    round: str
    head: Digest
    jobs: list[str]
    count: int = Field(ge=0)


class StepsInvalidated(_Event):
    """Steps that hold no longer: these jobs, and those that build on them, are played again.

    Their arrays are missing or damaged; or the plan changed before a defence's replay was judged, which follows from
    the answers of the whole plan.
    """

    kind: Literal["steps_lost"] = "steps_lost"
    jobs: list[str]
    reason: str


class AttemptFailed(_Event):
    """An infrastructure fault ended an attempt at a job; what was finished stays, the rest is tried again (X1)."""

    kind: Literal["attempt_failed"] = "attempt_failed"
    job: str
    attempt: int
    code: str
    message: str


class JobParked(_Event):
    """A job failed at every attempt (X1). It waits for another run; what does not need its submission is played on."""

    kind: Literal["job_parked"] = "job_parked"
    job: str
    stage: Stage
    submission: str
    code: str
    message: str


class BackendReturned(_Event):
    """After a failed attempt the backend was away; it was waited for, for so many seconds, and the job goes on."""

    kind: Literal["backend_returned"] = "backend_returned"
    job: str
    seconds: Seconds


class ClusterProbed(_Event):
    """What was known of a cluster's network when play began there, or went on: the last probe, and who went against it.

    `outcome` is blocked, connected, unknown or never; `probed_at` when that was seen, empty for never.
    `override_reason` is the operator's reason to play where a probe does not say that no player can connect; empty
    where one does.
    """

    kind: Literal["cluster_probed"] = "cluster_probed"
    namespace: str
    outcome: Literal["blocked", "connected", "unknown", "never"]
    probed_at: str
    override_reason: str = ""


class AnswersCommitted(_Event):
    """Everything is classified. Replays are chosen from the round's secret and `answers_digest`.

    `head` is the chain's hash before this. `answers_digest` is a digest of every answer of the play: who knows the
    secret cannot choose the replays without choosing the answers.
    """

    kind: Literal["play_closed"] = "play_closed"
    head: Digest
    answers_digest: Digest


class DisagreementRecord(_Event):
    """One picture with different decisions."""

    attack: str | None
    picture: int
    answer_in_play: int
    answer_in_replay: int
    margin: float | None


class SequenceQuestionRecord(_Event):
    """One question of the sequence that shows a finding, and seconds of silence before it."""

    attack: str | None
    picture: int
    answer: int
    pause: Seconds


class ReplayJudged(_Event):
    """What the replays of one defence covered: see integrity.determinism_check.Coverage."""

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
    """Nothing is left to play."""

    kind: Literal["round_closed"] = "round_closed"


CoreEvent = (
    RoundOpened
    | SubmissionAdmitted
    | PlanMade
    | StepFinished
    | JobFinished
    | JobsReused
    | StepsInvalidated
    | AttemptFailed
    | JobParked
    | BackendReturned
    | ClusterProbed
    | AnswersCommitted
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
    """Returns the event whose text, by `event_text`, this is to the byte; the same as `parse_core_event` of its value.

    None for every other text, and for the kinds that pydantic does not write as canonical JSON.
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
    """Returns the event that a ledger entry holds, of those that every contest has.

    Raises:
        pydantic.ValidationError: it is none of them. `ledger.event_registry` also knows those of the formats.
    """
    return _event.validate_python(body)
