"""The unrestricted contest's own events in a contest's ledger. What follows from them says `state`.

Members of the review board and raters are called by names that say nothing of who they are: both are published.
"""

from datetime import UTC, date
from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from orchestrator.domain.contest_events import FormatEvent, Handle, NameOf
from orchestrator.formats.unrestricted.money import MAX_UNITS, REASON_LIMIT, Transfer, TransferKind
from orchestrator.formats.unrestricted.questionnaire import Answers
from orchestrator.formats.unrestricted.recusal import SOURCE_WORDS, ConflictSource
from orchestrator.formats.unrestricted.round_names import OTHER_SEEDS, eligibility_round, week_round

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="letters, digits, ., _ and -")]
"""What a member of the board, a rater, a batch or a submission is called."""
WeekId = Annotated[str, Field(pattern=r"^[0-9]{4}-W[0-9]{2}$", description="a week such as 2026-W48")]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
ClassName = Annotated[str, Field(min_length=1, max_length=100)]
Team = Annotated[str, Field(min_length=1, max_length=120)]
Line = Annotated[str, Field(max_length=500)]
INVALID = "invalid"
"""What a question says in place of a class, where a picture is to be invalid."""
PublicReason = Annotated[str, Field(min_length=1, max_length=REASON_LIMIT)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Vote(_Record):
    """What the board voted on: who might vote, who was recused and why, and who did vote (U8)."""

    eligible: list[Name]
    recused: dict[Name, Line]
    in_favour: list[Name]
    against: list[Name]

    def in_words(self) -> str:
        """Returns who voted how, and who has a conflict."""
        sides = [("in favour", self.in_favour), ("against", self.against)]
        said = [f"{words}: {', '.join(members) or 'nobody'}" for words, members in sides]
        return "; ".join([*said, *([f"with a conflict: {', '.join(self.recused)}"] if self.recused else [])])


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


def _shows(class_name: str | None) -> str:
    """Returns what a ruling says of a picture."""
    return "is not valid" if class_name is None else f"is valid and shows: {class_name}"


def _rated(answers: Answers | None, what: str) -> str:
    """Returns what a rater said of something; how sure they are of each class, and that they reported it."""
    if answers is None:
        return f"reported {what}"
    said = ", ".join(f"{name} {certainty.replace('_', ' ')}" for name, certainty in answers.presence.items())
    return f"judged {what}: {said}"


def _question_in_words(question: str) -> str:
    """Returns what the board votes on. The first word of a question says what it is about, see `State.teams_of`."""
    kind, _, subject = question.partition(":")
    about, _, outcome = subject.partition(":")
    found = _shows(None if outcome == INVALID else outcome)
    words = {
        "readable": f"the code of {subject} can be read",
        "admit": f"{subject} may attack without a preprint",
        "stake": f"the board stakes {subject.replace('+', ' and ')}",
        "appeal": f"in the appeal {about}, the picture {found}",
        "overrule": f"the picture {about} {found}",
        "report": f"the picture {about} is {'withheld' if outcome == 'withhold' else 'shown to raters'}",
        "withhold": f"the award {subject} is withheld",
    }
    return words.get(kind, question)


def _cause_in_words(cause: str) -> str:
    """Returns what a movement of money follows from."""
    kind, _, subject = cause.partition(":")
    words = {
        "accounts": "the accounts of the contest are opened",
        "end": "the contest is over",
        "stake": f"the stake on {subject} is settled",
        "prize": f"the prize for {subject} days is shared",
    }
    return words[kind]


# Weeks


class WeekOpened(FormatEvent):
    """A week begins. Its close was computed with this release of the time zone database and stays as it is (U5)."""

    kind: Literal["unrestricted.week_opened"] = "unrestricted.week_opened"
    week: WeekId
    opens: AwareDatetime
    closes: AwareDatetime
    tzdata: Annotated[str, Field(pattern=r"^[0-9]{4}[a-z]+$")]

    def in_words(self, _: NameOf) -> str:
        """Returns which week begins and when it closes."""
        return f"opened the week {self.week}, which closes at {self.closes.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


class WeekClosed(FormatEvent):
    """A week is over: its pictures are published, and raters and defences are asked about them (U5)."""

    kind: Literal["unrestricted.week_closed"] = "unrestricted.week_closed"
    week: WeekId
    pictures: list[Handle]

    def in_words(self, _: NameOf) -> str:
        """Returns which week is over; a member with a conflict may not know how many pictures it has (U8)."""
        return f"closed the week {self.week}"


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

    def in_words(self, _: NameOf) -> str:
        """Returns what the board found."""
        can = "can" if self.readable else "cannot"
        return f"recorded that the board finds that the code of {self.defence} {can} be read ({self.vote.in_words()})"


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
        return f"Tested on the eligibility set: {self._counts()}", self.reason

    def in_words(self, _: NameOf) -> str:
        """Returns what came of the test."""
        return f"tested {self.defence} on the eligibility set: {self._counts()}"

    def _counts(self) -> str:
        counts = f"{self.right} right, {self.wrong} wrong, {self.abstained} abstained, {self.faults} without an answer"
        broken = f"; {len(self.broken_by)} of {self.accepted} accepted pictures break it" if self.accepted else ""
        return counts + broken


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

    def in_words(self, _: NameOf) -> str:
        """Returns what is published."""
        return f"published {self.defence}, whose code is at {self.source or 'no address'}"


class DefencesStaked(FormatEvent):
    """The board stakes defences, which are exposed together (U9). `criteria` says why each, by those of the contest."""

    kind: Literal["unrestricted.defences_staked"] = "unrestricted.defences_staked"
    batch: Name
    criteria: Annotated[dict[Name, PublicReason], Field(min_length=1)]
    vote: Vote
    transfers: list[TransferRecord]

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns that it is staked, with the reason of the board."""
        del task
        return ("Staked by the review board", self.criteria[submission]) if submission in self.criteria else None

    def in_words(self, _: NameOf) -> str:
        """Returns what is staked, with the votes."""
        return f"noted that the board stakes {' and '.join(self.criteria)} ({self.vote.in_words()})"

    def explanation(self) -> str:
        """Returns why each is staked."""
        return "\n\n".join(f"{defence}: {why}" for defence, why in self.criteria.items())


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

    def in_words(self, _: NameOf) -> str:
        """Returns whose stake was paid."""
        return f"noted that the team of {self.defence} paid its stake, with the reference {self.reference}"


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

    def in_words(self, _: NameOf) -> str:
        """Returns whose answers are on record; a member with a conflict may not know how many (U8)."""
        return f"recorded what {self.defence} answers to pictures of {self.week}"


class DefenceBroken(FormatEvent):
    """A settled valid picture was labelled as the other class (U7)."""

    kind: Literal["unrestricted.defence_broken"] = "unrestricted.defence_broken"
    defence: Name
    picture: Handle

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns that it is broken; a member of the board with a conflict is not to read by what (U8)."""
        del task
        return ("Broken by a valid picture", self.reason) if submission == self.defence else None

    def in_words(self, _: NameOf) -> str:
        """Returns what is broken, and by which picture."""
        return f"noted that the picture {self.picture} breaks {self.defence}"


class DefenceExpired(FormatEvent):
    """A staked defence was not broken for as long as it has to hold, and every picture of that time is settled."""

    kind: Literal["unrestricted.defence_expired"] = "unrestricted.defence_expired"
    defence: Name

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns that it held."""
        del task
        return ("Was not broken in the required time", self.reason) if submission == self.defence else None

    def in_words(self, _: NameOf) -> str:
        """Returns what held."""
        return f"recorded that {self.defence} was not broken in the required time"


class RejectionConfirmed(FormatEvent):
    """A member of the board looked at a picture that raters rejected, and finds it invalid too (U11)."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.rejection_confirmed"] = "unrestricted.rejection_confirmed"
    defence: Name
    picture: Handle
    member: Name

    def in_words(self, _: NameOf) -> str:
        """Returns what is confirmed."""
        return f"confirmed that the picture {self.picture} is invalid, for the prize of {self.defence}"


