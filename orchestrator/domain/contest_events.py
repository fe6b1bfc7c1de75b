"""The events of a contest: what people did, who did it, and why. The ledger adds the time.

No event is ever edited: a withdrawal, a disqualification, a correction and a change of rules are events too. Events are
pydantic models for the reason that `events` gives: they are read back from disk, perhaps years later.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from orchestrator.domain.ids import Digest
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import reject_control_characters
from orchestrator.domain.versions import FORMAT_VERSION

ACTOR_LIMIT = 120
Actor = Annotated[str, Field(min_length=1, max_length=ACTOR_LIMIT), AfterValidator(reject_control_characters)]
"""The name of the person who acted, as the operator gave it. It is published."""
Reason = Annotated[str, Field(min_length=1, max_length=2000)]
Handle = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
"""The id of an arrival, a request or an appeal: sixteen hex digits, drawn at random."""
_Word = Annotated[str, Field(max_length=120), AfterValidator(reject_control_characters)]
_Name = Annotated[str, Field(min_length=1, max_length=120), AfterValidator(reject_control_characters)]
_PersonId = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(reject_control_characters)]
_OptionalReason = Annotated[str, Field(max_length=2000)]
_Text = Annotated[str, Field(min_length=1, max_length=10_000)]


class _ContestEvent(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ContestOpened(_ContestEvent):
    """The first event of a contest.

    `contest` is the whole resolved contest file; `key_fingerprint` the fingerprint of the organizers' key. `software`
    is the version of this software that opened the contest, `ledger_version` the version of the ledger's format.
    """

    kind: Literal["contest_opened"] = "contest_opened"
    ledger_version: Literal[2] = FORMAT_VERSION
    actor: Actor
    contest: dict[str, Any]
    key_fingerprint: str
    software: str


class PersonRecord(_ContestEvent):
    """A participant (rule A1). `id` identifies the person, such as an e-mail address; it is not published."""

    id: _PersonId
    name: _Name
    organizer: bool = False
    """Whether this person belongs to the organizing institution (rule A5)."""


class TeamAdded(_ContestEvent):
    """A team was added with its members. Adding it again replaces its members from then on."""

    kind: Literal["team_added"] = "team_added"
    actor: Actor
    team: _Name
    people: list[PersonRecord]


class SubmissionReceived(_ContestEvent):
    """A submission was admitted to the contest.

    `attempts_left` is how many attempts its team has after this one: in all (A4) or on that day (C9), and 0 if the
    contest limits neither. `digest` identifies what is started; `folder` is the folder in which the organizers keep its
    files, empty for an image. `warnings` are those that its team got, such as a missing licence (rule A6). `pixels` and
    `decoder` are set for pictures, see `submissions.Submission`; both are empty for a program.
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
    """The arrival from which the submission comes; empty if an organizer submitted it with a command."""


class SubmissionRefused(_ContestEvent):
    """A submission was refused because of `problems`. It costs no attempt. `arrival` is as in `SubmissionReceived`."""

    kind: Literal["submission_refused"] = "submission_refused"
    actor: Actor
    name: str
    team: str
    task: str
    side: Side | None
    problems: list[str]
    arrival: Handle | Literal[""] = ""


class SubmissionWithdrawn(_ContestEvent):
    """A submission was withdrawn by its team. It is still shown, unranked, and counts as an attempt."""

    kind: Literal["submission_withdrawn"] = "submission_withdrawn"
    actor: Actor
    id: str
    reason: Reason


class SubmissionDisqualified(_ContestEvent):
    """The organizers took a submission out of the ranking."""

    kind: Literal["submission_disqualified"] = "submission_disqualified"
    actor: Actor
    id: str
    reason: Reason


class SubmissionCorrected(_ContestEvent):
    """A submission's licence or source address was corrected, or given late (rule A6). None leaves a field as it is."""

    kind: Literal["submission_corrected"] = "submission_corrected"
    actor: Actor
    id: str
    licence: str | None = None
    source: str | None = None
    reason: Reason


class OrganizersRecognized(_ContestEvent):
    """Somebody was marked as of the organizing institution after having submitted these with a team (rule A5).

    The person may have left the team meanwhile. The event names nobody, so bundles show it.
    """

    kind: Literal["organizers_recognized"] = "organizers_recognized"
    actor: Actor
    submissions: Annotated[list[str], Field(min_length=1)]


class RoundPlayed(_ContestEvent):
    """A round of one task is complete. `head` is the hash of the last entry of its own ledger."""

    kind: Literal["round_played"] = "round_played"
    actor: Actor
    round: str
    task: str
    head: str


class RulesChanged(_ContestEvent):
    """Leaderboards follow these rules from now on. Rounds that were played are kept."""

    kind: Literal["rules_changed"] = "rules_changed"
    actor: Actor
    rules: dict[str, Any]
    reason: Reason


class RejudgementDropped(_ContestEvent):
    """The organizers considered a change of rules and did not make it."""

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
    """A role of a person in a contest. Membership of a team is not a role: see `TeamAdded`."""

    ORGANIZER = "organizer"
    RATER = "rater"
    BOARD = "board"
    """A member of the review board."""


class RoleGranted(_ContestEvent):
    """A person has a role from now on. Granting it again replaces the person's name."""

    kind: Literal["role_granted"] = "role_granted"
    actor: Actor
    person: PersonRecord
    role: Role


class RoleRevoked(_ContestEvent):
    """A person lost a role. `person` is an id as in `PersonRecord`."""

    kind: Literal["role_revoked"] = "role_revoked"
    actor: Actor
    person: _PersonId
    role: Role
    reason: Reason


