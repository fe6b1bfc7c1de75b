"""Views of an unrestricted contest for one viewer, made only from what `visibility` lets the viewer see (U5, U8).

Each function takes the state and returns values that hold no reference to it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from orchestrator.domain.leaderboard import Leaderboard, Row
from orchestrator.domain.name_matching import person_key
from orchestrator.formats.unrestricted.state import Decision, Defence, DefenceStatus, Picture, PictureStatus, State
from orchestrator.formats.unrestricted.validity import Rating
from orchestrator.formats.unrestricted.visibility import is_recused, visible_pictures

_DEFENCE_WORDS = {
    DefenceStatus.RECEIVED: "received; the review board votes whether its code can be read",
    DefenceStatus.READABLE: "readable; it is tested on the eligibility set",
    DefenceStatus.REFUSED: "refused",
    DefenceStatus.ELIGIBLE: "eligible; published when the week closes",
    DefenceStatus.PUBLISHED: "published, not staked",
    DefenceStatus.STAKED: "staked",
    DefenceStatus.BROKEN: "broken",
    DefenceStatus.EXPIRED: "held; the review board checks the rejected pictures before the prize",
    DefenceStatus.CHECKED: "held, and checked by the review board",
    DefenceStatus.PAID: "paid",
    DefenceStatus.WITHHELD: "its prize is withheld",
}


@dataclass(frozen=True, slots=True)
class Viewer:
    """The person who looks: their teams, and their name on the review board, "" if they are no member."""

    teams: tuple[str, ...] = ()
    member: str = ""


@dataclass(frozen=True, slots=True)
class RatingView:
    """One rater's answers, in words; `reported` if the rater reported the picture and answered nothing."""

    rater: str
    presence: tuple[tuple[str, str], ...] = ()
    box: str = ""
    statements: tuple[tuple[str, str], ...] = ()
    reported: bool = False


@dataclass(frozen=True, slots=True)
class AnswerView:
    """A defence's answer to a picture. `breaks`: whether it breaks the defence if the ruling stands (U7)."""

    defence: str
    answer: str
    breaks: bool
    lucky: bool


@dataclass(frozen=True, slots=True)
class PictureView:
    """A picture with everything public about it. `is_appealed`: whether an appeal against its ruling is open."""

    id: str
    team: str
    week: str
    received: datetime
    status: str
    class_name: str
    is_public: bool
    withheld: bool
    settled: bool
    is_appealed: bool
    appeals_end: datetime | None
    reasons: tuple[str, ...]
    ratings: tuple[RatingView, ...]
    answers: tuple[AnswerView, ...]
    decisions: tuple[Decision, ...]
    appeals: int


@dataclass(frozen=True, slots=True)
class WeekView:
    """A week and its number of pictures: None while it is open, when nobody may know it (U5)."""

    id: str
    opens: datetime
    closes: datetime
    pictures: int | None


@dataclass(frozen=True, slots=True)
class BoardTable:
    """A board as a table: column heads, and rows of texts; a row's second text names whose row it is."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def member_name(state: State, person: str) -> str:
    """Returns the name under which a person has a seat on the review board, or had one; "" if there was none."""
    return state.board.name_of(person_key(person) if person else "")


def viewer_of(state: State, person: str, teams: Iterable[str]) -> Viewer:
    """Returns the viewer for a person's id in the ledger and their teams."""
    name = member_name(state, person)
    return Viewer(tuple(teams), name if name in state.board.seated else "")


def weeks(state: State, viewer: Viewer, now: datetime) -> list[WeekView]:
    """Returns the weeks, the latest first; pictures with which the viewer has a conflict are not counted."""
    counts: dict[str, int] = {}
    for each in visible_pictures(state, member=viewer.member, today=now):
        counts[each.week] = counts.get(each.week, 0) + 1
    return [
        WeekView(each.id, each.opens, each.closes, counts.get(each.id, 0) if each.id in state.closed_weeks else None)
        for each in reversed(state.weeks.values())
    ]


@dataclass(frozen=True, slots=True)
class PublicRater:
    """A rater's public record: the hidden items that they answered before the last close of a week (U6)."""

    rater: str
    hidden: int
    right: int
    is_removed: bool


def raters(state: State) -> list[PublicRater]:
    """Returns the raters who have a public record or were removed, by id. A record changes when a week closes."""
    return [
        PublicRater(name, *each.published, each.is_removed)
        for name, each in sorted(state.raters.items())
        if each.published[0] or each.is_removed
    ]


def pictures_of_week(
    state: State, viewer: Viewer, week: str, now: datetime, part: slice = slice(None)
) -> tuple[list[PictureView], int] | None:
    """Returns a part of a closed week's pictures that the viewer may see, and the number of all these.

    Returns None if there is no such week or it is open (U5).
    """
    if week not in state.closed_weeks:
        return None
    own = [state.pictures[each] for each in state.closed_weeks[week]]
    seen = [each for each in own if may_see(state, viewer, each, now)]
    return [picture_view(state, each) for each in seen[part]], len(seen)


def defence_state(state: State, defence: str) -> str:
    """Returns a defence's status in words, with the reason if it has one."""
    found = state.defences[defence]
    return f"{_DEFENCE_WORDS[found.status]}{': ' if found.why else ''}{found.why}"