class DefenceChecked(FormatEvent):
    """Every rejected picture that was received while a defence was staked is confirmed (U11)."""

    kind: Literal["unrestricted.defence_checked"] = "unrestricted.defence_checked"
    defence: Name

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns that the prize may be paid."""
        del task
        return ("Every rejected picture is confirmed", self.reason) if submission == self.defence else None

    def in_words(self, _: NameOf) -> str:
        """Returns what is checked."""
        return f"noted that every rejection of a picture against {self.defence} is confirmed"


# Pictures


class AttackerAdmitted(FormatEvent):
    """A team may hand in pictures: organizers saw its preprint, whose address is given, or the board admits it (U4)."""

    kind: Literal["unrestricted.attacker_admitted"] = "unrestricted.attacker_admitted"
    team: Team
    preprint: Line = ""
    vote: Vote | None = None

    def in_words(self, _: NameOf) -> str:
        """Returns who may attack, and by what."""
        if self.vote is not None:
            return f"noted that the board admits {self.team} to attack without a preprint ({self.vote.in_words()})"
        return f"admitted {self.team} to attack, by the preprint {self.preprint}"


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

    def in_words(self, _: NameOf) -> str:
        """Returns what was handed in."""
        return f"handed in the picture {self.picture} for {self.team}"


class PictureRated(FormatEvent):
    """What one rater answered about one picture; null where they report it (U6). `appeal` is the one that asked."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.picture_rated"] = "unrestricted.picture_rated"
    picture: Handle
    rater: Name
    answers: Answers | None
    appeal: Handle | Literal[""] = ""

    def in_words(self, _: NameOf) -> str:
        """Returns what the rater said."""
        why = f", asked because of the appeal {self.appeal}" if self.appeal else ""
        return f"{_rated(self.answers, f'the picture {self.picture}')}{why}"


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

    def in_words(self, _: NameOf) -> str:
        """Returns what the rater said, and what is right."""
        what = "a picture of the practice" if self.practice else "a hidden item"
        return f"{_rated(self.answers, what)}; it shows: {self.shows}"


