"""What people do in a contest, as its ledger keeps it: who, and why. When is the ledger's own.

Nothing is ever edited: a withdrawal, a disqualification, a correction and a changed rule are acts of their own. Models
for the same reason as in `events`: they are read back from disk years later.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from orchestrator.domain.submissions import Side
from orchestrator.domain.text import reject_control_characters
from orchestrator.domain.versions import FORMAT_VERSION

ACTOR_LIMIT = 120
Actor = Annotated[str, Field(min_length=1, max_length=ACTOR_LIMIT), AfterValidator(reject_control_characters)]
"""Who acted, as the operator gave it. It is published."""
Reason = Annotated[str, Field(min_length=1, max_length=2000)]
Handle = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
"""What an arrival, a request and an appeal are called: sixteen hex digits, drawn at random."""
_Word = Annotated[str, Field(max_length=120), AfterValidator(reject_control_characters)]
_Text = Annotated[str, Field(min_length=1, max_length=10_000)]


class _ContestEvent(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ContestOpened(_ContestEvent):
    """The first act.

    `contest` is the whole resolved contest file; `key_fingerprint` the fingerprint of the organizers' key. `software`
    is the version of this software that opened it, `ledger_version` that of the ledger's own form.
    """

    kind: Literal["contest_opened"] = "contest_opened"
    ledger_version: Literal[2] = FORMAT_VERSION
    actor: Actor
    contest: dict[str, Any]
    key_fingerprint: str
    software: str


class PersonRecord(_ContestEvent):
    """A participant (rule A1). `id` is what tells people apart, such as an e-mail address; it is not published."""

    id: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(reject_control_characters)]
    name: Annotated[str, Field(min_length=1, max_length=120), AfterValidator(reject_control_characters)]
    organizer: bool = False
    """Whether this person is of the organizing institution (rule A5)."""


class TeamAdded(_ContestEvent):
    """A team with its people. Adding it again replaces its people from then on."""

    kind: Literal["team_added"] = "team_added"
    actor: Actor
    team: Annotated[str, Field(min_length=1, max_length=120), AfterValidator(reject_control_characters)]
    people: list[PersonRecord]


class SubmissionReceived(_ContestEvent):
    """A submission was admitted to the contest.

    `attempts_left` is how many attempts its team has after this one: in all (A4) or on that day (C9), and 0 where the
    contest limits neither.
    `digest` is the identity of what is started, `folder` where the organizers keep its files, empty for an image.
    `warnings` are what its team was told, such as a missing licence (rule A6). `pixels` and `decoder` are those of
    pictures, see `submissions.Submission`; both are empty for a program.
    """

    kind: Literal["submission_received"] = "submission_received"
    actor: Actor
    id: str
    name: str
    team: str
    task: str
    side: Side
    digest: str
    image: str
    folder: str = ""
    licence: str = ""
    source: str = ""
    attempt: int = Field(ge=1)
    attempts_left: int = Field(ge=0)
    warnings: list[str] = []
    pixels: str = ""
    decoder: str = ""
    arrival: Handle | Literal[""] = ""
    """The arrival that this answers, empty for what was handed in at the organizers' desk."""


class SubmissionRefused(_ContestEvent):
    """A submission was not admitted, for these reasons. It used up nothing. `arrival` as in `SubmissionReceived`."""

    kind: Literal["submission_refused"] = "submission_refused"
    actor: Actor
    name: str
    team: str
    task: str
    side: Side | None
    problems: list[str]
    arrival: Handle | Literal[""] = ""


class SubmissionWithdrawn(_ContestEvent):
    """Its team takes a submission back. It stays on record, unranked, and counts as an attempt."""

    kind: Literal["submission_withdrawn"] = "submission_withdrawn"
    actor: Actor
    id: str
    reason: Reason


class SubmissionDisqualified(_ContestEvent):
    """The organizers take a submission out of the ranking."""

    kind: Literal["submission_disqualified"] = "submission_disqualified"
    actor: Actor
    id: str
    reason: Reason


class SubmissionCorrected(_ContestEvent):
    """What a submission says of itself was wrong or late: its licence or its source address (rule A6)."""

    kind: Literal["submission_corrected"] = "submission_corrected"
    actor: Actor
    id: str
    licence: str | None = None
    source: str | None = None
    reason: Reason


