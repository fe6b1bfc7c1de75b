"""Limits of requests for pages that take something in: the buckets of the API, filled by forms as well."""

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
    """Returns a decorator of views: what is posted counts as a kind of request, and too many are put off (429).

    Hand-ins are counted by the team, as at the API, and everything else by the person.
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
