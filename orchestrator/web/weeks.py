"""What the pages of an unrestricted contest share: the contest, who looks at it, and acts on it."""

from collections.abc import Callable
from datetime import datetime

from django.http import Http404, HttpResponse

from orchestrator.application.contests import unrestricted_views
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.application.contests.unrestricted_views import Viewer
from orchestrator.domain.contest_events import Role
from orchestrator.errors import InfrastructureFault, SparringError
from orchestrator.web.organizations import note_organizations
from orchestrator.web.rights import Visit
from orchestrator.web.team_forms import problem_text

REFUSED = 409


def contest_of(visit: Visit) -> UnrestrictedContest:
    """Returns the contest. Raises Http404 where it is of another format, which has no such pages.

    Before a member of the board looks, conflicts are noted that follow from addresses.
    """
    found = visit.site.unrestricted()
    if found is None:
        raise Http404
    if Role.BOARD in visit.actor.roles:
        note_organizations(visit.site, found)
    return found


def viewer_of(visit: Visit, contest: UnrestrictedContest) -> Viewer:
    """Returns who looks: to a member of the board, cases of a conflict are not there."""
    return contest.read(lambda state: unrestricted_views.viewer_of(state, visit.actor.person, visit.actor.teams))


def attempt(act: Callable[[datetime], object], visit: Visit) -> str:
    """Does an act at this moment; returns why it was refused, a reason a line, "" where it was done.

    Raises InfrastructureFault: the fault is ours.
    """
    try:
        act(visit.site.clock())
    except InfrastructureFault:
        raise
    except SparringError as error:
        return problem_text(error)
    return ""


def png(data: bytes, *, is_public: bool) -> HttpResponse:
    """Returns a picture; only one that everybody may see is kept by caches."""
    response = HttpResponse(data, content_type="image/png")
    response["Cache-Control"] = "public, no-cache" if is_public else "private, no-store"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response
