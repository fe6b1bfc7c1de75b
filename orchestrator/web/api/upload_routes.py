"""Uploads in parts with the protocol tus 1.0: core, creation, expiration, termination."""

import base64
import binascii
from email.utils import format_datetime
from typing import Annotated

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from ninja import Router
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from orchestrator.application.contests import arrivals
from orchestrator.application.contests.submission_admission import SubmissionRequest
from orchestrator.domain.field_errors import field_errors
from orchestrator.domain.season import Arrival
from orchestrator.domain.submissions import Side
from orchestrator.domain.text import reject_control_characters
from orchestrator.errors import Problem
from orchestrator.web import uploads
from orchestrator.web.api.access import SUBMIT, Caller, caller_of
from orchestrator.web.api.problems import ApiProblem, unknown
from orchestrator.web.api.schemas import arrival_part
from orchestrator.web.arrival_time import last_byte_time
from orchestrator.web.contest_site import web_settings
from orchestrator.web.models import Upload
from orchestrator.web.rate_limits import RequestKind
from orchestrator.web.uploads import Part

router = Router(tags=["uploads"])
_VERSION = "1.0.0"
_ARRIVAL = "Sparring-Arrival"
"""The header with the id of the arrival that a complete upload became."""
_Word = Annotated[str, Field(max_length=120), AfterValidator(reject_control_characters)]


class UploadMetadata(BaseModel):
    """The decoded header Upload-Metadata."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    team: Annotated[_Word, Field(min_length=1)]
    task: _Word = ""
    filename: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(reject_control_characters)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    side: Side | None = None
    name: _Word = ""


@router.api_operation(["OPTIONS"], "/uploads", auth=None, operation_id="describe_uploads")
def describe(request: HttpRequest) -> HttpResponse:
    """The supported version and extensions of tus, and the largest file size."""
    del request
    return _answer(
        204,
        {
            "Tus-Version": _VERSION,
            "Tus-Extension": "creation,expiration,termination",
            "Tus-Max-Size": str(web_settings().file.largest_upload),
        },
    )


@router.post("/uploads", auth=SUBMIT, operation_id="begin_upload")
def begin(request: HttpRequest) -> HttpResponse:
    """Begins an upload (201), or returns the open upload of the same file or the arrival that it became (200).

    Upload-Length gives the size in bytes, Upload-Metadata `team`, `task`, `filename`, `sha256` and, if no manifest
    gives them, `side` and `name`.
    """
    caller = caller_of(request)
    _require_version(request)
    size = _number(request, "Upload-Length")
    if not size:
        raise _wrong("Upload-Length", "a file has bytes", "send it with its length")
    said = _metadata(request.headers.get("Upload-Metadata", ""))
    team = caller.require_team(said.team)
    task = said.task or caller.site.contest().only_task
    caller.spend(RequestKind.UPLOAD, f"team {team}")
    wanted = SubmissionRequest(team, task, side=said.side, name=said.name, file_name=said.filename)
    begun = uploads.begin(caller.site, caller.account, wanted, size, f"sha256:{said.sha256}")
    if isinstance(begun, Arrival):
        part = arrival_part(begun, arrivals.read_steps(caller.site.folder.path, begun.id))
        return _answer(200, {_ARRIVAL: begun.id}, JsonResponse(part.model_dump(mode="json")))
    return _answer(201 if not begun.offset else 200, {"Location": _address(begun), **_state(begun)})


@router.api_operation(["HEAD"], "/uploads/{upload}", auth=SUBMIT, operation_id="find_upload", url_name="upload")
def find(request: HttpRequest, upload: str) -> HttpResponse:
    """How many bytes of an upload have come, and which arrival it became."""
    caller = caller_of(request)
    _require_version(request)
    found = own_upload(caller, upload)
    uploads.prepare(found)
    return _answer(200, {**_state(found), "Upload-Length": str(found.size), "Cache-Control": "no-store"})


@router.patch("/uploads/{upload}", auth=SUBMIT, operation_id="write_part")
def write_part(request: HttpRequest, upload: str) -> HttpResponse:
    """Writes at most 16 MiB at Upload-Offset (204). After the last part Sparring-Arrival names the arrival."""
    caller = caller_of(request)
    _require_version(request)
    if request.headers.get("Content-Type") != "application/offset+octet-stream":
        problem = Problem("Content-Type", "is not application/offset+octet-stream", "send a part as tus 1.0 has it")
        raise ApiProblem(415, "content-type", problem)
    found = own_upload(caller, upload)
    caller.spend(RequestKind.UPLOAD_PART)
    offset, size = _number(request, "Upload-Offset"), _number(request, "Content-Length")
    part = Part(offset, size, request, last_byte_time(request, caller.site.clock))
    return _answer(204, _state(uploads.write_part(caller.site, caller.account, found, part)))


@router.delete("/uploads/{upload}", auth=SUBMIT, operation_id="cancel_upload")
def cancel(request: HttpRequest, upload: str) -> HttpResponse:
    """Removes an upload. An arrival that it became stays: withdraw the submission that the arrival becomes."""
    caller = caller_of(request)
    _require_version(request)
    uploads.remove(own_upload(caller, upload))
    return _answer(204, {})


def own_upload(caller: Caller, public_id: str) -> Upload:
    """Returns an upload of one of the caller's teams. Raises ApiProblem (404) for any other upload."""
    found = uploads.find(public_id, caller.site.clock())
    if found is None or found.team not in caller.actor.teams:
        raise unknown("upload")
    return found


def _require_version(request: HttpRequest) -> None:
    if request.headers.get("Tus-Resumable") != _VERSION:
        problem = Problem("Tus-Resumable", f"is not {_VERSION}", "send uploads as tus 1.0 has it")
        raise ApiProblem(412, "tus-version", problem, {"Tus-Version": _VERSION})


def _number(request: HttpRequest, header: str) -> int:
    text = request.headers.get(header, "")
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(2**63))):
        raise _wrong(header, "is no number of bytes", "send it")
    return int(text)


def _metadata(header: str) -> UploadMetadata:
    """Returns the decoded header Upload-Metadata: pairs of a name and a text in base64. Raises ApiProblem."""
    try:
        pairs = (pair.split(" ") for pair in header.split(","))
        words = {name: base64.b64decode(value, validate=True).decode() for name, value in pairs}
        return UploadMetadata.model_validate(words)
    except ValidationError as error:
        problem = field_errors(error, UploadMetadata)[0].problem()
        raise _wrong(f"Upload-Metadata.{problem.place}", problem.what, problem.remedy) from None
    except (ValueError, binascii.Error):
        raise _wrong("Upload-Metadata", "is not `name base64,name base64`", "write it as tus 1.0 has it") from None


def _wrong(place: str, what: str, remedy: str) -> ApiProblem:
    return ApiProblem(422, "invalid", Problem(place, what, remedy))


def _address(upload: Upload) -> str:
    return web_settings().address + reverse("api:upload", kwargs={"upload": upload.public_id})


def _state(upload: Upload) -> dict[str, str]:
    state = {"Upload-Offset": str(upload.offset), "Upload-Expires": format_datetime(upload.expires, usegmt=True)}
    return state | ({_ARRIVAL: upload.arrival} if upload.arrival else {})


def _answer(status: int, headers: dict[str, str], answer: HttpResponse | None = None) -> HttpResponse:
    answer = answer or HttpResponse(status=status)
    for name, value in {"Tus-Resumable": _VERSION, **headers}.items():
        answer[name] = value
    return answer
