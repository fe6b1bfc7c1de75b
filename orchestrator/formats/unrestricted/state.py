"""The state of an unrestricted contest after some events: pictures, defences, appeals, the board, the books.

This module only has the facts and what follows from them directly. `event_checks` decides whether an event is allowed,
and `fold` applies it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from orchestrator.domain.contest_events import Role
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Side
from orchestrator.formats.unrestricted.bounding_boxes import PictureSize
from orchestrator.formats.unrestricted.money import Books, Transfer, TransferKind
from orchestrator.formats.unrestricted.prizes import Break, Entrants, StakedDefence, Unsettled
from orchestrator.formats.unrestricted.questionnaire import Questionnaire
from orchestrator.formats.unrestricted.rater_tests import RaterRecord
from orchestrator.formats.unrestricted.recusal import Board
from orchestrator.formats.unrestricted.rules import OnFault, UnrestrictedRules
from orchestrator.formats.unrestricted.validity import Judge, Outcome, Rating, Ruling
from orchestrator.formats.unrestricted.week_calendar import Week, first_instant, load_zone, next_week, week_at

EPOCH = datetime.min.replace(tzinfo=UTC)


class DefenceStatus(StrEnum):
    """The stages of a defence: received, readable, eligible, published, staked, broken or expired, checked, paid."""

    RECEIVED = "received"
    READABLE = "readable"
    REFUSED = "refused"
    """It is not readable or not eligible (U2), and does not play."""
    ELIGIBLE = "eligible"
    PUBLISHED = "published"
    STAKED = "staked"
    BROKEN = "broken"
    EXPIRED = "expired"
    CHECKED = "checked"
    PAID = "paid"
    WITHHELD = "withheld"


ANSWERING = frozenset({DefenceStatus.ELIGIBLE, DefenceStatus.PUBLISHED, DefenceStatus.STAKED, DefenceStatus.BROKEN})
"""The stages in which a defence is asked about the pictures of every week."""
HELD = frozenset({DefenceStatus.EXPIRED, DefenceStatus.CHECKED})
"""The stages in which a defence is asked only about pictures of its days: the board may find one valid after all."""


class PictureStatus(StrEnum):
    """The stages of a picture: received; rating, once it is public; valid or invalid. See also `Picture.settled`."""

    RECEIVED = "received"
    RATING = "rating"
    VALID = "valid"
    INVALID = "invalid"


@dataclass
class Defence:
    """A defence and its history. `why` is the reason if it was refused."""

    id: str
    team: str
    receipt: int
    digest: str
    source: str
    status: DefenceStatus = DefenceStatus.RECEIVED
    why: str = ""
    tested_on: tuple[str, ...] = ()
    """The pictures that were valid when the board found it readable, on which it is tested (U2)."""
    tested_as: dict[str, str] = field(default_factory=dict)
    """Those of them that were valid when the test was recorded -> the class that each showed then."""
    tested_at: datetime | None = None
    tested_in: str = ""
    """The week in which it was tested, "" if none was open."""
    published_at: datetime | None = None
    batch: str = ""
    staked_at: datetime | None = None
    answers: dict[str, str | None] = field(default_factory=dict)
    """Picture -> the defence's label, None if it abstained or gave no answer (U1)."""
    faults: set[str] = field(default_factory=set)
    """Pictures to which it gave no answer at all. They are in `answers`, too (U7)."""
    other_seeds: dict[str, list[str | None]] = field(default_factory=dict)
    broken_by: list[str] = field(default_factory=list)
    """Settled valid pictures that it labelled as the other class, in the order of the ledger."""
    broken_at: datetime | None = None
    """When the first of them was recorded."""
    confirmed: dict[str, str] = field(default_factory=dict)
    """Rejected picture -> the member who confirmed the rejection (U11)."""

    @property
    def code_is_closed(self) -> bool:
        """Whether it has no published source (U3)."""
        return not self.source


@dataclass(frozen=True)
class Decision:
    """A decision of the board or a panel about a picture, with its public reason (U8).

    `by` is "board" or "panel"; `outcome` is "valid: CLASS", "invalid", "withheld" or "report dismissed".
    """

    at: datetime
    by: str
    outcome: str
    reason: str


