"""What of an unrestricted contest somebody may see: nothing of a week before it closes (U5), no case of their conflict.

Lists, counts, mails and exports are made of what these functions return.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from orchestrator.domain.contest_events import ContestEvent
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.checks import case_of, unnoted_conflicts
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


def visible_entries(
    state: State, entries: Iterable[tuple[ContestEvent, datetime]], now: datetime, *, team: str = "", member: str = ""
) -> Iterator[tuple[ContestEvent, datetime]]:
    """Yields the entries of a ledger that a visitor, a team or a member of the board may see now.

    Nobody sees another team's picture before the close (U5). Votes on a case are for the members who may vote, until it
    is decided. Of a case of their conflict a member sees nothing before that: no appeal, no panel, no confirmation.
    """
    for event, at in entries:
        if isinstance(event, events.PictureReceived):
            shown = event.team == team or state.pictures[event.picture].status is not PictureStatus.RECEIVED
        elif question := _open_case(state, event):
            recused = bool(member) and is_recused(state, member, state.teams_of(question), now)
            shown = not recused and not (isinstance(event, events.VoteCast) and not member)
        else:
            shown = True
        if shown:
            yield event, at


def _open_case(state: State, event: ContestEvent) -> str:
    """Returns the case of the board that an event is about and that is not decided yet, "" for any other event."""
    match event:
        case events.VoteCast():
            case = case_of(event.question)
        case events.PictureAppealed() | events.PanelCalled():
            case = f"appeal:{event.appeal}"
        case events.PictureRated() if event.appeal:
            case = f"appeal:{event.appeal}"
        case events.RejectionConfirmed():
            case = f"overrule:{event.picture}"
        case _:
            return ""
    return "" if case in state.decided else case


def is_recused(state: State, member: str, teams: frozenset[str], now: datetime) -> bool:
    """Returns whether a member has a conflict with one of these teams, noted or not noted yet."""
    return bool(state.board.recusal(member, teams, now.date())) or any(
        unnoted_conflicts(state, member, team) for team in teams
    )
