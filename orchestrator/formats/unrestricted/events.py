"""The unrestricted contest's own events in a contest's ledger. What follows from them says `state`.

Members of the review board and raters are called by names that say nothing of who they are: both are published.
"""

from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from orchestrator.domain.contest_events import FormatEvent, Handle
from orchestrator.formats.unrestricted.money import MAX_UNITS, REASON_LIMIT, Transfer, TransferKind
from orchestrator.formats.unrestricted.questionnaire import Answers
from orchestrator.formats.unrestricted.recusal import ConflictSource
from orchestrator.formats.unrestricted.round_names import OTHER_SEEDS, eligibility_round, week_round

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="letters, digits, ., _ and -")]
"""What a member of the board, a rater, a batch or a submission is called."""
WeekId = Annotated[str, Field(pattern=r"^[0-9]{4}-W[0-9]{2}$", description="a week such as 2026-W48")]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
ClassName = Annotated[str, Field(min_length=1, max_length=100)]
Team = Annotated[str, Field(min_length=1, max_length=120)]
Line = Annotated[str, Field(max_length=500)]
PublicReason = Annotated[str, Field(min_length=1, max_length=REASON_LIMIT)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Vote(_Record):
    """What the board voted on: who might vote, who was recused and why, and who did vote (U8)."""

    eligible: list[Name]
    recused: dict[Name, Line]
    in_favour: list[Name]
    against: list[Name]


class TransferRecord(_Record):
    """Money that moves from one account to another, see `money.Transfer`."""

    kind: TransferKind
    source: Line
    target: Line
    amount: Annotated[int, Field(ge=1, le=MAX_UNITS)]
    defence: Line = ""
    team: Line = ""
    days: Annotated[int, Field(ge=0)] = 0
    award: Line = ""
    note: Line = ""

    @classmethod
    def of(cls, transfer: Transfer) -> "TransferRecord":
        """Returns the record of a transfer."""
        return cls(**{name: getattr(transfer, name) for name in cls.model_fields})

    def transfer(self) -> Transfer:
        """Returns the transfer that is on record."""
        return Transfer(**{name: getattr(self, name) for name in type(self).model_fields})


# Weeks


class WeekOpened(FormatEvent):
    """A week begins. Its close was computed with this release of the time zone database and stays as it is (U5)."""

    kind: Literal["unrestricted.week_opened"] = "unrestricted.week_opened"
    week: WeekId
    opens: AwareDatetime
    closes: AwareDatetime
    tzdata: Annotated[str, Field(pattern=r"^[0-9]{4}[a-z]+$")]


class WeekClosed(FormatEvent):
    """A week is over: its pictures are published, and raters and defences are asked about them (U5)."""

    kind: Literal["unrestricted.week_closed"] = "unrestricted.week_closed"
    week: WeekId
    pictures: list[Handle]


# Defences


class ReadabilityDecided(FormatEvent):
    """The board finds that a defence's code can be read, or that it cannot; then it does not play (U2)."""

    kind: Literal["unrestricted.readability_decided"] = "unrestricted.readability_decided"
    defence: Name
    readable: bool
    vote: Vote
    reason: PublicReason

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns what the board found, with its reason."""
        del task
        return (
            ("Found readable" if self.readable else "Refused: its code cannot be read", self.reason)
            if submission == self.defence
            else None
        )


class DefenceTested(FormatEvent):
    """What a defence did on the eligibility set and on all pictures that were accepted before (U1, U2).

    `right`, `wrong`, `abstained` and `faults` count pictures of the eligibility set. `accepted` is how many valid
    pictures it was asked about, and `broken_by` are those that it labelled as the other class. It took `seconds` for
    `timed_pictures` on the organizers' device.
    """

    kind: Literal["unrestricted.defence_tested"] = "unrestricted.defence_tested"
    defence: Name
    right: Annotated[int, Field(ge=0)]
    wrong: Annotated[int, Field(ge=0)]
    abstained: Annotated[int, Field(ge=0)]
    faults: Annotated[int, Field(ge=0)]
    accepted: Annotated[int, Field(ge=0)]
    broken_by: list[Handle]
    timed_pictures: Annotated[int, Field(ge=1)]
    seconds: Annotated[float, Field(ge=0)]

    def recorded_round(self) -> str:
        """Returns the defence's round."""
        return eligibility_round(self.defence)

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns what came of the test."""
        del task
        if submission != self.defence:
            return None
        counts = f"{self.right} right, {self.wrong} wrong, {self.abstained} abstained, {self.faults} without an answer"
        broken = f"; {len(self.broken_by)} of {self.accepted} accepted pictures break it" if self.accepted else ""
        return f"Tested on the eligibility set: {counts}{broken}", self.reason


class DefencePublished(FormatEvent):
    """A defence is public as a whole (U3): its code is at `source`, and `digest` is that of what is started."""

    kind: Literal["unrestricted.defence_published"] = "unrestricted.defence_published"
    defence: Name
    digest: Line
    source: Line

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns that it is published."""
        del task
        return ("Published", self.reason) if submission == self.defence else None


class DefencesStaked(FormatEvent):
    """The board stakes defences, which are exposed together (U9). `criteria` says why each, by seed 003's criteria."""

    kind: Literal["unrestricted.defences_staked"] = "unrestricted.defences_staked"
    batch: Name
    criteria: Annotated[dict[Name, PublicReason], Field(min_length=1)]
    vote: Vote
    transfers: list[TransferRecord]

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns that it is staked, with the reason of the board."""
        del task
        return ("Staked by the review board", self.criteria[submission]) if submission in self.criteria else None


class StakePaid(FormatEvent):
    """A team paid for the stake on its own defence, which is staked from now on (U9)."""

    kind: Literal["unrestricted.stake_paid"] = "unrestricted.stake_paid"
    defence: Name
    reference: Annotated[str, Field(min_length=1, max_length=200)]
    transfers: list[TransferRecord]

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns that it is staked."""
        del task
        return ("Staked by its team", self.reason) if submission == self.defence else None


class AnswersRecorded(FormatEvent):
    """What a published defence answers to pictures of a week: a class, or null where it abstains (U1, U7).

    `faults` are those pictures to which it gave no answer at all. `other_seeds` has, for pictures that it labels, its
    answers with four other seeds (U13).
    """

    kind: Literal["unrestricted.answers_recorded"] = "unrestricted.answers_recorded"
    defence: Name
    week: WeekId
    answers: Annotated[dict[Handle, ClassName | None], Field(min_length=1)]
    faults: list[Handle] = Field(default_factory=list)
    other_seeds: dict[
        Handle, Annotated[list[ClassName | None], Field(min_length=OTHER_SEEDS, max_length=OTHER_SEEDS)]
    ] = Field(default_factory=dict)

    def recorded_round(self) -> str:
        """Returns the week's round."""
        return week_round(self.week)


class DefenceBroken(FormatEvent):
    """A settled valid picture was labelled as the other class (U7)."""

    kind: Literal["unrestricted.defence_broken"] = "unrestricted.defence_broken"
    defence: Name
    picture: Handle

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns that it is broken; a member of the board with a conflict is not to read by what (U8)."""
        del task
        return ("Broken by a valid picture", self.reason) if submission == self.defence else None


class DefenceExpired(FormatEvent):
    """A staked defence was not broken for as long as it has to hold, and every picture of that time is settled."""

    kind: Literal["unrestricted.defence_expired"] = "unrestricted.defence_expired"
    defence: Name

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns that it held."""
        del task
        return ("Held for as long as it has to", self.reason) if submission == self.defence else None


class RejectionConfirmed(FormatEvent):
    """A member of the board looked at a picture that raters rejected, and finds it invalid too (U11)."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.rejection_confirmed"] = "unrestricted.rejection_confirmed"
    defence: Name
    picture: Handle
    member: Name


class DefenceChecked(FormatEvent):
    """Every rejected picture that was received while a defence was staked is confirmed (U11)."""

    kind: Literal["unrestricted.defence_checked"] = "unrestricted.defence_checked"
    defence: Name

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns that the prize may be paid."""
        del task
        return ("Every rejected picture is confirmed", self.reason) if submission == self.defence else None


# Pictures


class AttackerAdmitted(FormatEvent):
    """A team may hand in pictures: organizers saw its preprint, whose address is given, or the board admits it (U4)."""

    kind: Literal["unrestricted.attacker_admitted"] = "unrestricted.attacker_admitted"
    team: Team
    preprint: Line = ""
    vote: Vote | None = None


class PictureReceived(FormatEvent):
    """The last byte of a team's picture is here, and it was decoded (U4). The time of this entry is what counts.

    `digest` is that of the file, `pixels` that of what was decoded. `day` is the contest's local day.
    """

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.picture_received"] = "unrestricted.picture_received"
    picture: Handle
    team: Team
    digest: Digest
    pixels: Digest
    height: Annotated[int, Field(ge=1, le=65_535)]
    width: Annotated[int, Field(ge=1, le=65_535)]
    day: date


class PictureRated(FormatEvent):
    """What one rater answered about one picture; null where they report it (U6). `appeal` is the one that asked."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.picture_rated"] = "unrestricted.picture_rated"
    picture: Handle
    rater: Name
    answers: Answers | None
    appeal: Handle | Literal[""] = ""


class RaterTested(FormatEvent):
    """What a rater answered about a picture whose class is known, null where they report it (U6).

    In `practice` they are told afterwards what it shows; other ones hide among the pictures of a week.
    """

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.rater_tested"] = "unrestricted.rater_tested"
    rater: Name
    pixels: Digest
    height: Annotated[int, Field(ge=1, le=65_535)]
    width: Annotated[int, Field(ge=1, le=65_535)]
    shows: ClassName
    answers: Answers | None
    practice: bool


class ReportDecided(FormatEvent):
    """The board looked at a picture that a rater reported: its pixels are withheld, or raters go on."""

    kind: Literal["unrestricted.report_decided"] = "unrestricted.report_decided"
    picture: Handle
    withhold: bool
    vote: Vote
    reason: PublicReason


class PictureOverruled(FormatEvent):
    """The board finds otherwise than the raters (U8). `class_name` is what a valid picture shows, null otherwise."""

    kind: Literal["unrestricted.picture_overruled"] = "unrestricted.picture_overruled"
    picture: Handle
    class_name: ClassName | None
    vote: Vote
    reason: PublicReason


class PictureSettled(FormatEvent):
    """Nobody may appeal against the ruling on a picture any more."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.picture_settled"] = "unrestricted.picture_settled"
    picture: Handle


