"""Error pages: in plain words, with what to do next, and without internal details."""

import sys
from collections.abc import Sequence

from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import engines

from orchestrator.logs import get_logger
from orchestrator.web import security_log
from orchestrator.web.settings import FORM_BYTES
from orchestrator.web.typed_text import TypedText, typed_in_request

RETRY_SECONDS = 10
"""After how many seconds to try again after a temporary fault of ours."""
LARGER_FILE = (
    f"A form takes files of up to {FORM_BYTES // 1024**2} MiB. Submit a larger one with `sparring submit --to`, which "
    "resumes where it was interrupted; the page that you came from has the command."
)
"""The text for a file that is too large for a form."""
MINUTE = 60
DATABASE_AWAY = (OperationalError, InterfaceError)
"""The exceptions that Django raises if the accounts' database does not answer."""
_log = get_logger()


def _page(
    request: HttpRequest, status: int, title: str, text: str, link: tuple[str, str] | None = None
) -> HttpResponse:
    """Returns a page about an error. `link` is an address on this site and its words; without it, the home page."""
    values = {"title": title, "text": text, "lost": typed_in_request(request), "link": link}
    return render(request, "error.html.j2", values, status=status, using="jinja2")


def _bare_page(status: int, title: str, text: str, lost: Sequence[TypedText] = ()) -> HttpResponse:
    """Returns a page that needs neither the contest nor the database, since either may be what fails."""
    page = engines["jinja2"].get_template("bare_error.html.j2")
    return HttpResponse(page.render({"title": title, "text": text, "lost": lost}), status=status)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Returns 400, or 413 for a file that is too large."""
    if isinstance(exception, RequestDataTooBig):
        return too_large(request, str(exception))
    return _bare_page(400, "This request cannot be read", "Go back, load the page again, and send it once more.")


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Returns 403 for a page of another role."""
    del exception
    text = "It is for people with another role. If it should be yours, ask the organizers to invite you."
    return _page(request, 403, "This page is not for you", text)


def cross_site() -> HttpResponse:
    """Returns 403 for a request that another site started."""
    return _bare_page(403, "Another site sent this", "Nothing was done. Open the contest's own page and do it there.")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Returns 403 for a form without a valid CSRF token."""
    del reason
    text = "Its page was open too long, or cookies are switched off. Load the page again and send the form once more."
    return _page(request, 403, "This form has expired", text, (request.get_full_path(), "Load the page again"))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Returns 404, also for pages that exist but belong to somebody else."""
    del exception
    return _page(request, 404, "There is no such page", "Perhaps the address has a mistake, or the page is not yours.")


def not_there(request: HttpRequest, title: str, text: str) -> HttpResponse:
    """Returns 404 with a title and a text of its own."""
    return _page(request, 404, title, text)


def body_too_large(most: int, *, is_file: bool) -> HttpResponse:
    """Returns 413 for a request whose body was not read. `is_file`: whether the form at this address takes a file."""
    if is_file:
        return _bare_page(413, "This file is too large", LARGER_FILE)
    return _bare_page(413, "This form is too large", f"At most {most} bytes are taken here. Send less at once.")


def too_slow() -> HttpResponse:
    """Returns 408 for a body that comes too slowly."""
    return _bare_page(408, "This came too slowly", "Nothing was done. Send the same again.")


def no_space() -> HttpResponse:
    """Returns 507 for a file that would fill the disk."""
    text = "The disk has no space for it at the moment. Come back later, and tell the organizers."
    return _bare_page(507, "This file is not taken now", text)


def busy(seconds: int) -> HttpResponse:
    """Returns 503 if too many requests wait."""
    text = f"Too many people ask at the same moment, and nothing was done. Send the same again in {seconds} s."
    return _bare_page(503, "Come back in a moment", text)


def too_large(request: HttpRequest, text: str) -> HttpResponse:
    """Returns 413 for a file that is too large."""
    return _page(request, 413, "This file is too large", text)


def too_many(request: HttpRequest, seconds: int) -> HttpResponse:
    """Returns 429 with the seconds to wait."""
    response = _page(request, 429, "Too many requests", f"Try again in {seconds} s.")
    response["Retry-After"] = str(seconds)
    return response


def too_many_tries(request: HttpRequest) -> HttpResponse:
    """Returns 429 for codes that are requested or tried too often; allauth counts them by the minute."""
    return too_many(request, MINUTE)


def server_error(request: HttpRequest) -> HttpResponse:
    """Returns 500, or 503 if the accounts' database does not answer, which may happen before any view is called."""
    error = sys.exception()
    if isinstance(error, DATABASE_AWAY):
        _log.error("request_failed", page=security_log.page_of(request), code="database", problem=str(error))
        return unavailable(request)
    return _bare_page(500, "Something failed on our side", "It is in the organizers' log. Nothing was half done.")


def unavailable(request: HttpRequest) -> HttpResponse:
    """Returns 503 for a temporary fault."""
    text = "A part of this service does not answer now. See whether what you sent has arrived; if not, send it again."
    response = _bare_page(503, "Come back in a moment", text, typed_in_request(request))
    response["Retry-After"] = str(RETRY_SECONDS)
    return response
