"""Conflicts with members of an unrestricted contest's review board (U8), which teams and members declare."""

from django.http import HttpRequest
from ninja import Router, Status

from orchestrator.application.contests import review_board_conflicts, unrestricted_views
from orchestrator.application.contests.review_board_conflicts import DECLARED, MemberConflict
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.domain.contest_events import Role
from orchestrator.errors import Problem
from orchestrator.formats.unrestricted.recusal import ConflictSource
from orchestrator.web.api.access import READ, SUBMIT, Caller, caller_of
from orchestrator.web.api.problems import ApiProblem
from orchestrator.web.api.schemas import (
    BoardConflictsPart,
    ConflictChoicesPart,
    ConflictPart,
    OwnConflict,
    TeamConflict,
    WaivableConflictPart,
    Waiver,
)
from orchestrator.web.api.week_routes import contest_of
from orchestrator.web.rate_limits import RequestKind

router = Router(auth=READ, tags=["conflicts"])


@router.get("/conflicts", response=ConflictChoicesPart)
def choices(request: HttpRequest, team: str) -> ConflictChoicesPart:
    """Lists the board members with whom a team may declare a conflict, and the kinds of conflicts."""
    caller = caller_of(request)
    contest = contest_of(caller)
    caller.require_team(team)
    members = contest.read(lambda state: sorted(state.board.members))
    return ConflictChoicesPart(members=members, sources=[each.value for each in DECLARED])


@router.post("/conflicts", response={201: ConflictPart}, auth=SUBMIT)
def declare(request: HttpRequest, team: str, body: TeamConflict) -> Status[ConflictPart]:
    """Declares for your team a conflict with a board member, who then does not judge the team's cases."""
    caller = caller_of(request)
    contest = contest_of(caller)
    name = caller.require_team(team)
    caller.spend(RequestKind.ACT, caller.actor.person)
    conflict = MemberConflict(body.member, name, ConflictSource(body.source))
    review_board_conflicts.declare_for_team(contest, caller.actor.person, conflict, caller.site.clock())
    return Status(201, _part(conflict))


@router.get("/board/conflicts", response=BoardConflictsPart)
def list_conflicts(request: HttpRequest) -> BoardConflictsPart:
    """Lists the calling board member's own conflicts, and other members' that may be a coincidence of addresses."""
    caller = caller_of(request)
    contest, member, now = *_member(caller), caller.site.clock()
    own = contest.read(lambda state: review_board_conflicts.own_conflicts(state, member, now.date()))
    waivable = contest.read(lambda state: review_board_conflicts.waivable_conflicts(state, member, now))
    return BoardConflictsPart(
        member=member,
        own=[_part(each) for each in own],
        waivable=[WaivableConflictPart(member=who, team=team) for who, team in waivable],
    )


@router.post("/board/conflicts", response={201: ConflictPart}, auth=SUBMIT)
def declare_own(request: HttpRequest, body: OwnConflict) -> Status[ConflictPart]:
    """Declares a conflict of the calling board member with a team. Members cannot waive their own conflicts."""
    caller = caller_of(request)
    contest, member = _member(caller)
    caller.spend(RequestKind.ACT, caller.actor.person)
    conflict = MemberConflict(member, body.team, ConflictSource(body.source))
    review_board_conflicts.declare_own(contest, conflict, caller.site.clock())
    return Status(201, _part(conflict))


@router.post("/board/conflicts/waive", response={201: WaivableConflictPart}, auth=SUBMIT)
def waive(request: HttpRequest, body: Waiver) -> Status[WaivableConflictPart]:
    """Waives a computed conflict of another board member; two members have to. The reason is public."""
    caller = caller_of(request)
    contest, member = _member(caller)
    caller.spend(RequestKind.ACT, caller.actor.person)
    review_board_conflicts.waive(contest, member, body.member, body.team, body.reason, caller.site.clock())
    return Status(201, WaivableConflictPart(member=body.member, team=body.team))


def _member(caller: Caller) -> tuple[UnrestrictedContest, str]:
    """Returns the contest and the caller's name on its board. Raises ApiProblem if the caller is not on the board."""
    caller.require_role(Role.BOARD)
    contest = contest_of(caller)
    member = contest.read(lambda state: unrestricted_views.viewer_of(state, caller.actor.person, ()).member)
    if not member:
        problem = Problem("Authorization", "this account has no seat on the board yet", "ask the organizers")
        raise ApiProblem(403, "role", problem)
    return contest, member


def _part(conflict: MemberConflict) -> ConflictPart:
    return ConflictPart(member=conflict.member, team=conflict.team, source=conflict.source)