class ReportDecided(FormatEvent):
    """The board looked at a picture that a rater reported: its pixels are withheld, or raters go on."""

    kind: Literal["unrestricted.report_decided"] = "unrestricted.report_decided"
    picture: Handle
    withhold: bool
    vote: Vote
    reason: PublicReason

    def in_words(self, _: NameOf) -> str:
        """Returns what becomes of the picture."""
        what = (
            f"withholds the picture {self.picture}"
            if self.withhold
            else f"lets raters go on with the picture {self.picture}"
        )
        return f"noted that the board {what} ({self.vote.in_words()})"


class PictureOverruled(FormatEvent):
    """The board finds otherwise than the raters (U8). `class_name` is what a valid picture shows, null otherwise."""

    kind: Literal["unrestricted.picture_overruled"] = "unrestricted.picture_overruled"
    picture: Handle
    class_name: ClassName | None
    vote: Vote
    reason: PublicReason

    def in_words(self, _: NameOf) -> str:
        """Returns what the board found."""
        found = _shows(self.class_name)
        return f"recorded that the board finds that the picture {self.picture} {found} ({self.vote.in_words()})"


class PictureSettled(FormatEvent):
    """Nobody may appeal against the ruling on a picture any more."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.picture_settled"] = "unrestricted.picture_settled"
    picture: Handle

    def in_words(self, _: NameOf) -> str:
        """Returns what is settled."""
        return f"noted that nobody may appeal against the ruling on the picture {self.picture} any more"


# Appeals


class PictureAppealed(FormatEvent):
    """A team objects to the ruling on a picture (U8)."""

    withheld_fields: ClassVar[frozenset[str]] = frozenset({"text"})
    kind: Literal["unrestricted.picture_appealed"] = "unrestricted.picture_appealed"
    appeal: Handle
    picture: Handle
    team: Team
    text: Annotated[str, Field(max_length=10_000)] = ""

    def in_words(self, _: NameOf) -> str:
        """Returns who objects to what."""
        return f"appealed for {self.team} against the ruling on the picture {self.picture}"

    def explanation(self) -> str:
        """Returns what the team says."""
        return self.text or self.reason


class PanelCalled(FormatEvent):
    """A member of the board asks new raters about a picture whose ruling is appealed (U8)."""

    kind: Literal["unrestricted.panel_called"] = "unrestricted.panel_called"
    appeal: Handle
    member: Name

    def in_words(self, _: NameOf) -> str:
        """Returns what raters are asked about."""
        return f"asked for new raters about the appeal {self.appeal}"


class AppealRuled(FormatEvent):
    """An appeal is decided: by its panel, or by a vote of the board, with a reason for everybody (U8).

    `class_name` is what a valid picture shows, null for an invalid one.
    """

    kind: Literal["unrestricted.appeal_ruled"] = "unrestricted.appeal_ruled"
    appeal: Handle
    class_name: ClassName | None
    vote: Vote | None = None
    reason: PublicReason

    def in_words(self, _: NameOf) -> str:
        """Returns what was decided, and by whom."""
        by = "its panel" if self.vote is None else "the board"
        votes = "" if self.vote is None else f" ({self.vote.in_words()})"
        return f"noted that {by} decided the appeal {self.appeal}: the picture {_shows(self.class_name)}{votes}"


# The board


class BoardMemberSeated(FormatEvent):
    """Somebody who has the board's role is called `member` from now on. With a `case`, they are of it for that only."""

    withheld_fields: ClassVar[frozenset[str]] = frozenset({"person"})
    kind: Literal["unrestricted.board_member_seated"] = "unrestricted.board_member_seated"
    member: Name
    case: Line = ""
    person: Annotated[str, Field(max_length=200)] = ""

    def in_words(self, name_of: NameOf) -> str:
        """Returns who is called what."""
        case = f" for the case {self.case} alone" if self.case else ""
        return f"seated {name_of(self.person) or 'somebody'} on the review board as {self.member}{case}"


