"""Weeks and pictures of an unrestricted contest; every other contest answers with 404."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Status
from pydantic import TypeAdapter

from orchestrator.application.contests import unrestricted_views
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.application.contests.unrestricted_views import PictureView, Viewer, WeekView
from orchestrator.application.grading import attack_pictures
from orchestrator.bundles.receipts import encode_receipt
from orchestrator.domain.contest_events import Role
from orchestrator.formats.unrestricted.state import State
from orchestrator.web import unrestricted_mails
from orchestrator.web.api.access import PUBLIC, READ, SUBMIT, Caller, caller_of
from orchestrator.web.api.problems import unknown
from orchestrator.web.api.schemas import RulingAppealPart, RulingAppealText
from orchestrator.web.arrival_time import last_byte_time
from orchestrator.web.organization_conflicts import record_organization_conflicts
from orchestrator.web.rate_limits import RequestKind

router = Router(auth=PUBLIC, tags=["weeks"])
_PICTURES: TypeAdapter[list[PictureView]] = TypeAdapter(list[PictureView])
_WEEKS: TypeAdapter[list[WeekView]] = TypeAdapter(list[WeekView])


@router.get("/weeks", response=list[WeekView])
def weeks(request: HttpRequest) -> Any:
    """The weeks, the latest first. `pictures` is null while a week is open."""
    caller = caller_of(request)
    contest, now = contest_of(caller), caller.site.clock()
    viewer = _viewer(caller, contest)
    return _WEEKS.dump_python(contest.read(lambda state: unrestricted_views.weeks(state, viewer, now)), mode="json")


@router.get("/weeks/{week}/pictures", response=list[PictureView])
def pictures_of_week(request: HttpRequest, week: str) -> Any:
    """The pictures of a closed week with their rulings and the answers of raters and defences."""
    caller = caller_of(request)
    contest, now = contest_of(caller), caller.site.clock()
    viewer = _viewer(caller, contest)
    found = contest.read(lambda state: unrestricted_views.pictures_of_week(state, viewer, week, now))
    if found is None:
        raise unknown("week")
    return _PICTURES.dump_python(found[0], mode="json")


@router.get("/pictures", response=list[PictureView], auth=READ)
def own_pictures(request: HttpRequest, team: str) -> Any:
    """The pictures of your team, the latest first."""
    caller = caller_of(request)
    contest = contest_of(caller)
    name = caller.require_team(team)
    return _PICTURES.dump_python(
        contest.read(lambda state: unrestricted_views.pictures_of_team(state, name)), mode="json"
    )


@router.post("/pictures", response={200: PictureView, 201: PictureView}, auth=SUBMIT)
def submit_picture(request: HttpRequest, team: str) -> Status[Any]:
    """Submits a picture: the body is a PNG (201). The same file again returns the known picture (200)."""
    caller = caller_of(request)
    contest = contest_of(caller)
    name = caller.require_team(team)
    caller.spend(RequestKind.SUBMISSION, f"team {name}")
    shape, data = attack_pictures.task_shape(caller.site.contest()), request.body
    known = contest.read(lambda state: frozenset(state.pictures))
    now = last_byte_time(request, caller.site.clock)
    picture = attack_pictures.submit_picture(contest, shape, caller.actor.person, name, data, now)

    def view(state: State) -> PictureView:
        return unrestricted_views.picture_view(state, state.pictures[picture])

    return Status(200 if picture in known else 201, _PICTURES.dump_python([contest.read(view)], mode="json")[0])


@router.get("/pictures/{picture}/receipt", auth=READ)
def receipt(request: HttpRequest, picture: str) -> HttpResponse:
    """The signed receipt of a picture of your team, byte for byte."""
    caller = caller_of(request)
    contest = contest_of(caller)
    team = contest.read(lambda state: state.pictures[picture].team if picture in state.pictures else "")
    if team not in caller.actor.teams:
        raise unknown("picture")
    made = attack_pictures.picture_receipt(contest, caller.site.contest().file.contest, picture)
    return HttpResponse(encode_receipt(made.document()), content_type="application/json")


@router.post("/pictures/{picture}/appeals", response={201: RulingAppealPart}, auth=SUBMIT)
def appeal(request: HttpRequest, picture: str, team: str, body: RulingAppealText) -> RulingAppealPart:
    """Appeals against the ruling on a picture of your team, or on one that breaks its defence (U8)."""
    caller = caller_of(request)
    contest = contest_of(caller)
    name = caller.require_team(team)

    def is_party(state: State) -> bool:
        known = state.pictures.get(picture)
        return known is not None and unrestricted_views.is_party(state, known, name)

    if not contest.read(is_party):
        raise unknown("picture")
    caller.spend(RequestKind.APPEAL, caller.actor.person)
    words = (caller.actor.person, name, picture, body.text)
    filed = attack_pictures.appeal_against_ruling(contest, *words, caller.site.clock())
    unrestricted_mails.mail_waiting_appeal(caller.site, contest, filed)
    return RulingAppealPart(appeal=filed, picture=picture, team=name)


def contest_of(caller: Caller) -> UnrestrictedContest:
    """Returns the unrestricted contest. Raises ApiProblem (404) if the contest has another format.

    Before a board member is answered, records the conflicts of interest that follow from mail addresses.
    """
    found = caller.site.unrestricted()
    if found is None:
        raise unknown("week")
    if Role.BOARD in caller.actor.roles:
        record_organization_conflicts(caller.site, found)
    return found


def _viewer(caller: Caller, contest: UnrestrictedContest) -> Viewer:
    """Returns the viewer. A board member does not see the cases in which that member has a conflict (U8)."""
    actor = caller.actor
    return contest.read(lambda state: unrestricted_views.viewer_of(state, actor.person, actor.teams))
