"""Notes when and from where each session is used, for the page that lists where somebody is signed in."""

from collections.abc import Callable
from datetime import timedelta

from allauth.account.adapter import get_adapter
from allauth.usersessions.models import UserSession
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

_RECENT = timedelta(minutes=1)
_USER_AGENT_CHARACTERS = 200
"""allauth keeps no more of the header."""


def note_activity(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Notes the time of a session's use once a minute, and every change of its address and browser.

    allauth's own middleware notes it at each request, which takes a fifth of the time of a page.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated and not _is_noted(request):
            UserSession.objects.create_from_request(request)
        return get_response(request)

    return middleware


def _is_noted(request: HttpRequest) -> bool:
    """Returns whether a use of the session in the last minute, from the same address and browser, is noted."""
    found: bool = UserSession.objects.filter(
        session_key=request.session.session_key,
        user_id=request.user.pk,
        ip=get_adapter().get_client_ip(request),
        user_agent=request.META.get("HTTP_USER_AGENT", "")[:_USER_AGENT_CHARACTERS],
        last_seen_at__gt=timezone.now() - _RECENT,
    ).exists()
    return found
