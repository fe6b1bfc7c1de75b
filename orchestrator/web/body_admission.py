"""Checks, before a large body is read, whether the client may send it; and refuses it with the headers of every answer.

A large body takes space on the disk while it comes. So the head of the request is checked first: the session or the
token, and the right that the address needs. Views check both again.
"""

from collections.abc import Callable

from django.core.handlers.base import BaseHandler
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import resolve
from ninja.errors import AuthenticationError

from orchestrator.errors import InfrastructureFault, Problem
from orchestrator.web import uploads
from orchestrator.web.api import problems
from orchestrator.web.api.access import SUBMIT
from orchestrator.web.api.service import api
from orchestrator.web.api.upload_routes import own_upload
from orchestrator.web.asgi import is_for_program
from orchestrator.web.body_limits import SMALL_BYTES, takes_file
from orchestrator.web.contest_site import current_site
from orchestrator.web.pages import errors
from orchestrator.web.request_bodies import GRACE_SECONDS, LEAST_BYTES_A_SECOND
from orchestrator.web.rights import Right, Visit, visit_of
from orchestrator.web.uploads import UploadRefused


class BodyAccepted(HttpResponse):
    """Says that the body may be read. It is never sent to a client."""

    def __init__(self, person: str) -> None:
        super().__init__()
        self.person = person


class BodyAdmission(BaseHandler):
    """Django's middleware without a view. Its methods are called in a thread."""

    def __init__(self) -> None:
        self.load_middleware()

    def admit(self, request: HttpRequest, size: int) -> HttpResponseBase:
        """Returns `BodyAccepted` with the id of the person if the body may be read, otherwise the refusal to send.

        Args:
            request: the request without its body.
            size: how many bytes this body and all others that are coming to the disk may have together.
        """
        return self._answer(request, lambda: _admit(request, size))

    def refuse(self, request: HttpRequest, response: HttpResponse) -> HttpResponseBase:
        """Returns a refusal after the middleware has added its headers to it and logged it."""
        return self._answer(request, lambda: response)

    def _answer(self, request: HttpRequest, answer: Callable[[], HttpResponseBase]) -> HttpResponseBase:
        close_old_connections()
        request.answer_without_view = answer  # type: ignore[attr-defined]  # read at the end of the middleware's chain
        response: HttpResponseBase = self.get_response(request)
        response.close()
        return response

    def _get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Returns the answer in place of a view's. The innermost middleware calls this."""
        try:
            self.resolve_request(request)
            answer: HttpResponseBase = request.answer_without_view()  # type: ignore[attr-defined]
        except InfrastructureFault as error:
            if (unavailable := self.process_exception_by_middleware(error, request)) is None:
                raise
            return unavailable
        return answer


def too_large(path: str, most: int) -> HttpResponse:
    """Returns 413: a body has more than `most` bytes."""
    if is_for_program(path):
        problem = Problem("Content-Length", "the body is too large", f"send at most {most} bytes in a request here")
        return problems.refuse(413, "too-large", [problem])
    return errors.body_too_large(most, is_file=takes_file("POST", path))


def too_slow(path: str) -> HttpResponse:
    """Returns 408: a body comes too slowly."""
    what = f"it came more slowly than {LEAST_BYTES_A_SECOND} bytes a second, after {GRACE_SECONDS:.0f} s"
    if is_for_program(path):
        return problems.refuse(408, "too-slow", [Problem("body", what, "send the same again")])
    return errors.too_slow()


def _admit(request: HttpRequest, size: int) -> HttpResponseBase:
    """Returns `BodyAccepted`, or a refusal. Raises errors that middleware and Django turn into a refusal."""
    path = request.path_info
    if is_for_program(path):
        try:
            return BodyAccepted(_admit_program(request, size))
        except Exception as error:  # noqa: BLE001  raised again if the API has no handler for it
            return api.on_exception(request, error)
    match = resolve(path)
    right = getattr(match.func, "right", Right.EVERYBODY)
    if right is Right.EVERYBODY:
        return too_large(path, SMALL_BYTES)
    visit = visit_of(request, right, match.kwargs.get("team"))
    if not isinstance(visit, Visit):
        return visit
    try:
        uploads.require_space(visit.site.clock(), size)
    except UploadRefused:
        return errors.no_space()
    return BodyAccepted(visit.actor.person)


def _admit_program(request: HttpRequest, size: int) -> str:
    """Returns the id of the token's person. Raises ApiProblem, AuthenticationError, UploadRefused."""
    if (caller := SUBMIT(request)) is None:
        raise AuthenticationError
    if "upload" in (named := resolve(request.path_info).kwargs):
        own_upload(caller, named["upload"])
    uploads.require_space(current_site().clock(), size)
    return caller.actor.person
