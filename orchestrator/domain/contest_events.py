"""What people do in a contest, as its ledger keeps it: who, and why. When is the ledger's own.

Nothing is ever edited: a withdrawal, a disqualification, a correction and a changed rule are acts of their own. Models
for the same reason as in `events`: they are read back from disk years later.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from orchestrator.domain.submissions import Side
from orchestrator.domain.text import reject_control_characters
from orchestrator.domain.versions import FORMAT_VERSION

ACTOR_LIMIT = 120
Actor = Annotated[str, Field(min_length=1, max_length=ACTOR_LIMIT), AfterValidator(reject_control_characters)]
"""Who acted, as the operator gave it. It is published."""
Reason = Annotated[str, Field(min_length=1, max_length=2000)]


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


class SubmissionRefused(_ContestEvent):
    """A submission was not admitted, for these reasons. It used up nothing."""

    kind: Literal["submission_refused"] = "submission_refused"
    actor: Actor
    name: str
    team: str
    task: str
    side: Side | None
    problems: list[str]


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
    """A bundle left the house: `sealed` or `full`, with the digest of its manifest."""

    kind: Literal["bundle_published"] = "bundle_published"
    actor: Actor
    bundle: Literal["sealed", "full"]
    digest: str


class FormatEvent(_ContestEvent):
    """An event of one contest format. Its `kind` has the format's name before a dot: `tournament.finalists_promoted`.

    Which kinds there are says `Format.event_types`; see `ledger.event_registry`.
    """

    withheld_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that no public bundle shows. Each needs a default."""

    kind: str
    actor: Actor
    reason: Annotated[str, Field(max_length=2000)] = ""
    """Why, where it is not plain."""

    def follows_from(self) -> tuple[str, str] | None:
        """Returns the round and the task from whose boards this event follows, None where it was decided freely."""
        return None

    def summary(self) -> dict[str, str]:
        """Returns what it says, for people, a word or two for each part."""
        fields = self.model_dump(mode="json", exclude={"kind", "actor"}, exclude_defaults=True)
        return {name: ", ".join(value) if isinstance(value, list) else str(value) for name, value in fields.items()}

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns what it means for a submission on a task and why, for its history; None where it is of no concern."""
        del submission, task
        return None


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
)

ContestEvent = CoreContestEvent | FormatEvent
