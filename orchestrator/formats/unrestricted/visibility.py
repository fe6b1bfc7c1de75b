"""What of an unrestricted contest somebody may see: nothing of a week before it closes (U5), no case of their conflict.

Lists, counts, mails and exports are made of what these functions return.
"""

from datetime import datetime

from orchestrator.formats.unrestricted.checks import unnoted_conflicts
from orchestrator.formats.unrestricted.state import Appeal, Defence, Picture, PictureStatus, State


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


def visible_defences(state: State, team: str = "") -> list[Defence]:
    """Returns the defences that a visitor sees: the published ones (U3), and those of their own team."""
    return [each for each in state.defences.values() if each.published_at is not None or each.team == team]


def board_appeals(state: State, member: str, now: datetime) -> list[Appeal]:
    """Returns the open appeals on which a member may vote; those of a conflict are not among them (U8)."""
    open_ = (state.appeals[each] for each in state.open_appeals)
    return [each for each in open_ if not is_recused(state, member, state.teams_of(f"appeal:{each.id}"), now)]


def is_recused(state: State, member: str, teams: frozenset[str], now: datetime) -> bool:
    """Returns whether a member has a conflict with one of these teams, noted or not noted yet."""
    return bool(state.board.recusal(member, teams, now.date())) or any(
        unnoted_conflicts(state, member, team) for team in teams
    )
