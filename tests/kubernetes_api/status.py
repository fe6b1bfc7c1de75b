"""The API's errors: `metav1.Status` objects.

Codes, reasons and the forms of the messages are those of k8s.io/apimachinery, `pkg/api/errors`; what clients may rely
on is in the API conventions, "Response Status Kind".
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

CONFLICT_TEXT = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True)
class Cause:
    """One reason for which an object is invalid: a field, the kind of its fault, and the message without the field."""

    kind: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class ApiError(Exception):
    """An answer that is a failure."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details or {}
        self.headers: dict[str, str] = {}
        self.metadata: dict[str, Any] = {}
        if "retryAfterSeconds" in self.details:
            self.headers["Retry-After"] = str(self.details["retryAfterSeconds"])

    def status(self) -> dict[str, Any]:
        """Returns the `Status` object of this failure."""
        told: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details:
            told["details"] = self.details
        return told | {"code": self.code}


def success(details: dict[str, Any] | None = None, code: int = 200) -> dict[str, Any]:
    """Returns the `Status` object of a deed that has no object to show."""
    told: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        told["details"] = details
    return told if code == 200 else told | {"code": code}


def _about(group: str, kind: str, name: str) -> dict[str, Any]:
    return {key: value for key, value in (("name", name), ("group", group), ("kind", kind)) if value}


def qualified(group: str, plural: str) -> str:
    """Returns a resource with its group, as messages name it: `jobs.batch`."""
    return f"{plural}.{group}" if group else plural


def bad_request(message: str) -> ApiError:
    """What was sent cannot be read."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """Nobody knows who is asking."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    """Rights, quota or another admission rule forbid it."""
    what = qualified(group, plural) + (f" {json.dumps(name)}" if name else "")
    return ApiError(403, "Forbidden", f"{what} is forbidden: {why}", _about(group, plural, name))


def not_found(group: str, plural: str, name: str) -> ApiError:
    """There is no such object."""
    message = f"{qualified(group, plural)} {json.dumps(name)} not found"
    return ApiError(404, "NotFound", message, _about(group, plural, name))


def no_such_path() -> ApiError:
    """There is no such resource."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def not_allowed(group: str, plural: str, action: str) -> ApiError:
    """The resource has no such verb."""
    message = f"{action} is not supported on resources of kind {json.dumps(qualified(group, plural))}"
    return ApiError(405, "MethodNotAllowed", message, _about(group, plural, ""))


def already_exists(group: str, plural: str, name: str, *, generated: bool = False) -> ApiError:
    """An object of that name is there; `generated` where the server chose the name."""
    tail = ", the server was not able to generate a unique name for the object" if generated else ""
    message = f"{qualified(group, plural)} {json.dumps(name)} already exists{tail}"
    details = _about(group, plural, name) | ({"retryAfterSeconds": 1} if generated else {})
    return ApiError(409, "AlreadyExists", message, details)


def conflict(group: str, plural: str, name: str, why: str = CONFLICT_TEXT) -> ApiError:
    """The object has changed, or is not the one that was meant."""
    message = f"Operation cannot be fulfilled on {qualified(group, plural)} {json.dumps(name)}: {why}"
    return ApiError(409, "Conflict", message, _about(group, plural, name))


def expired(message: str, continued: str = "") -> ApiError:
    """A version that is asked for is no longer kept (API concepts, "410 Gone")."""
    error = ApiError(410, "Expired", message)
    if continued:
        error.metadata["continue"] = continued
    return error


def unsupported_media(found: str, known: Iterable[str]) -> ApiError:
    """The body's format is not spoken here."""
    said = ", ".join(known)
    message = f"the body of the request was in an unknown format - accepted media types include: {said} (not {found})"
    return ApiError(415, "UnsupportedMediaType", message)


def invalid(group: str, kind: str, name: str, causes: list[Cause]) -> ApiError:
    """The object can be read, but not accepted; each cause names a field."""
    what = f"{kind}.{group}" if group else kind
    told = str(causes[0]) if len(causes) == 1 else f"[{', '.join(map(str, causes))}]"
    details = _about(group, kind, name) | {
        "causes": [{"reason": each.kind, "message": each.message, "field": each.field} for each in causes]
    }
    return ApiError(422, "Invalid", f"{what} {json.dumps(name)} is invalid: {told}", details)


def too_many_requests(seconds: int) -> ApiError:
    """The server wants to be left alone for some seconds."""
    message = "The server has received too many requests and has asked us to try again later"
    return ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": seconds})


def internal(why: str) -> ApiError:
    """The server itself failed."""
    return ApiError(500, "InternalError", f"Internal error occurred: {why}", {"causes": [{"message": why}]})


def unavailable(message: str = "the server is currently unable to handle the request") -> ApiError:
    """The server is not ready."""
    return ApiError(503, "ServiceUnavailable", message)


def too_large_version(asked: int, current: int) -> ApiError:
    """A version is asked for that is yet to come."""
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return ApiError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})