# Appeals


class PictureAppealed(FormatEvent):
    """A team objects to the ruling on a picture (U8)."""

    withheld_fields: ClassVar[frozenset[str]] = frozenset({"text"})
    kind: Literal["unrestricted.picture_appealed"] = "unrestricted.picture_appealed"
    appeal: Handle
    picture: Handle
    team: Team
    text: Annotated[str, Field(max_length=10_000)] = ""


class PanelCalled(FormatEvent):
    """A member of the board asks new raters about a picture whose ruling is appealed (U8)."""

    kind: Literal["unrestricted.panel_called"] = "unrestricted.panel_called"
    appeal: Handle
    member: Name


class AppealRuled(FormatEvent):
    """An appeal is decided: by its panel, or by a vote of the board, with a reason for everybody (U8).

    `class_name` is what a valid picture shows, null for an invalid one.
    """

    kind: Literal["unrestricted.appeal_ruled"] = "unrestricted.appeal_ruled"
    appeal: Handle
    class_name: ClassName | None
    vote: Vote | None = None
    reason: PublicReason


# The board


class BoardMemberSeated(FormatEvent):
    """Somebody who has the board's role is called `member` from now on. With a `case`, they are of it for that only."""

    withheld_fields: ClassVar[frozenset[str]] = frozenset({"person"})
    kind: Literal["unrestricted.board_member_seated"] = "unrestricted.board_member_seated"
    member: Name
    case: Line = ""
    person: Annotated[str, Field(max_length=200)] = ""


