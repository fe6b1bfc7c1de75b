"""Answers that browsers keep and revalidate: 304 if nothing changed."""

from collections.abc import Callable
from hashlib import sha256

from django.contrib.messages import get_messages
from django.http import HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response, patch_vary_headers

from orchestrator import __version__
from orchestrator.web import static_files
from orchestrator.web.rights import Visit

_TAG_LENGTH = 32


def conditional(visit: Visit, state: str, make: Callable[[], HttpResponse]) -> HttpResponseBase:
    """Returns an answer that depends only on a state of the contest and on the actor. Calls `make` unless 304 suffices.

    Shared caches may keep what visitors without an account see, and must revalidate it each time. Only the person's own
    browser may keep what a signed-in person sees. A page that shows a message is never kept.
    """
    account = visit.actor.account
    who = [] if account is None else [account.person, account.name, *sorted(visit.actor.roles)]
    parts = [__version__, static_files.address("style.css"), state, *who]
    tag = f'W/"{sha256(chr(0).join(parts).encode()).hexdigest()[:_TAG_LENGTH]}"'
    has_messages = len(get_messages(visit.request)) > 0
    known = None if has_messages else get_conditional_response(visit.request, etag=tag)
    response = make() if known is None else known
    if not has_messages:
        response["ETag"] = tag
    kept = "no-store" if has_messages else "no-cache"
    response["Cache-Control"] = f"{'public' if account is None and not has_messages else 'private'}, {kept}"
    patch_vary_headers(response, ["Cookie"])
    return response
