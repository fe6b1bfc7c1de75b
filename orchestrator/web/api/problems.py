"""The API's error answers: a code, and every problem with its place and its remedy."""

from collections.abc import Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, ValidationError
from pydantic import BaseModel

from orchestrator.domain.field_errors import describe_errors, dotted_path
from orchestrator.errors import InfrastructureFault, Problem, SparringError
from orchestrator.logs import get_logger
from orchestrator.web.contest_site import current_site
from orchestrator.web.models import Upload
from orchestrator.web.pages.errors import DATABASE_AWAY, RETRY_SECONDS
from orchestrator.web.site_messages import site_problems
from orchestrator.web.uploads import Refusal, UploadRefused

_log = get_logger()
_STATUS = {
    Refusal.OFFSET: 409,
    Refusal.BUSY: 409,
    Refusal.TOO_LARGE: 413,
    Refusal.TOO_MANY: 409,
    Refusal.NO_SPACE: 507,
    Refusal.DIGEST: 422,
    Refusal.GONE: 404,
}


class ProblemPart(BaseModel):
    """One problem: its place, what is wrong, and the remedy."""

    place: str
    what: str
    remedy: str


class Problems(BaseModel):
    """The body of every error answer. `code` is stable for each kind of problem."""

    code: str
    problems: list[ProblemPart]


class ApiProblem(Exception):
    """A request is refused with a status, a code and a problem."""

    def __init__(self, status: int, code: str, problem: Problem, headers: dict[str, str] | None = None) -> None:
        super().__init__(str(problem))
        self.status, self.code, self.problem, self.headers = status, code, problem, headers or {}


def unknown(what: str) -> ApiProblem:
    """Returns 404 for something that does not exist or belongs to another team, with the same words for both."""
    problem = Problem(what, "it does not exist, or it is not yours", "list those that exist with GET")
    return ApiProblem(404, "not-found", problem)


def refuse(status: int, code: str, problems: Sequence[Problem], headers: dict[str, str] | None = None) -> JsonResponse:
    """Returns an error answer with a code and problems."""
    parts = [ProblemPart(place=each.place, what=each.what, remedy=each.remedy) for each in problems]
    return JsonResponse(Problems(code=code, problems=parts).model_dump(), status=status, headers=headers)


def not_found(request: HttpRequest, **_address: str) -> HttpResponse:
    """Returns 404 for an address that the API does not have."""
    remedy = "see /api/v1/openapi.json"
    return refuse(404, "not-found", [Problem("address", f"there is no {request.path}", remedy)])


def register(api: NinjaAPI) -> None:
    """Registers handlers with which an API answers every error in this form."""
    handlers: dict[type[Exception], Any] = {
        ApiProblem: lambda _, error: refuse(error.status, error.code, [error.problem], error.headers),
        UploadRefused: lambda _, error: refuse(_STATUS[error.reason], error.reason.value, [error.problem]),
        SparringError: _on_our_error,
        **dict.fromkeys(DATABASE_AWAY, _on_database_away),
        ValidationError: _on_wrong_fields,
        AuthenticationError: _on_missing_token,
        Upload.DoesNotExist: _on_missing,
        Http404: _on_missing,
    }
    for kind, handler in handlers.items():
        api.add_exception_handler(kind, handler)


def _on_our_error(request: HttpRequest, error: SparringError) -> HttpResponse:
    if isinstance(error, InfrastructureFault):
        return _unavailable(request, error, error.code)
    return refuse(409, error.code, site_problems(error, str(current_site().folder.path)))


def _on_database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    return _unavailable(request, error, "database")


def _unavailable(request: HttpRequest, error: Exception, code: str) -> HttpResponse:
    _log.error("request_failed", path=request.path, code=code, problem=str(error))
    problem = Problem("service", "a part of it does not answer at the moment", "send the same again later")
    return refuse(503, code, [problem], {"Retry-After": str(RETRY_SECONDS)})


def _on_wrong_fields(_request: HttpRequest, error: ValidationError) -> HttpResponse:
    """Returns 422 with the invalid fields. A path begins with two parts to drop, such as the body and its model."""
    problems = []
    for each in describe_errors(error.errors):
        place = dotted_path(each.path[2:] or each.path)
        problems.append(Problem(place, each.what, each.remedy or "see /api/v1/openapi.json"))
    return refuse(422, "invalid", problems)


def _on_missing_token(_request: HttpRequest, _error: Exception) -> HttpResponse:
    problem = Problem("Authorization", "no token came with the request", "get one with `sparring login URL`")
    return refuse(401, "no-token", [problem], {"WWW-Authenticate": "Bearer"})


def _on_missing(_request: HttpRequest, _error: Exception) -> HttpResponse:
    problem = unknown("address").problem
    return refuse(404, "not-found", [problem])
