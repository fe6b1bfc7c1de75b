"""What every request passes: requests that other sites started are refused, and faults become pages that say so."""

from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from orchestrator.errors import InfrastructureFault
from orchestrator.web import security_log
from orchestrator.web.contest_site import web_settings
from orchestrator.web.pages import errors

GetResponse = Callable[[HttpRequest], HttpResponse]
STRICT_TRANSPORT = "max-age=31536000"
"""For a year browsers use nothing but TLS."""
_REFUSED = frozenset({400, 401, 403, 408, 413, 429})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_log = structlog.get_logger()


def refuse_cross_site_requests(get_response: GetResponse) -> GetResponse:
    """Refuses what changes something and was started by another site, as browsers tell in Sec-Fetch-Site.

    It stands beside the token in each form, which a browser without this header still needs.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        site = request.headers.get("Sec-Fetch-Site", "none")
        if request.method not in _SAFE_METHODS and site not in ("none", "same-origin"):
            return errors.cross_site()
        return get_response(request)

    return middleware


def protect_answers(get_response: GetResponse) -> GetResponse:
    """Gives every answer the headers that Django does not.

    Nothing is kept by browsers or caches unless its page says so, and by caches in between nothing that sets a cookie.
    Over TLS, browsers are told to use nothing else, whether or not the proxy says that this request came through it.
    Signing out empties the browser's cache, from which its button "back" would show pages to the next person.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.setdefault("Cache-Control", "private, no-store")
        if response.cookies and "public" in response["Cache-Control"]:
            response["Cache-Control"] = "private, no-store"
        response.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        if web_settings().is_secure:
            response.setdefault("Strict-Transport-Security", STRICT_TRANSPORT)
        if security_log.ended_session(request):
            response["Clear-Site-Data"] = '"cache"'
        return response

    return middleware


def log_refusals(get_response: GetResponse) -> GetResponse:
    """Logs requests that were refused, since an attack begins with many of them."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if response.status_code in _REFUSED:
            security_log.refused(request, response.status_code)
        return response

    return middleware


class _Faults:
    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Returns a page that says to come back, where the fault is the organizers'; the log has what it is."""
        if not isinstance(error, InfrastructureFault):
            return None
        _log.error("request_failed", page=security_log.page_of(request), code=error.code, problem=str(error))
        return errors.unavailable(request)


translate_faults = _Faults
