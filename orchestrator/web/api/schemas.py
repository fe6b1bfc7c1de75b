"""The models of the API's requests and answers, which openapi.json documents."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from orchestrator.application.contests.admission_steps import AdmissionStep
from orchestrator.application.contests.submission_allowance import TriesLeft
from orchestrator.application.contests.team_reports import TeamFinding
from orchestrator.domain.season import Appeal, Arrival, Entry
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import reject_control_characters
from orchestrator.formats.unrestricted.recusal import ConflictSource
from orchestrator.reports.team import RoundParticipation
from orchestrator.scoring import results_file
from orchestrator.web.account_forms import NAME_LIMIT
from orchestrator.web.tokens import Scope

Reason = Annotated[str, Field(min_length=1, max_length=2000)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ContestPart(_Part):
    """The contest: its name, when it takes submissions, and its rules."""

    contest: str
    title: str
    format: str
    opens: str | None
    closes: str | None
    labels: bool | str
    access: str
    tasks: list[str]
    takes_pictures: bool = Field(description="whether attacks submit archives of pictures in place of programs")
    rules: dict[str, Any]
    prizes: list[str] = Field(description="what may be won, a sentence each")
    key: str = Field(description="the fingerprint of the key that signs receipts")
    largest_upload: int = Field(description="bytes of the largest file")


class RoundPart(_Part):
    """A round of a task."""

    task: str
    round: str
    state: Literal["played", "begun", "requested", "ready", "blocked"]
    blocked: str = Field(description="why it cannot be played yet; empty where it can")


class AnnouncementPart(_Part):
    """An announcement of the organizers."""

    time: str
    title: str
    text: str


class StatusPart(_Part):
    """The current state of the contest."""

    time: str = Field(description="the service's clock, in UTC")
    title: str
    state: Literal["before", "open", "closed"]
    opens: str | None
    closes: str | None = Field(description="when submissions close or closed; null where nobody said when")
    closed_by_organizers: bool = Field(description="whether the organizers closed them, and not a date of the contest")
    close_reason: str = Field(description="why the organizers closed them; empty where they did not say")
    waiting_arrivals: int = Field(description="what arrived and was not answered yet, of all teams")
    rounds: list[RoundPart]
    head: str = Field(description="hash of the last entry of the contest's ledger")


class AccountPart(_Part):
    """The account of a token, and what the token allows."""

    person: str
    name: str
    teams: list[str]
    roles: list[str]
    token: str
    scope: Scope
    expires: str


class TeamPart(_Part):
    """A team that you are a member of."""

    team: str
    people: list[str]


class NewTeam(_Part):
    """Founds a team."""

    team: Annotated[str, Field(min_length=1, max_length=NAME_LIMIT), AfterValidator(reject_control_characters)]


class NewInvitation(_Part):
    """Requests a link that makes one person a member of a team."""

    team: str


class InvitationPart(_Part):
    """A link that makes one person a member of a team. It is returned only once."""

    link: str
    expires: str


class InvitationLink(_Part):
    """Accepts an invitation to a team."""

    link: Annotated[str, Field(min_length=1, max_length=500, description="as the person who invited you sent it")]


class TriesPart(_Part):
    """How many submissions a team may still make on one side of a task."""

    task: str
    side: Side
    used: int
    allowed: int | None = Field(description="in the whole contest (A4); null without a limit")
    used_today: int
    allowed_today: int | None = Field(description="in a day in UTC (C9); null without a limit")
    waiting: int = Field(description="arrivals on this task that are not decided yet; each may use up one")
    problems: list[str] = Field(description="why nothing of this kind would be received now (A1, A4, C9)")


class StepPart(_Part):
    """A step of an admission; or a line of a builder's log, for which `passed` is null."""

    time: str
    step: str
    passed: bool | None
    detail: str
    problem: str
    remedy: str


class ArrivalPart(_Part):
    """A file or image that a team submitted, and its outcome."""

    arrival: str
    team: str
    task: str
    side: Side | None
    name: str
    file_name: str
    size: int
    digest: str
    image: str
    time: str = Field(description="when its last byte was in: what counts for the close, in UTC")
    state: Literal["waiting", "in admission", "received", "refused"]
    submission: str = Field(description="what it became, empty before and otherwise")
    problems: list[str]


class WatchedArrivalPart(ArrivalPart):
    """An arrival with the steps of its admission so far."""

    steps: list[StepPart]


class SubmissionPart(_Part):
    """A submission that was received."""

    submission: str
    name: str
    team: str
    task: str
    side: Side
    digest: str
    image: str
    licence: str
    source: str
    attempt: int
    received: str
    arrived: str
    state: Literal["plays", "withdrawn", "disqualified"]
    reason: str


class EvidencePart(_Part):
    """A finding against a submission, with the public part of its evidence."""

    finding: str = Field(description="what an appeal names it by")
    round: str
    task: str
    meaning: str
    evidence: results_file.FindingPart


class BoardRowPart(_Part):
    """A row of a board."""

    board: str
    title: str
    measure: str
    unit: str
    row: results_file.RowPart


class ResultPart(_Part):
    """The results of a submission in a round (A2)."""

    round: str
    task: str
    submission: results_file.SubmissionPart
    rows: list[BoardRowPart]


class AppealPart(_Part):
    """An appeal, with its decision if there is one."""

    appeal: str
    team: str
    submission: str
    finding: str = Field(description="as `/submissions/ID/findings` names it; empty for one about a disqualification")
    text: str
    time: str
    state: Literal["open", "upheld", "dismissed"]
    reason: str


