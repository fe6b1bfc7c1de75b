"""The middleware of every request: refuses requests that other sites started, and turns faults into pages."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from orchestrator.errors import InfrastructureFault
from orchestrator.logs import get_logger
from orchestrator.web import security_log
from orchestrator.web.body_limits import SAFE_METHODS
from orchestrator.web.contest_site import web_settings
from orchestrator.web.pages import errors

GetResponse = Callable[[HttpRequest], HttpResponse]
STRICT_TRANSPORT = "max-age=31536000"
"""Browsers use only TLS for a year."""
_REFUSED = frozenset({400, 401, 403, 408, 413, 429})
_log = get_logger()


def refuse_cross_site_requests(get_response: GetResponse) -> GetResponse:
    """Refuses requests that change something and come from another site, as the header Sec-Fetch-Site says.

    Each form also has a token against forged requests, which protects browsers that do not send this header.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        site = request.headers.get("Sec-Fetch-Site", "none")
        if request.method not in SAFE_METHODS and site not in ("none", "same-origin"):
            return errors.cross_site()
        return get_response(request)

    return middleware


def protect_answers(get_response: GetResponse) -> GetResponse:
    """Adds the headers that Django does not add to every answer.

    Browsers and caches keep an answer only if its view allows it, and shared caches none that sets a cookie. If the
    service's address is https, browsers are told to use only TLS, whatever the proxy says about this request. Signing
    out clears the browser's cache, because its back button would show cached pages to the next person.
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
    """Logs refused requests, because an attack begins with many of them."""

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
        """Returns a page that says to come back if the error is an infrastructure fault, and logs the fault."""
        if not isinstance(error, InfrastructureFault):
            return None
        _log.error("request_failed", page=security_log.page_of(request), code=error.code, problem=str(error))
        return errors.unavailable(request)


translate_faults = _Faults
