"""The unrestricted contest's own events in a contest's ledger. `fold` applies them to the state.

Members of the review board and raters have names that do not identify them, because these names are published.
"""

from datetime import UTC, date
from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from orchestrator.domain.contest_events import FormatEvent, Handle, NameOf
from orchestrator.formats.unrestricted.money import MAX_UNITS, REASON_LIMIT, Transfer, TransferKind, read_award
from orchestrator.formats.unrestricted.questionnaire import Answers
from orchestrator.formats.unrestricted.recusal import SOURCE_WORDS, ConflictSource
from orchestrator.formats.unrestricted.round_names import OTHER_SEEDS, eligibility_round, week_round

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="letters, digits, ., _ and -")]
"""The name of a board member, a rater, a batch or a submission."""
WeekId = Annotated[str, Field(pattern=r"^[0-9]{4}-W[0-9]{2}$", description="a week such as 2026-W48")]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
ClassName = Annotated[str, Field(min_length=1, max_length=100)]
Team = Annotated[str, Field(min_length=1, max_length=120)]
Line = Annotated[str, Field(max_length=500)]
INVALID = "invalid"
"""The word in a question, in place of a class, that makes a picture invalid."""
PublicReason = Annotated[str, Field(min_length=1, max_length=REASON_LIMIT)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Vote(_Record):
    """A vote of the board: who was eligible, who was recused and why, and who voted how (U8)."""

    eligible: list[Name]
    recused: dict[Name, Line]
    in_favour: list[Name]
    against: list[Name]

    def in_words(self) -> str:
        """Returns the votes in words, and who has a conflict."""
        sides = [("in favour", self.in_favour), ("against", self.against)]
        said = [f"{words}: {', '.join(members) or 'nobody'}" for words, members in sides]
        return "; ".join([*said, *([f"with a conflict: {', '.join(self.recused)}"] if self.recused else [])])


class TransferRecord(_Record):
    """A transfer of money from one account to another, see `money.Transfer`."""

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
        """Returns the recorded transfer."""
        return Transfer(**{name: getattr(self, name) for name in type(self).model_fields})


def _shows(class_name: str | None) -> str:
    """Returns the predicate for a picture that is ruled to show a class, or ruled invalid."""
    return "is not valid" if class_name is None else f"is valid and shows: {class_name}"


def _rated(answers: Answers | None, what: str) -> str:
    """Returns a rating in words: how sure the rater is of each class, or that the rater reported `what`."""
    if answers is None:
        return f"reported {what}"
    said = ", ".join(f"{name} {certainty.replace('_', ' ')}" for name, certainty in answers.presence.items())
    return f"judged {what}: {said}"


def _question_in_words(question: str) -> str:
    """Returns a question of the board in words. Its first word is the kind of its subject, see `State.teams_of`."""
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
        "withhold": f"{read_award(subject)[1]} is withheld",
    }
    return words.get(kind, question)


def _cause_in_words(cause: str) -> str:
    """Returns the cause of a movement of money in words."""
    kind, _, subject = cause.partition(":")
    words = {
        "accounts": "the accounts of the contest are opened",
        "end": "the contest is over",
        "stake": f"the stake on {subject} is settled",
        "prize": f"the prize for {subject} days is shared",
    }
    return words[kind]


