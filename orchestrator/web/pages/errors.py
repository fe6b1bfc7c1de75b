"""Pages for what goes wrong: plain words, what to do next, and nothing about the inside."""

import sys
from collections.abc import Sequence

import structlog
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import engines

from orchestrator.web import security_log
from orchestrator.web.settings import FORM_BYTES
from orchestrator.web.typed_text import TypedText, typed_in_request

RETRY_SECONDS = 10
"""When to come back where the fault is ours and passes."""
LARGER_FILE = (
    f"A form takes files of up to {FORM_BYTES // 1024**2} MiB. Hand a larger one in with `sparring submit --to`, which "
    "resumes where it was interrupted; the page that you came from has the command."
)
"""What somebody is told whose file no form takes."""
MINUTE = 60
DATABASE_AWAY = (OperationalError, InterfaceError)
"""What is raised where the accounts' database does not answer."""
_log = structlog.get_logger()


def _page(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    values = {"title": title, "text": text, "lost": typed_in_request(request)}
    return render(request, "error.html.j2", values, status=status, using="jinja2")


def _bare_page(status: int, title: str, text: str, lost: Sequence[TypedText] = ()) -> HttpResponse:
    """Returns a page for which nothing is read: what should be read may be what is broken."""
    page = engines["jinja2"].get_template("bare_error.html.j2")
    return HttpResponse(page.render({"title": title, "text": text, "lost": lost}), status=status)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400, and 413 for a file that is too large."""
    if isinstance(exception, RequestDataTooBig):
        return too_large(request, str(exception))
    return _bare_page(400, "This request cannot be read", "Go back, load the page again, and send it once more.")


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403."""
    del exception
    text = "It is for people with another role. If it should be yours, ask the organizers to invite you."
    return _page(request, 403, "This page is not for you", text)


def cross_site() -> HttpResponse:
    """403, for what another site started."""
    return _bare_page(403, "Another site sent this", "Nothing was done. Open the contest's own page and do it there.")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403, for a form without its token."""
    del reason
    text = "Its page was open too long, or cookies are switched off. Load the page again and send the form once more."
    return _page(request, 403, "This form has expired", text)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404, which also stands for what exists and is somebody else's."""
    del exception
    return _page(request, 404, "There is no such page", "Perhaps the address has a mistake, or the page is not yours.")


def not_there(request: HttpRequest, title: str, text: str) -> HttpResponse:
    """404, where more can be said of what is not there."""
    return _page(request, 404, title, text)


def body_too_large(most: int, *, is_file: bool) -> HttpResponse:
    """413, for a request of which nothing was read. `is_file`: whether a form that takes a file was sent."""
    if is_file:
        return _bare_page(413, "This file is too large", LARGER_FILE)
    return _bare_page(413, "This form is too large", f"At most {most} bytes are taken here. Send less at once.")


def too_slow() -> HttpResponse:
    """408, for a body that comes too slowly."""
    return _bare_page(408, "This came too slowly", "Nothing was done. Send the same again.")


def no_space() -> HttpResponse:
    """507, for a file that would fill the disk."""
    text = "The disk has no space for it at the moment. Come back later, and tell the organizers."
    return _bare_page(507, "This file is not taken now", text)


def busy(seconds: int) -> HttpResponse:
    """503, where too many requests wait."""
    text = f"Too many people ask at the same moment, and nothing was done. Send the same again in {seconds} s."
    return _bare_page(503, "Come back in a moment", text)


def too_large(request: HttpRequest, text: str) -> HttpResponse:
    """413."""
    return _page(request, 413, "This file is too large", text)


def too_many(request: HttpRequest, seconds: int) -> HttpResponse:
    """429, with the time after which it works again."""
    response = _page(request, 429, "Too many requests", f"Try again in {seconds} s.")
    response["Retry-After"] = str(seconds)
    return response


def too_many_tries(request: HttpRequest) -> HttpResponse:
    """429, for codes that are asked for or tried too often: allauth counts them by the minute."""
    return too_many(request, MINUTE)


def server_error(request: HttpRequest) -> HttpResponse:
    """500; 503 where the accounts' database does not answer, which may be noticed before any view is called."""
    error = sys.exception()
    if isinstance(error, DATABASE_AWAY):
        _log.error("request_failed", page=security_log.page_of(request), code="database", problem=str(error))
        return unavailable(request)
    return _bare_page(500, "Something failed on our side", "It is in the organizers' log. Nothing was half done.")


def unavailable(request: HttpRequest) -> HttpResponse:
    """503, for faults that pass."""
    text = "A part of this service does not answer now. See whether what you sent has arrived; if not, send it again."
    response = _bare_page(503, "Come back in a moment", text, typed_in_request(request))
    response["Retry-After"] = str(RETRY_SECONDS)
    return response
