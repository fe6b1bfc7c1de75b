"""What everybody may see: the contest and its rules in words, boards, matrix, submissions, findings, downloads."""

from django.http import HttpResponseBase

from orchestrator.web.rights import Visit
from orchestrator.web.templating import render


def home(visit: Visit) -> HttpResponseBase:
    """The contest in words: what is played, when, by which rules."""
    return render(visit, "home.html.j2")