class _DefenceEvent(FormatEvent):
    """What happens to one defence. `effect` is its line in the defence's history, beside the reason."""

    effect: ClassVar[str]
    defence: Name

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns the line."""
        del task
        return (self.effect, self.reason) if submission == self.defence else None


# Weeks


class WeekOpened(FormatEvent):
    """A week begins. Its close, computed with the release `tzdata` of the time zone database, never changes (U5)."""

    kind: Literal["unrestricted.week_opened"] = "unrestricted.week_opened"
    week: WeekId
    opens: AwareDatetime
    closes: AwareDatetime
    tzdata: Annotated[str, Field(pattern=r"^[0-9]{4}[a-z]+$")]

    def in_words(self, _: NameOf) -> str:
        """Returns which week begins and when it closes."""
        return f"opened the week {self.week}, which closes at {self.closes.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


class WeekClosed(FormatEvent):
    """A week closed: its pictures are published, and raters and defences are asked about them (U5)."""

    kind: Literal["unrestricted.week_closed"] = "unrestricted.week_closed"
    week: WeekId
    pictures: list[Handle]

    def in_words(self, _: NameOf) -> str:
        """Returns which week closed, without its number of pictures: members with a conflict may not know it (U8)."""
        return f"closed the week {self.week}"


# Defences


class ReadabilityDecided(FormatEvent):
    """The board found a defence's code readable, or not readable; then the defence does not play (U2)."""

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
        """Returns the board's finding with its votes."""
        can = "can" if self.readable else "cannot"
        return f"recorded that the board finds that the code of {self.defence} {can} be read ({self.vote.in_words()})"


class DefenceTested(FormatEvent):
    """The results of a defence on the eligibility set and on all pictures that were accepted before (U1, U2).

    `right`, `wrong`, `abstained` and `faults` count pictures of the eligibility set. `accepted` is the number of valid
    pictures that it was asked about, and `broken_by` are those that break it. It took `seconds` for `timed_pictures` on
    the organizers' device: those that were played, and 1 if none was.
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
        """Returns the name of the defence's round."""
        return eligibility_round(self.defence)

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns what came of the test."""
        del task
        if submission != self.defence:
            return None
        return f"Tested on the eligibility set: {self._counts()}", self.reason

    def in_words(self, _: NameOf) -> str:
        """Returns the results of the test."""
        return f"tested {self.defence} on the eligibility set: {self._counts()}"

    def _counts(self) -> str:
        counts = f"{self.right} right, {self.wrong} wrong, {self.abstained} abstained, {self.faults} without an answer"
        broken = f"; {len(self.broken_by)} of {self.accepted} accepted pictures break it" if self.accepted else ""
        return counts + broken


class DefencePublished(_DefenceEvent):
    """A defence was published as a whole (U3): its code is at `source`; `digest` is the digest of the program."""

    effect: ClassVar[str] = "Published"
    kind: Literal["unrestricted.defence_published"] = "unrestricted.defence_published"
    digest: Line
    source: Line

    def in_words(self, _: NameOf) -> str:
        """Returns which defence was published, and where."""
        return f"published {self.defence}, whose code is at {self.source or 'no address'}"


class DefencesStaked(FormatEvent):
    """The board staked defences together (U9). `criteria` gives the reason for each, by the criteria of the contest."""

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
        """Returns which defences were staked, with the votes."""
        return f"recorded that the board stakes {' and '.join(self.criteria)} ({self.vote.in_words()})"

    def explanation(self) -> str:
        """Returns the reason for staking each defence."""
        return "\n\n".join(f"{defence}: {why}" for defence, why in self.criteria.items())


class StakePaid(_DefenceEvent):
    """A team paid the stake on its own defence, which is staked from now on (U9)."""

    effect: ClassVar[str] = "Staked by its team"
    kind: Literal["unrestricted.stake_paid"] = "unrestricted.stake_paid"
    reference: Annotated[str, Field(min_length=1, max_length=200)]
    transfers: list[TransferRecord]

    def in_words(self, _: NameOf) -> str:
        """Returns which defence's stake was paid."""
        return f"recorded that the team of {self.defence} paid its stake, with the reference {self.reference}"


class AnswersRecorded(FormatEvent):
    """The answers of a defence to pictures of a closed week: a class, or null if it abstained (U1, U7).

    `faults` are the pictures to which it gave no answer at all; `answers` has null for them. For each picture that it
    labelled, `other_seeds` has its answers with four other seeds (U13).
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
        """Returns the name of the week's round."""
        return week_round(self.week)

    def in_words(self, _: NameOf) -> str:
        """Returns whose answers were recorded, but not how many: members with a conflict may not know that (U8)."""
        return f"recorded what {self.defence} answers to pictures of {self.week}"