class ConflictNoted(FormatEvent):
    """A member does not vote about a team: `until` a day, or for ever. `source` says how it came to be known."""

    kind: Literal["unrestricted.conflict_noted"] = "unrestricted.conflict_noted"
    member: Name
    team: Team
    source: ConflictSource
    until: date | None = None


class ConflictWaived(FormatEvent):
    """A member finds that a computed conflict of another one is none. Two have to, with a reason for everybody."""

    kind: Literal["unrestricted.conflict_waived"] = "unrestricted.conflict_waived"
    member: Name
    team: Team
    by: Name
    reason: PublicReason


class VoteCast(FormatEvent):
    """A member votes on a question, such as `readable:DEFENCE`. A later vote on it replaces an earlier one."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.vote_cast"] = "unrestricted.vote_cast"
    question: Line
    member: Name
    in_favour: bool


# Money


class MoneyMoved(FormatEvent):
    """Money moves by the rules. `cause` is what it follows from: `accounts`, `stake:DEFENCE`, `prize:DAYS` or `end`."""

    kind: Literal["unrestricted.money_moved"] = "unrestricted.money_moved"
    cause: Annotated[str, Field(pattern=r"^(accounts|end|stake:.+|prize:[0-9]+)$", max_length=200)]
    transfers: Annotated[list[TransferRecord], Field(min_length=1)]


class PrizePaid(FormatEvent):
    """The organizers paid an award or a refund, outside of this software."""

    kind: Literal["unrestricted.prize_paid"] = "unrestricted.prize_paid"
    award: Line
    reference: Annotated[str, Field(min_length=1, max_length=200)]


class PrizeWithheld(FormatEvent):
    """The board withholds an award (U8)."""

    kind: Literal["unrestricted.prize_withheld"] = "unrestricted.prize_withheld"
    award: Line
    vote: Vote
    reason: PublicReason


EVENT_TYPES: tuple[type[FormatEvent], ...] = (
    WeekOpened,
    WeekClosed,
    ReadabilityDecided,
    DefenceTested,
    DefencePublished,
    DefencesStaked,
    StakePaid,
    AnswersRecorded,
    DefenceBroken,
    DefenceExpired,
    RejectionConfirmed,
    DefenceChecked,
    AttackerAdmitted,
    PictureReceived,
    PictureRated,
    RaterTested,
    ReportDecided,
    PictureOverruled,
    PictureSettled,
    PictureAppealed,
    PanelCalled,
    AppealRuled,
    BoardMemberSeated,
    ConflictNoted,
    ConflictWaived,
    VoteCast,
    MoneyMoved,
    PrizePaid,
    PrizeWithheld,
)
"""Every kind of event of the format."""
