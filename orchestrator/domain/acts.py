"""What people do in a contest, as its ledger keeps it: who, and why. When is the ledger's own.

Nothing is ever edited: a withdrawal, a disqualification, a correction and a changed rule are acts of their own. Models
for the same reason as in `events`: they are read back from disk years later.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from orchestrator.domain.submissions import Side
from orchestrator.domain.text import plain

WHO_LIMIT = 120
Who = Annotated[str, Field(min_length=1, max_length=WHO_LIMIT), AfterValidator(plain)]
"""Who acted, as the operator gave it. It is published."""
Reason = Annotated[str, Field(min_length=1, max_length=2000)]


class _Act(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ContestOpened(_Act):
    """The first act. `contest` is the whole resolved contest file; `key` the fingerprint of the organizers' key."""

    kind: Literal["contest_opened"] = "contest_opened"
    by: Who
    contest: dict[str, Any]
    key: str
    software: str


class PersonRecord(_Act):
    """A participant (rule A1). `id` is what tells people apart, such as an e-mail address; it is not published."""

    id: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(plain)]
    name: Annotated[str, Field(min_length=1, max_length=120), AfterValidator(plain)]
    organizer: bool = False
    """Whether this person is of the organizing institution (rule A5)."""


class TeamAdded(_Act):
    """A team with its people. Adding it again replaces its people from then on."""

    kind: Literal["team_added"] = "team_added"
    by: Who
    team: Annotated[str, Field(min_length=1, max_length=120), AfterValidator(plain)]
    people: list[PersonRecord]


class SubmissionReceived(_Act):
    """A submission was admitted to the contest; `attempt` of `attempt + left` its team may make (rule A4).

    `digest` is the identity of what is started, `folder` where the organizers keep its files, empty for an image.
    `warnings` are what its team was told, such as a missing licence (rule A6).
    """

    kind: Literal["submission_received"] = "submission_received"
    by: Who
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
    left: int = Field(ge=0)
    warnings: list[str] = []


class SubmissionRefused(_Act):
    """A submission was not admitted, for these reasons. It used up nothing."""

    kind: Literal["submission_refused"] = "submission_refused"
    by: Who
    name: str
    team: str
    task: str
    side: Side | None
    problems: list[str]


class SubmissionWithdrawn(_Act):
    """Its team takes a submission back. It stays on record, unranked, and counts as an attempt."""

    kind: Literal["submission_withdrawn"] = "submission_withdrawn"
    by: Who
    id: str
    reason: Reason


class SubmissionDisqualified(_Act):
    """The organizers take a submission out of the ranking."""

    kind: Literal["submission_disqualified"] = "submission_disqualified"
    by: Who
    id: str
    reason: Reason


class SubmissionCorrected(_Act):
    """What a submission says of itself was wrong or late: its licence or its source address (rule A6)."""

    kind: Literal["submission_corrected"] = "submission_corrected"
    by: Who
    id: str
    licence: str | None = None
    source: str | None = None
    reason: Reason


class RoundPlayed(_Act):
    """A round of one task is complete. `head` is the hash of the last entry of its own ledger."""

    kind: Literal["round_played"] = "round_played"
    by: Who
    round: str
    task: str
    head: str


class FinalistsPromoted(_Act):
    """Who goes on to the next round of a task, and who stands for each team (rules A4, A11, A12)."""

    kind: Literal["finalists_promoted"] = "finalists_promoted"
    by: Who
    task: str
    attacks: list[str]
    defences: list[str]
    not_standing: dict[str, str] = {}
    """Submissions that another one of their team stands for, by id."""
    reason: Annotated[str, Field(max_length=2000)] = ""
    """Why it was done again after the next round was begun; empty otherwise."""


class RulesChanged(_Act):
    """The boards are judged by these rules from now on. What was played stays."""

    kind: Literal["rules_changed"] = "rules_changed"
    by: Who
    rules: dict[str, Any]
    reason: Reason


class RejudgementDropped(_Act):
    """A change of rules was looked at and not made."""

    kind: Literal["rejudgement_dropped"] = "rejudgement_dropped"
    by: Who
    rules: dict[str, Any]
    reason: Reason


class BundlePublished(_Act):
    """A bundle left the house: `sealed` or `full`, with the digest of its manifest."""

    kind: Literal["bundle_published"] = "bundle_published"
    by: Who
    bundle: Literal["sealed", "full"]
    digest: str


Act = (
    ContestOpened
    | TeamAdded
    | SubmissionReceived
    | SubmissionRefused
    | SubmissionWithdrawn
    | SubmissionDisqualified
    | SubmissionCorrected
    | RoundPlayed
    | FinalistsPromoted
    | RulesChanged
    | RejudgementDropped
    | BundlePublished
)