class RoundPlayed(_ContestEvent):
    """A round of one task is complete. `head` is the hash of the last entry of its own ledger."""

    kind: Literal["round_played"] = "round_played"
    actor: Actor
    round: str
    task: str
    head: str


class RulesChanged(_ContestEvent):
    """The boards are judged by these rules from now on. What was played stays."""

    kind: Literal["rules_changed"] = "rules_changed"
    actor: Actor
    rules: dict[str, Any]
    reason: Reason


class RejudgementDropped(_ContestEvent):
    """A change of rules was looked at and not made."""

    kind: Literal["rejudgement_dropped"] = "rejudgement_dropped"
    actor: Actor
    rules: dict[str, Any]
    reason: Reason


class BundlePublished(_ContestEvent):
    """A bundle was published: `sealed` or `full`, with the digest of its manifest."""

    kind: Literal["bundle_published"] = "bundle_published"
    actor: Actor
    bundle: Literal["sealed", "full"]
    digest: str


class Role(StrEnum):
    """What somebody may do in a contest. Who is of which team say the teams."""

    ORGANIZER = "organizer"
    RATER = "rater"
    BOARD = "board"
    """Of the review board."""


class RoleGranted(_ContestEvent):
    """Somebody has a role from now on. Granting it again replaces the name."""

    kind: Literal["role_granted"] = "role_granted"
    actor: Actor
    person: PersonRecord
    role: Role


class RoleRevoked(_ContestEvent):
    """Somebody has a role no more. `person` is an id as in `PersonRecord`."""

    kind: Literal["role_revoked"] = "role_revoked"
    actor: Actor
    person: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(reject_control_characters)]
    role: Role
    reason: Reason