@dataclass
class Picture:
    """A picture of a team. `appeals` are the appeals against its ruling; `withheld`: nobody is shown its pixels."""

    id: str
    team: str
    receipt: int
    received: datetime
    week: str
    size: PictureSize
    digest: str
    status: PictureStatus = PictureStatus.RECEIVED
    ratings: list[Rating] = field(default_factory=list)
    dismissed: set[str] = field(default_factory=set)
    """The raters whose reports of it the board dismissed."""
    ruling: Ruling | None = None
    ruled_at: datetime | None = None
    """When it was ruled valid or invalid, None before."""
    class_name: str | None = None
    """The class that a valid picture shows, by its raters, an appeal or the board's ruling."""
    appeals: list[str] = field(default_factory=list)
    settled: bool = False
    withheld: bool = False
    members: set[str] = field(default_factory=set)
    """The board members who voted about it. They may not confirm its rejection (U11)."""
    decisions: list[Decision] = field(default_factory=list)
    """The decisions of the board and of panels about it, in order (U8)."""

    @property
    def is_rejected(self) -> bool:
        """Whether it is invalid and settled."""
        return self.settled and self.status is PictureStatus.INVALID

    @property
    def counting(self) -> list[Rating]:
        """Its ratings without the reports that the board dismissed."""
        return [rating for rating in self.ratings if rating.rater not in self.dismissed]


@dataclass
class Appeal:
    """An appeal against the ruling on a picture, with the ratings of its panel if one was called (U8)."""

    id: str
    picture: str
    team: str
    text: str = ""
    """The team's text, "" in a redacted ledger."""
    has_panel: bool = False
    panel: list[Rating] = field(default_factory=list)
    rated_at: datetime | None = None
    """When the last rater of the panel answered so far."""
    decision: Decision | None = None

    @property
    def decided(self) -> bool:
        """Whether the appeal was decided."""
        return self.decision is not None

    @property
    def is_reported(self) -> bool:
        """Whether a rater of the panel reported the picture. Nobody else is asked then, and the board decides."""
        return any(each.answers is None for each in self.panel)