class ImageSubmission(_Part):
    """Submits an image in a registry."""

    team: str
    task: str = Field("", description="may be empty where the contest has one")
    image: str = Field(description="NAME@sha256:...")
    name: str
    side: Side


class Withdrawal(_Part):
    """Withdraws a submission."""

    reason: Reason


class Correction(_Part):
    """Corrects a submission's licence or source."""

    licence: str | None = None
    source: str | None = None
    reason: Reason


class AppealText(_Part):
    """Appeals against a submission's disqualification, or against one finding."""

    text: Annotated[str, Field(min_length=1, max_length=10_000)]
    finding: str = Field("", description="as `/submissions/ID/findings` names it")


class RulingAppealText(_Part):
    """Appeals against the ruling on a picture (U8)."""

    text: Annotated[str, Field(min_length=1, max_length=10_000)]


class RulingAppealPart(_Part):
    """A recorded appeal against the ruling on a picture."""

    appeal: str
    picture: str
    team: str


DeclaredSource = Literal["declared", "co_author", "advisor"]
"""The sources of conflicts that people can declare."""


class ConflictChoicesPart(_Part):
    """The board members with whom a team may declare a conflict, and the kinds of conflicts."""

    members: list[str] = Field(description="of the review board")
    sources: list[str]


class TeamConflict(_Part):
    """Declares a team's conflict with a board member, who then does not judge its cases (U8)."""

    member: str
    source: DeclaredSource


class OwnConflict(_Part):
    """Declares the calling board member's own conflict with a team (U8)."""

    team: str
    source: DeclaredSource


class ConflictPart(_Part):
    """A conflict of a board member with a team. A co-author's ends after 48 months."""

    member: str
    team: str
    source: ConflictSource


class WaivableConflictPart(_Part):
    """Another board member's conflict that was computed from mail addresses and may be a coincidence."""

    member: str
    team: str


class Waiver(_Part):
    """Waives such a conflict. The reason is public."""

    member: str
    team: str
    reason: Reason


class BoardConflictsPart(_Part):
    """A board member's own conflicts, and the conflicts of other members that this member may waive."""

    member: str = Field(description="what one is called on the board")
    own: list[ConflictPart]
    waivable: list[WaivableConflictPart]


class DeviceRequest(_Part):
    """Requests a token for a program."""

    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=80,
            pattern=r"^[^\x00-\x1f\x7f]+$",
            description="a name without control characters",
        ),
    ]
    scope: Scope = Scope.SUBMIT


class DevicePart(_Part):
    """The code and the address that the program shows to the person, and the code that it polls with."""

    device_code: str
    user_code: str
    verification_uri: str
    interval: int
    expires_in: int


class DeviceCode(_Part):
    """The code that the program polls with."""

    device_code: Annotated[str, Field(min_length=1, max_length=200)]


class TokenPart(_Part):
    """A token, returned only once."""

    token: str


def arrival_part(arrival: Arrival, steps: list[AdmissionStep]) -> WatchedArrivalPart:
    """Returns the part of an arrival with its steps."""
    waiting = "in admission" if steps else "waiting"
    return WatchedArrivalPart.model_validate(
        {
            **{name: getattr(arrival, name) for name in ArrivalPart.model_fields if hasattr(arrival, name)},
            "arrival": arrival.id,
            "state": arrival.outcome or waiting,
            "problems": list(arrival.problems),
            "steps": [StepPart(**{name: getattr(step, name) for name in StepPart.model_fields}) for step in steps],
        }
    )


def submission_part(entry: Entry) -> SubmissionPart:
    """Returns the part of a submission."""
    state = "withdrawn" if entry.withdrawn else "disqualified" if entry.disqualified else "plays"
    return SubmissionPart.model_validate(
        {
            **{name: getattr(entry, name) for name in SubmissionPart.model_fields if hasattr(entry, name)},
            "submission": entry.id,
            "received": entry.received_at,
            "arrived": entry.arrived_at,
            "state": state,
            "reason": entry.withdrawn or entry.disqualified,
        }
    )


def tries_part(tries: TriesLeft) -> TriesPart:
    """Returns the part of a team's remaining tries."""
    own = {name: getattr(tries, name) for name in TriesPart.model_fields}
    return TriesPart.model_validate(own | {"problems": [str(each) for each in tries.problems]})


def evidence_part(found: TeamFinding) -> EvidencePart:
    """Returns the part of a finding."""
    return EvidencePart(
        finding=found.label, round=found.round, task=found.task, meaning=found.meaning, evidence=found.part
    )


def result_part(played: RoundParticipation) -> ResultPart:
    """Returns the part of a submission's results in a round."""
    rows = [
        BoardRowPart(board=board.name, title=board.title, measure=board.measure, unit=board.unit, row=row)
        for board, row in played.rows
    ]
    return ResultPart(round=played.results.round, task=played.results.task.name, submission=played.part, rows=rows)


def appeal_part(appeal: Appeal, labels: Mapping[str, str]) -> AppealPart:
    """Returns the part of an appeal. `labels` are the findings' labels by their ids in the ledger."""
    decision = appeal.decision
    return AppealPart.model_validate(
        {
            **{name: getattr(appeal, name) for name in AppealPart.model_fields if hasattr(appeal, name)},
            "appeal": appeal.id,
            "finding": labels.get(appeal.finding, ""),
            "state": "open" if decision is None else "upheld" if decision.upheld else "dismissed",
            "reason": decision.reason if decision else "",
        }
    )
