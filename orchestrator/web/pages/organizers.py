"""What organizers do: what waits for them, rounds, people, corrections, announcements, bundles."""

from django.http import HttpResponseBase

from orchestrator.web.rights import Visit
from orchestrator.web.templating import render


def overview(visit: Visit) -> HttpResponseBase:
    """What waits for the organizers."""
    return render(visit, "organize/overview.html.j2")
