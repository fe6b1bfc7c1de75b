"""Rate limits of pages with forms. They share the API's buckets."""

import functools
from collections.abc import Callable
from typing import Any

from django.http import HttpResponseBase

from orchestrator.web import rate_limits
from orchestrator.web.pages import errors
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.rights import Visit

View = Callable[..., HttpResponseBase]


def limited(kind: RequestKind) -> Callable[[View], View]:
    """Returns a view decorator that counts POST requests as a kind of request and answers 429 if there are too many.

    Submissions are counted for the team, as in the API, and all other kinds for the person.
    """

    def decorate(view: View) -> View:
        @functools.wraps(view)
        def counted(visit: Visit, **kwargs: Any) -> HttpResponseBase:
            if visit.request.method == "POST":
                who = f"team {visit.team}" if kind is RequestKind.SUBMISSION else visit.actor.person
                if seconds := rate_limits.wait_seconds(kind, who, visit.site.clock()):
                    return errors.too_many(visit.request, seconds)
            return view(visit, **kwargs)

        return counted

    return decorate