class SubmissionArrived(_ContestEvent):
    """The last byte of what a team hands in is here; what becomes of it says a later event that names it.

    `last_byte` is when that was, in UTC: what counts for the close, for the day (C9) and for what is earlier (A16).
    It is before the time of this entry where others wrote to the ledger meanwhile, and empty in older ledgers, where
    the entry's time counts. What came is a file of `size` bytes with this digest, or an image: then `image` is
    `NAME@sha256:...`, `digest` its digest, `size` 0 and `file_name` empty. `name` and `side` are empty where the
    manifest says them.
    """

    kind: Literal["submission_arrived"] = "submission_arrived"
    actor: Actor
    arrival: Handle
    team: Annotated[_Word, Field(min_length=1)]
    task: Annotated[_Word, Field(min_length=1)]
    side: Side | None
    name: _Word = ""
    file_name: Annotated[str, Field(max_length=255), AfterValidator(reject_control_characters)] = ""
    size: int = Field(ge=0)
    digest: Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
    image: Annotated[str, Field(max_length=500), AfterValidator(reject_control_characters)] = ""
    last_byte: Annotated[str, Field(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00)?$")] = ""

    @model_validator(mode="after")
    def _is_one_thing(self) -> "SubmissionArrived":
        if self.image and not self.image.endswith(f"@{self.digest}"):
            raise ValueError("an image is named by its digest: write NAME@sha256:...")
        if self.image and (self.file_name or self.size):
            raise ValueError("a file and an image: hand in one of them")
        return self


class ArrivalMatched(_ContestEvent):
    """What arrived is the same as a submission of the same team that plays already; it used up nothing."""

    kind: Literal["arrival_matched"] = "arrival_matched"
    actor: Actor
    arrival: Handle
    submission: str


class RoundRequested(_ContestEvent):
    """Somebody asks for a round to be played: of one task, or of all where `task` is empty."""

    kind: Literal["round_requested"] = "round_requested"
    actor: Actor
    request: Handle
    round: Annotated[_Word, Field(min_length=1)]
    task: _Word = ""


class RoundRequestClosed(_ContestEvent):
    """Nobody plays a requested round any more: it is complete, or could not be played and why, or was called off."""

    kind: Literal["round_request_closed"] = "round_request_closed"
    actor: Actor
    request: Handle
    outcome: Literal["played", "failed", "cancelled"]
    problem: Annotated[str, Field(max_length=10_000)] = ""


class ContestAnnounced(_ContestEvent):
    """The organizers say something to everybody."""

    kind: Literal["contest_announced"] = "contest_announced"
    actor: Actor
    title: Annotated[_Word, Field(min_length=1)]
    text: _Text


class SubmissionsClosed(_ContestEvent):
    """Nothing is received from now on, whatever the contest file's dates say. What arrived before is still admitted."""

    kind: Literal["submissions_closed"] = "submissions_closed"
    actor: Actor
    reason: Annotated[str, Field(max_length=2000)] = ""


class SubmissionsReopened(_ContestEvent):
    """The organizers take back that they closed submissions: the contest file's dates decide again."""

    kind: Literal["submissions_reopened"] = "submissions_reopened"
    actor: Actor
    reason: Reason


class AppealFiled(_ContestEvent):
    """A team objects to what was decided about its submission, or to one finding against it."""

    kind: Literal["appeal_filed"] = "appeal_filed"
    actor: Actor
    appeal: Handle
    team: Annotated[_Word, Field(min_length=1)]
    submission: str
    finding: _Word = ""
    text: _Text


class AppealDecided(_ContestEvent):
    """The review board decided about an appeal, once and for all."""

    kind: Literal["appeal_decided"] = "appeal_decided"
    actor: Actor
    appeal: Handle
    upheld: bool
    reason: Reason


NameOf = Callable[[str], str]
"""Returns what to call a person, by the id that the ledger has."""


class FormatEvent(_ContestEvent):
    """An event of one contest format. Its `kind` has the format's name before a dot: `tournament.finalists_promoted`.

    Which kinds there are says `Format.event_types`; see `ledger.event_registry`.
    """

    withheld_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that no public bundle shows. Each needs a default."""
    changes_boards: ClassVar[bool] = True
    """Whether results are computed again at once. Where there are thousands of a kind, they are at a later event."""

    kind: str
    actor: Actor
    reason: Annotated[str, Field(max_length=2000)] = ""
    """Why, where it is not plain."""

    def follows_from(self) -> tuple[str, str] | None:
        """Returns the round and the task from whose boards this event follows, None where it was decided freely."""
        return None

    def recorded_round(self) -> str:
        """Returns the round of which this event records what came out, "" for none: see `LedgerFold.round_events`."""
        return ""

    @property
    def kind_in_words(self) -> str:
        """Its kind as people read it, without the format's name: `picture received`."""
        return self.kind.rpartition(".")[2].replace("_", " ")

    def summary(self) -> dict[str, str]:
        """Returns what it says, for people, a word or two for each part."""
        fields = self.model_dump(mode="json", exclude={"kind", "actor"}, exclude_defaults=True)
        return {name: _in_words(value) for name, value in fields.items()}

    def in_words(self, name_of: NameOf) -> str:
        """Returns what was done, to be read after the name of who did it: `published d1`, without its explanation.

        `name_of` returns what to call a person by their id. A format says it of each of its events.
        """
        del name_of
        said = "; ".join(f"{part}: {text}" for part, text in self.summary().items() if part != "reason")
        return f"noted: {self.kind_in_words}" + (f" ({said})" if said else "")

    def explanation(self) -> str:
        """Returns the reason that was given, or what a team says, "" where there is none."""
        return self.reason

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns what it means for a submission on a task and why, for its history; None where it is of no concern."""
        del submission, task
        return None


def _in_words(value: object) -> str:
    """Returns a value of an event's JSON on one line: records in a list, such as transfers, are counted."""
    match value:
        case [dict(), *_]:
            return str(len(value))
        case list():
            return ", ".join(map(_in_words, value))
        case dict():
            return ", ".join(f"{name}: {_in_words(part)}" for name, part in value.items())
        case None:
            return "none"
    return str(value)


CoreContestEvent = (
    ContestOpened
    | TeamAdded
    | SubmissionReceived
    | SubmissionRefused
    | SubmissionWithdrawn
    | SubmissionDisqualified
    | SubmissionCorrected
    | RoundPlayed
    | RulesChanged
    | RejudgementDropped
    | BundlePublished
    | RoleGranted
    | RoleRevoked
    | SubmissionArrived
    | ArrivalMatched
    | RoundRequested
    | RoundRequestClosed
    | ContestAnnounced
    | SubmissionsClosed
    | SubmissionsReopened
    | AppealFiled
    | AppealDecided
)

ContestEvent = CoreContestEvent | FormatEvent