class SubmissionArrived(_ContestEvent):
    """A submission arrived completely. A later event, which names the arrival, says whether it is received or refused.

    `last_byte` is the time of its last byte, in UTC. It decides whether the submission is before the close and to which
    day it belongs (C9); the order of the ledger decides which submission is earlier (A16). It is earlier than this
    entry's time if others wrote to the ledger meanwhile, and empty in older ledgers, where the entry's time counts.
    What arrived is a file of `size` bytes with this digest, or an image: then `image` is `NAME@sha256:...`, `digest`
    its digest, `size` 0 and `file_name` empty. `name` and `side` are empty if the manifest gives them.
    """

    kind: Literal["submission_arrived"] = "submission_arrived"
    actor: Actor
    arrival: Handle
    team: _Name
    task: _Name
    side: Side | None
    name: _Word = ""
    file_name: Annotated[str, Field(max_length=255), AfterValidator(reject_control_characters)] = ""
    size: int = Field(ge=0)
    digest: Digest
    image: Annotated[str, Field(max_length=500), AfterValidator(reject_control_characters)] = ""
    last_byte: Annotated[str, Field(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00)?$")] = ""

    @model_validator(mode="after")
    def _is_one_thing(self) -> "SubmissionArrived":
        if self.image and not self.image.endswith(f"@{self.digest}"):
            raise ValueError("an image is named by its digest: write NAME@sha256:...")
        if self.image and (self.file_name or self.size):
            raise ValueError("a file and an image: submit one of them")
        return self


class ArrivalMatched(_ContestEvent):
    """An arrival is identical to a submission of the same team that plays already. It costs no attempt."""

    kind: Literal["arrival_matched"] = "arrival_matched"
    actor: Actor
    arrival: Handle
    submission: str


class RoundRequested(_ContestEvent):
    """Somebody requested that a round be played: on one task, or on every task if `task` is empty."""

    kind: Literal["round_requested"] = "round_requested"
    actor: Actor
    request: Handle
    round: _Name
    task: _Word = ""


class RoundRequestClosed(_ContestEvent):
    """A request for a round ended: the round was played, failed because of `problem`, or was cancelled."""

    kind: Literal["round_request_closed"] = "round_request_closed"
    actor: Actor
    request: Handle
    outcome: Literal["played", "failed", "cancelled"]
    problem: Annotated[str, Field(max_length=10_000)] = ""


class ContestAnnounced(_ContestEvent):
    """The organizers made an announcement to everybody."""

    kind: Literal["contest_announced"] = "contest_announced"
    actor: Actor
    title: _Name
    text: _Text


class SubmissionsClosed(_ContestEvent):
    """The organizers closed submissions, whatever the contest file's dates say. Earlier arrivals are still admitted."""

    kind: Literal["submissions_closed"] = "submissions_closed"
    actor: Actor
    reason: _OptionalReason = ""


class SubmissionsReopened(_ContestEvent):
    """The organizers reopened submissions: the contest file's dates apply again."""

    kind: Literal["submissions_reopened"] = "submissions_reopened"
    actor: Actor
    reason: Reason


class AppealFiled(_ContestEvent):
    """A team appealed against a decision about its submission, or against one finding."""

    kind: Literal["appeal_filed"] = "appeal_filed"
    actor: Actor
    appeal: Handle
    team: _Name
    submission: str
    finding: _Word = ""
    text: _Text


class AppealDecided(_ContestEvent):
    """The review board decided an appeal. The decision is final."""

    kind: Literal["appeal_decided"] = "appeal_decided"
    actor: Actor
    appeal: Handle
    upheld: bool
    reason: Reason


NameOf = Callable[[str], str]
"""Returns the name to show for a person, given the id in the ledger."""


class FormatEvent(_ContestEvent):
    """An event of one contest format. Its `kind` has the format's name before a dot: `tournament.finalists_promoted`.

    `Format.event_types` lists the kinds of a format; see `ledger.event_registry`.
    """

    withheld_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that are left out of public bundles. Each needs a default."""
    changes_boards: ClassVar[bool] = True
    """Whether results are computed again at once. False for kinds with thousands of events; a later event does it."""

    kind: str
    actor: Actor
    reason: _OptionalReason = ""
    """The reason, if one was given."""

    def follows_from(self) -> tuple[str, str] | None:
        """Returns the round and task from whose leaderboards this event follows, None if it was decided freely."""
        return None

    def recorded_round(self) -> str:
        """Returns the round whose result this event records, "" for none: see `LedgerFold.round_events`."""
        return ""

    @property
    def kind_in_words(self) -> str:
        """Its kind in words, without the format's name: `picture received`."""
        return self.kind.rpartition(".")[2].replace("_", " ")

    def summary(self) -> dict[str, str]:
        """Returns its fields in words, by name; fields with their default value are left out."""
        fields = self.model_dump(mode="json", exclude={"kind", "actor"}, exclude_defaults=True)
        return {name: _in_words(value) for name, value in fields.items()}

    def in_words(self, name_of: NameOf) -> str:
        """Returns what was done, to be read after the actor's name, without the explanation: `published d1`.

        `name_of` returns the name of a person, given the id. A format overrides this for each of its events.
        """
        del name_of
        said = "; ".join(f"{part}: {text}" for part, text in self.summary().items() if part != "reason")
        return f"recorded: {self.kind_in_words}" + (f" ({said})" if said else "")

    def explanation(self) -> str:
        """Returns the reason that was given, or the team's statement, "" if there is none."""
        return self.reason

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns its effect on a submission and the reason, for the submission's history; None if it has no effect."""
        del submission, task
        return None


def _in_words(value: object) -> str:
    """Returns a value of an event's JSON as one line. Records in a list, such as transfers, are only counted."""
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
    | OrganizersRecognized
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
