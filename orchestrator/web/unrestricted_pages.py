"""Functions that the pages of an unrestricted contest share: its contest, and its viewer."""

from django.http import Http404

from orchestrator.application.contests import unrestricted_views
from orchestrator.application.contests.unrestricted_contest import UnrestrictedContest
from orchestrator.application.contests.unrestricted_views import Viewer
from orchestrator.domain.contest_events import Role
from orchestrator.web.organization_conflicts import record_organization_conflicts
from orchestrator.web.rights import Visit


def contest_of(visit: Visit) -> UnrestrictedContest:
    """Returns the unrestricted contest. Raises Http404 if the contest has another format, which has no such pages.

    Before a member of the board sees a page, records the conflicts of interest that follow from mail addresses.
    """
    found = visit.site.unrestricted()
    if found is None:
        raise Http404
    if Role.BOARD in visit.actor.roles:
        record_organization_conflicts(visit.site, found)
    return found


def viewer_of(visit: Visit, contest: UnrestrictedContest) -> Viewer:
    """Returns the viewer of a page. A board member does not see the cases in which that member has a conflict."""
    return contest.read(lambda state: unrestricted_views.viewer_of(state, visit.actor.person, visit.actor.teams))