class DefenceBroken(_DefenceEvent):
    """A defence labelled a settled valid picture as the other class (U7)."""

    # A member of the board with a conflict is not to read by what (U8).
    effect: ClassVar[str] = "Broken by a valid picture"
    kind: Literal["unrestricted.defence_broken"] = "unrestricted.defence_broken"
    picture: Handle

    def in_words(self, _: NameOf) -> str:
        """Returns which defence is broken by which picture."""
        return f"recorded that the picture {self.picture} breaks {self.defence}"


class DefenceExpired(_DefenceEvent):
    """A staked defence held for as long as it has to, and every picture of that time is settled."""

    effect: ClassVar[str] = "Was not broken in the required time"
    kind: Literal["unrestricted.defence_expired"] = "unrestricted.defence_expired"

    def in_words(self, _: NameOf) -> str:
        """Returns which defence held."""
        return f"recorded that {self.defence} was not broken in the required time"


class RejectionConfirmed(FormatEvent):
    """A board member looked at a rejected picture and found it invalid, too (U11)."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.rejection_confirmed"] = "unrestricted.rejection_confirmed"
    defence: Name
    picture: Handle
    member: Name

    def in_words(self, _: NameOf) -> str:
        """Returns which rejection was confirmed, for which defence's prize."""
        return f"confirmed that the picture {self.picture} is invalid, for the prize of {self.defence}"


class DefenceChecked(_DefenceEvent):
    """Every rejection that a defence's prize depends on was confirmed, see `State.awaits_confirmation` (U11)."""

    effect: ClassVar[str] = "Every rejected picture is confirmed"
    kind: Literal["unrestricted.defence_checked"] = "unrestricted.defence_checked"

    def in_words(self, _: NameOf) -> str:
        """Returns which defence was checked."""
        return f"recorded that every rejection of a picture against {self.defence} is confirmed"


# Pictures


class AttackerAdmitted(FormatEvent):
    """A team may submit pictures: organizers saw the preprint at the given address, or the board admitted it (U4)."""

    kind: Literal["unrestricted.attacker_admitted"] = "unrestricted.attacker_admitted"
    team: Team
    preprint: Line = ""
    vote: Vote | None = None

    def in_words(self, _: NameOf) -> str:
        """Returns which team may attack, and why."""
        if self.vote is not None:
            return f"recorded that the board admits {self.team} to attack without a preprint ({self.vote.in_words()})"
        return f"admitted {self.team} to attack, by the preprint {self.preprint}"


class PictureReceived(FormatEvent):
    """A team's picture was received and decoded (U4). The time of this entry counts.

    `digest` is the digest of the file, `pixels` that of the decoded pixels. `day` is the contest's local day.
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
        """Returns which picture was submitted, for which team."""
        return f"submitted the picture {self.picture} for {self.team}"


class PictureRated(FormatEvent):
    """A rater's answers about a picture, null if the rater reported it (U6). `appeal` is that of a panel, or ""."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.picture_rated"] = "unrestricted.picture_rated"
    picture: Handle
    rater: Name
    answers: Answers | None
    appeal: Handle | Literal[""] = ""

    def in_words(self, _: NameOf) -> str:
        """Returns the rating."""
        why = f", asked because of the appeal {self.appeal}" if self.appeal else ""
        return f"{_rated(self.answers, f'the picture {self.picture}')}{why}"


