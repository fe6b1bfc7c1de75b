"""Who may send a large body, asked before it is read; and refusals of it, with the headers of every other answer.

A large body lies on the disk while it comes. So whatever stands in the head of a request is looked at before: the
session or the token, and the right that the address asks for. Views look at it again.
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


class Admitted(HttpResponse):
    """No answer: the body may come. Nobody is sent it."""

    def __init__(self, person: str) -> None:
        super().__init__()
        self.person = person


class EarlyAnswers(BaseHandler):
    """Django's middleware around no view. Its methods are called in a thread."""

    def __init__(self) -> None:
        self.load_middleware()

    def admit(self, request: HttpRequest, size: int) -> HttpResponseBase:
        """Returns `Admitted` with the person who may send a body of a size there, else what they are answered.

        Args:
            request: the request without its body.
            size: how many bytes the body may have, with those of other bodies that are coming to the disk.
        """
        return self._answer(request, lambda: _admit(request, size))

    def refuse(self, request: HttpRequest, response: HttpResponse) -> HttpResponseBase:
        """Returns a refusal with what middleware adds to every answer, and logs it like every other."""
        return self._answer(request, lambda: response)

    def _answer(self, request: HttpRequest, answer: Callable[[], HttpResponseBase]) -> HttpResponseBase:
        close_old_connections()
        request.early_answer = answer  # type: ignore[attr-defined]  # for the end of the middleware's chain
        response: HttpResponseBase = self.get_response(request)
        response.close()
        return response

    def _get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Answers in the place of a view: what middleware asks in the end."""
        try:
            self.resolve_request(request)
            answer: HttpResponseBase = request.early_answer()  # type: ignore[attr-defined]
        except InfrastructureFault as error:
            if (unavailable := self.process_exception_by_middleware(error, request)) is None:
                raise
            return unavailable
        return answer


def too_large(path: str, most: int) -> HttpResponse:
    """413: a body has more than `most` bytes."""
    if is_for_program(path):
        problem = Problem("Content-Length", "the body is too large", f"send at most {most} bytes in a request here")
        return problems.refuse(413, "too-large", [problem])
    return errors.body_too_large(most, is_file=takes_file("POST", path))


def too_slow(path: str) -> HttpResponse:
    """408: a body comes too slowly."""
    what = f"it came more slowly than {LEAST_BYTES_A_SECOND} bytes a second, after {GRACE_SECONDS:.0f} s"
    if is_for_program(path):
        return problems.refuse(408, "too-slow", [Problem("body", what, "send the same again")])
    return errors.too_slow()


def _admit(request: HttpRequest, size: int) -> HttpResponseBase:
    """Returns who may send a large body, or a refusal. Raises what middleware and Django turn into one."""
    path = request.path_info
    if is_for_program(path):
        try:
            return Admitted(_admit_program(request, size))
        except Exception as error:  # noqa: BLE001  raised again where the API has no answer to it
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
    return Admitted(visit.actor.person)


def _admit_program(request: HttpRequest, size: int) -> str:
    """Returns whose token came. Raises ApiProblem, AuthenticationError, UploadRefused."""
    if (caller := SUBMIT(request)) is None:
        raise AuthenticationError
    if "upload" in (named := resolve(request.path_info).kwargs):
        own_upload(caller, named["upload"])
    uploads.require_space(current_site().clock(), size)
    return caller.actor.person
