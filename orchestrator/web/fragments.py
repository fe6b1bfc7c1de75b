"""Live parts of pages, which `static/refresh.js` loads again."""

from hashlib import sha256
from typing import Any

from django.http import HttpResponse

from orchestrator.web.rights import Visit
from orchestrator.web.templating import render


def fragment(visit: Visit, template: str, *, ended: bool, **values: Any) -> HttpResponse:
    """Returns a part of a page. If the browser has it: 304, or 204 if it will not change again (`ended`)."""
    response = render(visit, template, **values)
    tag = f'"{sha256(response.content).hexdigest()[:32]}"'
    if visit.request.headers.get("If-None-Match") == tag:
        response = HttpResponse(status=204 if ended else 304)
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    return response
