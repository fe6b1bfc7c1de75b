"""What a person may see of an unrestricted contest: no pictures of an open week (U5), no case of an own conflict (U8).

`application.contests.unrestricted_views` and `review_board_cases` use these functions for pages and the API.
"""

from datetime import datetime

from orchestrator.domain.contest_events import FormatEvent
from orchestrator.formats.unrestricted.event_checks import unrecorded_conflicts
from orchestrator.formats.unrestricted.events import BoardMemberSeated, VoteCast
from orchestrator.formats.unrestricted.state import Picture, PictureStatus, State


def visible_pictures(state: State, team: str = "", member: str = "", today: datetime | None = None) -> list[Picture]:
    """Returns the pictures that a person may see: the public ones, and also those of `team` before the close (U5).

    A board `member` sees no picture of a team with which that member has a conflict on the day `today`, by default the
    day of the last event.
    """
    return [
        each
        for each in state.pictures.values()
        if (each.team == team or each.status is not PictureStatus.RECEIVED)
        and not (member and is_recused(state, member, state.teams_of_picture(each), today or state.at))
    ]


def tells_of_conflict(state: State, event: FormatEvent, member: str, now: datetime) -> bool:
    """Returns whether an event concerns a case or a picture in which a member has a conflict.

    Decisions of the board about a defence are public, so they do not count as a case.
    """
    cases = [
        f"{kind}:{subject}"
        for kind, field in (("overrule", "picture"), ("appeal", "appeal"))
        if (subject := getattr(event, field, ""))
    ]
    match event:
        case VoteCast():
            cases.append(event.question)
        case BoardMemberSeated() if event.case:
            cases.append(event.case)
    return any(is_recused(state, member, state.teams_of(case), now) for case in cases)


def is_recused(state: State, member: str, teams: frozenset[str], now: datetime) -> bool:
    """Returns whether a member has a conflict with one of these teams, in the ledger or not recorded yet."""
    return bool(state.board.recusal(member, teams, now.date())) or any(
        unrecorded_conflicts(state, member, team) for team in teams
    )
