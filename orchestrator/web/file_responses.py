"""Responses that are files: what a browser saves, and pictures that a page shows. By default no cache keeps them."""

from pathlib import Path

from django.http import FileResponse, HttpResponse
from django.utils.http import content_disposition_header

from orchestrator.web.rights import Visit


def attachment(name: str, data: bytes, media_type: str = "application/json") -> HttpResponse:
    """Returns a file that a browser saves under a name."""
    disposition = content_disposition_header(as_attachment=True, filename=name) or "attachment"
    return HttpResponse(data, content_type=media_type, headers={"Content-Disposition": disposition})


def bundle_archive(visit: Visit, archive: Path) -> FileResponse:
    """Returns the zip of a bundle of the contest, piece by piece."""
    name = f"{visit.site.contest().file.contest}-{archive.name}"
    return FileResponse(archive.open("rb"), as_attachment=True, filename=name, content_type="application/zip")


def png(data: bytes, cache_control: str = "private, no-store") -> HttpResponse:
    """Returns a PNG picture."""
    response = HttpResponse(data, content_type="image/png")
    response["Cache-Control"] = cache_control
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response