@dataclass
class State:
    """The state of an unrestricted contest, which follows from its ledger. Only `fold.apply` changes it."""

    rules: UnrestrictedRules = field(default_factory=UnrestrictedRules)
    redacted: bool = False
    """Whether the ledger is redacted, so that it does not identify people."""
    season: Season = field(default_factory=Season)
    at: datetime = EPOCH
    """The time of the last event."""
    opened_at: datetime | None = None
    position: int = 0
    """The number of events so far, which is the position of the last one in the ledger."""
    weeks: dict[str, Week] = field(default_factory=dict)
    tzdata: str = ""
    """The release of the time zone database with which the last week was computed."""
    closed_weeks: dict[str, list[str]] = field(default_factory=dict)
    """Closed week -> its pictures."""
    week_pictures: list[str] = field(default_factory=list)
    """The pictures of the open week."""
    defences: dict[str, Defence] = field(default_factory=dict)
    pictures: dict[str, Picture] = field(default_factory=dict)
    unsettled: dict[str, None] = field(default_factory=dict)
    """The pictures that are public and not settled, in the order of the ledger."""
    to_ask: dict[str, set[str]] = field(default_factory=dict)
    """Closed week -> the defences that have to be asked about some of its pictures, as long as they play (U7)."""
    rejected: dict[str, None] = field(default_factory=dict)
    """The pictures that are invalid and settled."""
    unrecorded_breaks: dict[tuple[str, str], None] = field(default_factory=dict)
    """The defence and the picture of each break by a settled picture that no event has recorded yet."""
    valid: dict[str, None] = field(default_factory=dict)
    """The pictures that are valid now."""
    raters: dict[str, RaterRecord] = field(default_factory=dict)
    """The record of each rater so far (U6)."""
    receipts: dict[tuple[str, str], str] = field(default_factory=dict)
    """Team and digest of a file -> the picture that it became."""
    uploads: dict[tuple[str, date], int] = field(default_factory=dict)
    """Team and local day -> how many pictures the team submitted."""
    admitted: dict[str, str] = field(default_factory=dict)
    """Team -> its preprint, or "" for one that the board admitted (U4)."""
    appeals: dict[str, Appeal] = field(default_factory=dict)
    open_appeals: dict[str, None] = field(default_factory=dict)
    decided: set[str] = field(default_factory=set)
    """The cases that the board decided at least once, whose votes are public."""
    board: Board = field(default_factory=Board)
    books: Books | None = None
    """None if nothing is paid."""
    people: dict[str, set[str]] = field(default_factory=dict)
    """Team -> the people who were in it when it submitted something, or are in it now."""
    bound: dict[str, set[str]] = field(default_factory=dict)
    """Team -> the people who were in it when it submitted something."""
    is_over: bool = False
    """Whether the remaining money was returned."""

    def __post_init__(self) -> None:
        self.zone: ZoneInfo = load_zone(self.rules.time_zone)
        self.questionnaire = Questionnaire(self.rules.classes)
        self.class_names = frozenset(each.name for each in self.rules.classes)
        if self.rules.prizes is not None:
            self.books = Books(self.rules.prizes.pool.currency)

    @property
    def last_week(self) -> Week | None:
        """The week that was opened last, None before the first."""
        return next(reversed(self.weeks.values()), None)

    @property
    def week(self) -> Week | None:
        """The open week, None before the first and after the last week."""
        last = self.last_week
        return None if last is None or last.id in self.closed_weeks else last

    def next_week(self) -> Week | None:
        """Returns the week after the last opened one, None after `rules.last_day` or before the contest opened."""
        if self.opened_at is None:
            return None
        ends, before = self.rules.week.ends, self.last_week
        if before is None:
            found = week_at(self.opened_at, self.zone, ends)
            found = Week(found.id, self.opened_at, found.closes)
        else:
            found = next_week(before, self.zone, ends)
        if (last_day := self.rules.last_day) is None:
            return found
        over = first_instant(last_day + timedelta(days=1), self.zone)
        return None if over <= found.opens else Week(found.id, found.opens, min(found.closes, over))

    def judge(self, picture: Picture) -> Judge:
        """Returns the judge for pictures of this picture's size."""
        return Judge(picture.size, self.rules.validity, self.questionnaire)

    def appeals_end(self, picture: Picture) -> datetime | None:
        """Returns until when teams may appeal against the ruling on a picture, None if there is no ruling."""
        return None if picture.ruled_at is None else picture.ruled_at + timedelta(days=self.rules.appeal_days)

    def panel_ruling(self, appeal: Appeal) -> Ruling:
        """Returns what the panel of an appeal finds so far (U8)."""
        picture = self.pictures[appeal.picture]
        return self.judge(picture).rule_on_appeal(appeal.panel, {each.rater for each in picture.ratings})

    def board_decides_until(self, appeal: Appeal) -> datetime | None:
        """Returns until when the board may decide an open appeal whose panel does not agree, None for any other (U8).

        After that the ruling on the picture stands.
        """
        if appeal.decided or appeal.rated_at is None or self.panel_ruling(appeal).outcome is not Outcome.UNDECIDED:
            return None
        return appeal.rated_at + timedelta(days=self.rules.appeal_days)

    def breaks(self, defence: Defence, picture: Picture) -> bool:
        """Returns whether a picture breaks a defence if its ruling stands (U7). An abstention is no break."""
        if picture.status is not PictureStatus.VALID or picture.id not in defence.answers:
            return False
        if picture.id in defence.faults:
            return self.rules.on_fault is OnFault.BREAK
        return defence.answers[picture.id] not in (None, picture.class_name)

    def teams_broken_by(self, picture: Picture) -> set[str]:
        """Returns the teams with a defence that a picture breaks if its ruling stands (U7)."""
        return {each.team for each in self.defences.values() if self.breaks(each, picture)}

    def has_open_appeal(self, picture: Picture) -> bool:
        """Returns whether an appeal against the ruling on a picture is open (U8)."""
        return any(each in self.open_appeals for each in picture.appeals)

    def lucky(self, defence: Defence, picture: Picture) -> bool:
        """Returns whether at most half of the other seeds break it, too (U13). Such a break counts, and is marked."""
        others = defence.other_seeds.get(picture.id, [])
        wrong = sum(answer not in (None, picture.class_name) for answer in others)
        return bool(others) and wrong <= len(others) // 2

    def awaited_answers(self, defence: Defence) -> list[str]:
        """Returns the public pictures that a defence still has to be asked about.

        Each is valid or not settled, because a settled invalid picture is asked about no more.
        """
        return [each for each in {**self.valid, **self.unsettled} if self.awaits_answer(defence, self.pictures[each])]

    def weeks_to_ask(self) -> dict[str, list[str]]:
        """Returns the defences that still have to be asked about pictures, by the closed week of these pictures."""
        found = {}
        for week, names in self.to_ask.items():
            defences = [self.defences[each] for each in sorted(names)]
            waiting = [each.id for each in defences if self.is_asked(each, self.closed_weeks[week])]
            if waiting:
                found[week] = waiting
        return found

    def is_asked(self, defence: Defence, pictures: Iterable[str]) -> bool:
        """Returns whether a defence still has to be asked about one of these pictures, at its stage."""
        found = (self.pictures[each] for each in pictures)
        return any(self.answers_at_stage(defence, each) and self.awaits_answer(defence, each) for each in found)

    def answers_at_stage(self, defence: Defence, picture: Picture) -> bool:
        """Returns whether a defence is asked about a picture at its stage, unless it answered already."""
        end = self.stake_ends(defence) if defence.status in HELD else None
        return defence.status in ANSWERING or (end is not None and picture.received < end)

    def awaits_answer(self, defence: Defence, picture: Picture) -> bool:
        """Returns whether a defence still has to be asked about a picture. One that left is asked about no more.

        Its test covers a picture only as the class that this showed then: a later ruling may find another one (U8).
        """
        return (
            self.season.entries[defence.id].is_active
            and picture.status is not PictureStatus.RECEIVED
            and not picture.withheld
            and picture.id not in defence.answers
            and not picture.is_rejected
            and not (picture.id in defence.tested_as and picture.class_name in (None, defence.tested_as[picture.id]))
        )

    def threatening(self, defence: Defence) -> list[str]:
        """Returns the pictures that break a defence unless their ruling changes. They bar it from being staked."""
        return [each for each in self.unsettled if self.breaks(defence, self.pictures[each])]

    def entrants(self) -> Entrants:
        """Returns the people of each team, and the people who may win no prize (U12)."""
        barred = dict.fromkeys(self.season.organizer_keys(), "an organizer")
        board = self.board_keys() | {*self.board.names.values()} - {""}
        barred |= dict.fromkeys(board, "a present or former member of the review board")
        return Entrants({team: frozenset(people) for team, people in self.people.items()}, barred)

    def board_keys(self) -> set[str]:
        """Returns the keys of the people who have the board's role now."""
        return {person.identity_key for person in self.season.roles[Role.BOARD].values()}

    def teams_of(self, question: str) -> frozenset[str]:
        """Returns the teams that a question is about. Raises KeyError if its subject does not exist."""
        kind, _, subject = question.partition(":")
        match kind:
            case "readable":
                return frozenset({self.defences[subject].team})
            case "stake":
                return frozenset(self.defences[each].team for each in subject.split("+"))
            case "admit":
                if not self.redacted and subject not in self.season.teams:
                    raise KeyError(subject)
                return frozenset({subject})
            case "withhold":
                if self.books is None:
                    raise KeyError(subject)
                award = self.books.transfers[subject]
                return frozenset({award.team, self.defences[award.defence].team, *self._in_line(self.books, award)})
            case "appeal":
                appeal = self.appeals[subject.partition(":")[0]]
                return self.teams_of_picture(self.pictures[appeal.picture]) | {appeal.team}
            case "report" | "overrule":
                return self.teams_of_picture(self.pictures[subject.partition(":")[0]])
        raise KeyError(question)

    def _in_line(self, books: Books, award: Transfer) -> set[str]:
        """Returns the teams with a staked defence that may win a prize for defences if the board withholds it (U10)."""
        if award.kind is not TransferKind.DEFENCE_PRIZE or self.is_over:
            return set()
        given = [each for each in books.transfers.values() if (each.kind, each.days) == (award.kind, award.days)]
        if any(books.is_paid(each.id) for each in given):
            return set()
        winners = {each.defence for each in given}
        staked = [each for each in self.defences.values() if each.staked_at is not None and each.id not in winners]
        return {each.team for each in staked if not self._barred(each) and self.held_for(each, award.days)}

    def held_for(self, defence: Defence, days: int) -> bool:
        """Returns whether no picture broke a staked defence that was received in its first `days` times 24 hours."""
        end = (defence.staked_at or self.at) + timedelta(days=days)
        return all(self.pictures[each].received >= end for each in defence.broken_by)

    def picture_of(self, question: str) -> Picture | None:
        """Returns the picture that a question is about, None if it is about none."""
        kind, subject = question.split(":")[:2]
        if kind in ("report", "overrule"):
            return self.pictures[subject]
        return self.pictures[self.appeals[subject].picture] if kind == "appeal" else None

    def teams_of_picture(self, picture: Picture) -> frozenset[str]:
        """Returns a picture's team, and the teams of defences that it would or may break if it were ruled valid."""
        others = {each.team for each in self.defences.values() if self._may_be_broken(each, picture)}
        return frozenset({picture.team, *others})

    def _may_be_broken(self, defence: Defence, picture: Picture) -> bool:
        """Returns whether a picture breaks a defence, or would if it were ruled valid as another class (U7).

        A defence that did not answer yet may be broken if it is asked about the picture once that is valid.
        """
        if picture.id in defence.faults:
            return self.rules.on_fault is OnFault.BREAK
        if picture.id not in defence.answers:
            return self._may_be_asked(defence, picture)
        answer = defence.answers[picture.id]
        return answer is not None and (picture.class_name is None or answer != picture.class_name)

    def _may_be_asked(self, defence: Defence, picture: Picture) -> bool:
        """Returns whether a defence may still be asked about a valid picture, in its test or later."""
        if not self.season.entries[defence.id].is_active:
            return False
        if defence.status in (DefenceStatus.RECEIVED, DefenceStatus.READABLE):
            return True
        held = picture.class_name is not None and defence.tested_as.get(picture.id) == picture.class_name
        return self.answers_at_stage(defence, picture) and not held

    def worklist(self, defence: Defence) -> list[str]:
        """Returns the pictures whose rejection a board member has to confirm before a defence's prize (U11)."""
        return [each for each in self.rejected if self.awaits_confirmation(defence, self.pictures[each])]

    def awaits_confirmation(self, defence: Defence, picture: Picture) -> bool:
        """Returns whether a board member has to confirm a picture's rejection before a staked defence's prize (U11).

        That concerns pictures that were received after the defence was published and before it had held long enough.
        """
        end, published = self._last_prize_ends(defence), defence.published_at
        if end is None or published is None or not published <= picture.received < end:
            return False
        return picture.is_rejected and picture.id not in defence.confirmed

    def _last_prize_ends(self, defence: Defence) -> datetime | None:
        """Returns when the longest time ends for which a staked defence may win a prize, None if it wins none (U10).

        A defence that was broken later may still win the advance for fewer days.
        """
        if defence.staked_at is None or defence.status in (DefenceStatus.PAID, DefenceStatus.WITHHELD):
            return None
        held = [days for days in self.rules.prize_days if self.held_for(defence, days)]
        return defence.staked_at + timedelta(days=max(held)) if held else None

    def stake_ends(self, defence: Defence) -> datetime | None:
        """Returns when a staked defence has held for `rules.days_unbroken` times 24 hours, None if it is not staked."""
        return None if defence.staked_at is None else defence.staked_at + timedelta(days=self.rules.days_unbroken)

    def staked_defence(self, defence: Defence) -> StakedDefence:
        """Returns a staked defence as `prizes` needs it. Raises ValueError if it is not staked."""
        if defence.staked_at is None:
            raise ValueError(f"{defence.id} is not staked")
        broken = [self.pictures[each] for each in defence.broken_by]
        return StakedDefence(
            defence.id,
            defence.team,
            defence.receipt,
            defence.staked_at,
            tuple(Break(each.team, each.receipt, each.received, self.weeks[each.week].closes) for each in broken),
            tuple(self._unsettled(defence)),
            self._barred(defence),
        )

    def _unsettled(self, defence: Defence) -> Iterator[Unsettled]:
        # A picture from before the staking matters too: if it breaks the defence, nobody gets the stake.
        end = self.stake_ends(defence)
        for each in self._open_pictures(defence):
            if end is None or each.received >= end:
                continue
            closes = self.weeks[each.week].closes
            if not each.settled:
                yield Unsettled(each.id, each.received, closes, "is not settled")
            elif self.awaits_answer(defence, each):
                yield Unsettled(each.id, each.received, closes, "was not shown to it yet")
            elif self.breaks(defence, each) and each.id not in defence.broken_by:
                yield Unsettled(each.id, each.received, closes, "breaks it, which is not recorded yet")
            elif self.awaits_confirmation(defence, each):
                yield Unsettled(each.id, each.received, closes, "waits for the board's confirmation (U11)", ruled=True)

    def _open_pictures(self, defence: Defence) -> list[Picture]:
        """Returns the pictures that may be unsettled for a defence, in the order of the ledger.

        Most pictures of a long contest are settled and answered. Looking at all of them at each transfer would take
        time that grows with the square of the contest's length.
        """
        found = {*self.week_pictures, *self.unsettled, *self.worklist(defence)}
        found |= {picture for name, picture in self.unrecorded_breaks if name == defence.id}
        for week, names in self.to_ask.items():
            found |= set(self.closed_weeks[week]) if defence.id in names else set()
        return sorted((self.pictures[each] for each in found), key=lambda each: each.receipt)

    def _barred(self, defence: Defence) -> str:
        entry = self.season.entries[defence.id]
        if defence.code_is_closed:
            return "its code is closed"
        if not entry.is_active:
            return "it was withdrawn" if entry.withdrawn else "it was disqualified"
        return ""


def is_defence(side: Side | None) -> bool:
    """Returns whether a submission's side is the defence."""
    return side is Side.DEFENCE


def is_ruled(ruling: Ruling) -> bool:
    """Returns whether a ruling says that a picture is valid or invalid."""
    return ruling.outcome in (Outcome.VALID, Outcome.INVALID)