class ConflictNoted(FormatEvent):
    """A member does not vote about a team: `until` a day, or for ever. `source` says how it came to be known."""

    kind: Literal["unrestricted.conflict_noted"] = "unrestricted.conflict_noted"
    member: Name
    team: Team
    source: ConflictSource
    until: date | None = None

    def in_words(self, _: NameOf) -> str:
        """Returns whose conflict it is, and with whom."""
        until = f", until {self.until}" if self.until else ""
        return f"noted a conflict of {self.member} with {self.team}: {SOURCE_WORDS[self.source]}{until}"


class ConflictWaived(FormatEvent):
    """A member finds that a computed conflict of another one is none. Two have to, with a reason for everybody."""

    kind: Literal["unrestricted.conflict_waived"] = "unrestricted.conflict_waived"
    member: Name
    team: Team
    by: Name
    reason: PublicReason

    def in_words(self, _: NameOf) -> str:
        """Returns whose conflict is none."""
        return f"decided that {self.member} has no conflict with {self.team}"


class VoteCast(FormatEvent):
    """A member votes on a question, such as `readable:DEFENCE`. A later vote on it replaces an earlier one."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.vote_cast"] = "unrestricted.vote_cast"
    question: Line
    member: Name
    in_favour: bool

    def in_words(self, _: NameOf) -> str:
        """Returns what was voted on, and how."""
        return f"voted {'for' if self.in_favour else 'against'}: {_question_in_words(self.question)}"


# Money


class MoneyMoved(FormatEvent):
    """Money moves by the rules. `cause` is what it follows from: `accounts`, `stake:DEFENCE`, `prize:DAYS` or `end`."""

    kind: Literal["unrestricted.money_moved"] = "unrestricted.money_moved"
    cause: Annotated[str, Field(pattern=r"^(accounts|end|stake:.+|prize:[0-9]+)$", max_length=200)]
    transfers: Annotated[list[TransferRecord], Field(min_length=1)]

    def in_words(self, _: NameOf) -> str:
        """Returns what money follows from."""
        return f"moved money by the rules: {_cause_in_words(self.cause)}"


class PrizePaid(FormatEvent):
    """The organizers paid an award or a refund, outside of this software."""

    kind: Literal["unrestricted.prize_paid"] = "unrestricted.prize_paid"
    award: Line
    reference: Annotated[str, Field(min_length=1, max_length=200)]

    def in_words(self, _: NameOf) -> str:
        """Returns what was paid."""
        return f"noted that the award {self.award} was paid, with the reference {self.reference}"


class PrizeWithheld(FormatEvent):
    """The board withholds an award (U8)."""

    kind: Literal["unrestricted.prize_withheld"] = "unrestricted.prize_withheld"
    award: Line
    vote: Vote
    reason: PublicReason

    def in_words(self, _: NameOf) -> str:
        """Returns what is withheld."""
        return f"noted that the board withholds the award {self.award} ({self.vote.in_words()})"


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