class RaterTested(FormatEvent):
    """A rater's answers about a picture whose class is known, null if the rater reported it (U6).

    In `practice` the rater is told afterwards what it shows. Other such pictures are hidden among those of a week.
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
        """Returns the rating, and the right class."""
        what = "a picture of the practice" if self.practice else "a hidden item"
        return f"{_rated(self.answers, what)}; it shows: {self.shows}"


class ReportDecided(FormatEvent):
    """The board decided on a reported picture: its pixels are withheld, or raters continue."""

    kind: Literal["unrestricted.report_decided"] = "unrestricted.report_decided"
    picture: Handle
    withhold: bool
    vote: Vote
    reason: PublicReason

    def in_words(self, _: NameOf) -> str:
        """Returns the decision with its votes."""
        what = (
            f"withholds the picture {self.picture}"
            if self.withhold
            else f"lets raters go on with the picture {self.picture}"
        )
        return f"recorded that the board {what} ({self.vote.in_words()})"


class PictureOverruled(FormatEvent):
    """The board changed the ruling on a picture (U8). `class_name` is the class of a valid picture, otherwise null."""

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
    """The ruling on a picture is final: nobody may appeal against it any more."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.picture_settled"] = "unrestricted.picture_settled"
    picture: Handle

    def in_words(self, _: NameOf) -> str:
        """Returns which picture is settled."""
        return f"recorded that nobody may appeal against the ruling on the picture {self.picture} any more"


# Appeals


class PictureAppealed(FormatEvent):
    """A team appealed against the ruling on a picture (U8)."""

    withheld_fields: ClassVar[frozenset[str]] = frozenset({"text"})
    kind: Literal["unrestricted.picture_appealed"] = "unrestricted.picture_appealed"
    appeal: Handle
    picture: Handle
    team: Team
    text: Annotated[str, Field(max_length=10_000)] = ""

    def in_words(self, _: NameOf) -> str:
        """Returns which team appealed against the ruling on which picture."""
        return f"appealed for {self.team} against the ruling on the picture {self.picture}"

    def explanation(self) -> str:
        """Returns the team's text."""
        return self.text or self.reason


class PanelCalled(FormatEvent):
    """A board member called a panel of new raters for an appeal (U8)."""

    kind: Literal["unrestricted.panel_called"] = "unrestricted.panel_called"
    appeal: Handle
    member: Name

    def in_words(self, _: NameOf) -> str:
        """Returns for which appeal the panel was called."""
        return f"asked for new raters about the appeal {self.appeal}"


class AppealRuled(FormatEvent):
    """An appeal was decided by its panel, or by a vote of the board, with a public reason (U8).

    `class_name` is the class of a valid picture, null for an invalid one.
    """

    kind: Literal["unrestricted.appeal_ruled"] = "unrestricted.appeal_ruled"
    appeal: Handle
    class_name: ClassName | None
    vote: Vote | None = None
    reason: PublicReason

    def in_words(self, _: NameOf) -> str:
        """Returns the decision, and who made it."""
        by = "its panel" if self.vote is None else "the board"
        votes = "" if self.vote is None else f" ({self.vote.in_words()})"
        return f"recorded that {by} decided the appeal {self.appeal}: the picture {_shows(self.class_name)}{votes}"


# The board


class BoardMemberSeated(FormatEvent):
    """A person with the board's role was seated on the board as `member`; with a `case`, only for that case.

    A person keeps the name for ever, in every case: conflicts are recorded under it.
    """

    withheld_fields: ClassVar[frozenset[str]] = frozenset({"person"})
    kind: Literal["unrestricted.board_member_seated"] = "unrestricted.board_member_seated"
    member: Name
    case: Line = ""
    person: Annotated[str, Field(max_length=200)] = ""

    def in_words(self, name_of: NameOf) -> str:
        """Returns who was seated under which name."""
        case = f" for the case {self.case} alone" if self.case else ""
        return f"seated {name_of(self.person) or 'somebody'} on the review board as {self.member}{case}"


class BoardMemberUnseated(FormatEvent):
    """The seats of a member ended because the person has the board's role no more: the member votes on nothing now."""

    kind: Literal["unrestricted.board_member_unseated"] = "unrestricted.board_member_unseated"
    member: Name

    def in_words(self, _: NameOf) -> str:
        """Returns whose seat ended."""
        return f"recorded that the seat of {self.member} on the review board ended with the role"


