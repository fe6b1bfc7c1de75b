"""What teams do: found a team, invite people, hand in, watch admission, withdraw, correct, appeal."""

from django.http import HttpResponseBase

from orchestrator.web.rights import Visit
from orchestrator.web.templating import render


def my_teams(visit: Visit) -> HttpResponseBase:
    """The teams that somebody is in."""
    return render(visit, "teams/mine.html.j2")