def find_picture(state: State, viewer: Viewer, picture: str, now: datetime) -> PictureView | None:
    """Returns a picture, None if there is none with this id that the viewer may see."""
    found = state.pictures.get(picture)
    return picture_view(state, found) if found is not None and may_see(state, viewer, found, now) else None


def pictures_of_team(state: State, team: str) -> list[PictureView]:
    """Returns a team's own pictures, the latest first."""
    return [picture_view(state, each) for each in reversed(state.pictures.values()) if each.team == team]


def contestable_pictures(state: State, team: str, now: datetime) -> list[PictureView]:
    """Returns the pictures with a ruling against which a team may appeal now (U8)."""
    own = (state.pictures[each] for each in state.unsettled)
    return [picture_view(state, each) for each in own if may_appeal(state, each, team, now)]


def may_appeal(state: State, picture: Picture, team: str, now: datetime) -> bool:
    """Returns whether a team may appeal now against the ruling on a picture (U8)."""
    end = state.appeals_end(picture)
    is_open = end is not None and now < end and not (picture.appeals or picture.withheld or picture.settled)
    return is_open and concerns(state, picture, team)


def concerns(state: State, picture: Picture, team: str) -> bool:
    """Returns whether a ruling concerns a team (U8): a valid picture breaks its defence, or its own one is invalid."""
    if picture.status is PictureStatus.VALID:
        return team in state.teams_broken_by(picture)
    return picture.team == team and picture.status is PictureStatus.INVALID


def is_party(state: State, picture: Picture, team: str) -> bool:
    """Returns whether a picture is a team's own, its ruling concerns the team, or the team appealed against it."""
    appealed = any(state.appeals[each].team == team for each in picture.appeals)
    return picture.team == team or appealed or concerns(state, picture, team)


def may_see(state: State, viewer: Viewer, picture: Picture, now: datetime) -> bool:
    """Returns whether a viewer may see a picture: it is public or their team's, and they have no conflict with it."""
    is_there = picture.team in viewer.teams or picture.status is not PictureStatus.RECEIVED
    return is_there and not (viewer.member and is_recused(state, viewer.member, state.teams_of_picture(picture), now))


def picture_view(state: State, picture: Picture) -> PictureView:
    """Returns a picture with raters' and defences' answers, an appeal's panel only once the appeal is decided (U8)."""
    panels = [state.appeals[each].panel for each in picture.appeals if state.appeals[each].decided]
    ratings = [*picture.ratings, *(rating for panel in panels for rating in panel)]
    return PictureView(
        id=picture.id,
        team=picture.team,
        week=picture.week,
        received=picture.received,
        status=str(picture.status),
        class_name=picture.class_name or "",
        is_public=picture.status is not PictureStatus.RECEIVED,
        withheld=picture.withheld,
        settled=picture.settled,
        is_appealed=state.has_open_appeal(picture),
        appeals_end=state.appeals_end(picture),
        reasons=picture.ruling.reasons if picture.ruling else (),
        ratings=tuple(_rating_view(each) for each in ratings),
        answers=tuple(
            _answer_view(state, each, picture) for each in state.defences.values() if picture.id in each.answers
        ),
        decisions=tuple(picture.decisions),
        appeals=len(picture.appeals),
    )


def _rating_view(rating: Rating) -> RatingView:
    if rating.answers is None:
        return RatingView(rating.rater, reported=True)
    answers, box = rating.answers, rating.answers.box
    said = answers.statements.model_dump() if answers.statements else {}
    return RatingView(
        rating.rater,
        tuple((name, certainty.value.replace("_", " ")) for name, certainty in answers.presence.items()),
        f"{box.left}, {box.top} to {box.right}, {box.bottom}" if box else "",
        tuple((name, "true" if truth else "false") for name, truth in said.items()),
    )


def _answer_view(state: State, defence: Defence, picture: Picture) -> AnswerView:
    answer = defence.answers[picture.id]
    fault = picture.id in defence.faults
    breaks = state.breaks(defence, picture)
    words = "no answer" if fault else answer or "abstains"
    return AnswerView(defence.id, words, breaks, breaks and state.lucky(defence, picture))


def board_table(board: Leaderboard) -> BoardTable:
    """Returns a board as a table."""
    counted = {"", "pictures"}  # units that a column's head leaves out
    columns = [each.title if each.unit in counted else f"{each.title} ({each.unit})" for each in board.columns]
    heads = ("Rank", board.title, f"{board.measure}", *columns, "Remarks")
    return BoardTable(board.title, heads, tuple(_row(board, each) for each in board.rows))


def _row(board: Leaderboard, row: Row) -> tuple[str, ...]:
    numbers = [row.values[each.name].number if each.name in row.values else None for each in board.columns]
    no_prize = f"no prize: {row.no_prize}" if row.no_prize else ""
    remarks = "; ".join(each for each in (row.remark, row.reason, no_prize) if each)
    return (str(row.rank or "-"), row.submission, _number(row.score), *map(_number, numbers), remarks)


def _number(value: Fraction | int | None) -> str:
    if value is None:
        return "-"
    return str(int(value)) if value == int(value) else f"{float(value):.2f}"
