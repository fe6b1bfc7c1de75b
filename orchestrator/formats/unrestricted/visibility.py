"""What of an unrestricted contest somebody may see: nothing of a week before it closes (U5), no case of their conflict.

`application.contests.unrestricted_views` and `board_cases` make pages and the API of what these functions return.
"""

from datetime import datetime

from orchestrator.domain.contest_events import FormatEvent
from orchestrator.formats.unrestricted.checks import unnoted_conflicts
from orchestrator.formats.unrestricted.events import BoardMemberSeated, VoteCast
from orchestrator.formats.unrestricted.state import Picture, PictureStatus, State


def visible_pictures(state: State, team: str = "", member: str = "", today: datetime | None = None) -> list[Picture]:
    """Returns the pictures that a visitor sees: the public ones, and those of their own team before the close (U5).

    A member of the board sees no picture of a team with which they have a conflict; `today` is then needed.
    """
    return [
        each
        for each in state.pictures.values()
        if (each.team == team or each.status is not PictureStatus.RECEIVED)
        and not (member and is_recused(state, member, state.teams_of_picture(each), today or state.at))
    ]


def tells_of_conflict(state: State, event: FormatEvent, member: str, now: datetime) -> bool:
    """Returns whether an event of the ledger is of a case or a picture with which a member has a conflict.

    What the board decided about a defence is no case any more: everybody reads it.
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
    """Returns whether a member has a conflict with one of these teams, noted or not noted yet."""
    return bool(state.board.recusal(member, teams, now.date())) or any(
        unnoted_conflicts(state, member, team) for team in teams
    )
