"""What every request passes: requests that other sites started are refused, and faults become pages that say so."""

from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from orchestrator.errors import InfrastructureFault
from orchestrator.web.pages import errors

GetResponse = Callable[[HttpRequest], HttpResponse]
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


class _Faults:
    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Returns a page that says to come back, where the fault is the organizers'; the log has what it is."""
        if not isinstance(error, InfrastructureFault):
            return None
        _log.error("request_failed", path=request.path, code=error.code, problem=str(error))
        return errors.unavailable(request)


translate_faults = _Faults
