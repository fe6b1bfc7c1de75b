"""The service's own style sheet, scripts and icon. The address of each holds the digest of its content."""

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from orchestrator import reports

_YEAR = 31_536_000
_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml; charset=utf-8",
}
_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    digest: str


@cache
def _files() -> dict[str, _File]:
    folder = files("orchestrator.web") / "static"
    found = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
    found["style.css"] = reports.stylesheet().encode() + found.pop("service.css")
    return {name: _File(data, sha256(data).hexdigest()[:_DIGEST_LENGTH]) for name, data in found.items()}


def address(name: str) -> str:
    """Returns the address of a file. It changes when the file changes, so browsers may keep the file."""
    return reverse("static", kwargs={"digest": _files()[name].digest, "name": name})


def serve(request: HttpRequest, digest: str, name: str) -> HttpResponse:
    """Returns a file. The answer never sets a cookie, so shared caches may keep it for everybody."""
    del request
    file = _files().get(name)
    if file is None or file.digest != digest:
        raise Http404
    response = HttpResponse(file.data, content_type=_TYPES[name.rpartition(".")[2]])
    response["Cache-Control"] = f"public, max-age={_YEAR}, immutable"
    return response