class ConflictNoted(FormatEvent):
    """A member has a conflict with a team and does not vote about it, `until` a day or for ever."""

    kind: Literal["unrestricted.conflict_noted"] = "unrestricted.conflict_noted"
    member: Name
    team: Team
    source: ConflictSource
    until: date | None = None

    def in_words(self, _: NameOf) -> str:
        """Returns which member has a conflict with which team, its source, and its end."""
        until = f", until {self.until}" if self.until else ""
        return f"recorded a conflict of {self.member} with {self.team}: {SOURCE_WORDS[self.source]}{until}"


class ConflictWaived(FormatEvent):
    """A member waived a computed conflict of another member, with a public reason. It takes two members."""

    kind: Literal["unrestricted.conflict_waived"] = "unrestricted.conflict_waived"
    member: Name
    team: Team
    by: Name
    reason: PublicReason

    def in_words(self, _: NameOf) -> str:
        """Returns which conflict was waived."""
        return f"decided that {self.member} has no conflict with {self.team}"


class VoteCast(FormatEvent):
    """A member voted on a question, such as `readable:DEFENCE`. A later vote on it replaces an earlier one."""

    changes_boards: ClassVar[bool] = False
    kind: Literal["unrestricted.vote_cast"] = "unrestricted.vote_cast"
    question: Line
    member: Name
    in_favour: bool

    def in_words(self, _: NameOf) -> str:
        """Returns the question and the vote."""
        return f"voted {'for' if self.in_favour else 'against'}: {_question_in_words(self.question)}"


# Money


class MoneyMoved(FormatEvent):
    """Money moved by the rules. Its `cause` is `accounts`, `stake:DEFENCE`, `prize:DAYS` or `end`."""

    kind: Literal["unrestricted.money_moved"] = "unrestricted.money_moved"
    cause: Annotated[str, Field(pattern=r"^(accounts|end|stake:.+|prize:[0-9]+)$", max_length=200)]
    transfers: Annotated[list[TransferRecord], Field(min_length=1)]

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns what is owed because of a defence from now on."""
        del task
        awards = [read_award(each.transfer().id) for each in self.transfers]
        owed = [words for defence, words in awards if defence == submission]
        return (f"Owed: {', '.join(owed)}", self.reason) if owed else None

    def in_words(self, _: NameOf) -> str:
        """Returns the cause."""
        return f"moved money by the rules: {_cause_in_words(self.cause)}"


class PrizePaid(FormatEvent):
    """The organizers paid an award or a refund, outside of this software."""

    kind: Literal["unrestricted.prize_paid"] = "unrestricted.prize_paid"
    award: Line
    reference: Annotated[str, Field(min_length=1, max_length=200)]

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns what was paid because of a defence, with the reference, which is on the page of money too."""
        del task
        defence, words = read_award(self.award)
        return (f"Paid: {words}", self.reference) if submission == defence else None

    def in_words(self, _: NameOf) -> str:
        """Returns which award was paid."""
        return f"recorded that {read_award(self.award)[1]} was paid, with the reference {self.reference}"


class PrizeWithheld(FormatEvent):
    """The board withheld an award (U8)."""

    kind: Literal["unrestricted.prize_withheld"] = "unrestricted.prize_withheld"
    award: Line
    vote: Vote
    reason: PublicReason

    def effect_on(self, submission: str, task: str) -> tuple[str, str] | None:
        """Returns which prize of a defence, or for breaking it, is withheld, with the reason."""
        del task
        defence, words = read_award(self.award)
        return (f"Withheld: {words}", self.reason) if submission == defence else None

    def in_words(self, _: NameOf) -> str:
        """Returns which award was withheld, with the votes."""
        return f"recorded that the board withholds {read_award(self.award)[1]} ({self.vote.in_words()})"


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
    BoardMemberUnseated,
    ConflictNoted,
    ConflictWaived,
    VoteCast,
    MoneyMoved,
    PrizePaid,
    PrizeWithheld,
)
"""All event types of the format."""
