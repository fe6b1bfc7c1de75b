"""How large a request's body may be, decided before Django keeps it on the disk."""

import re
from typing import Any

from django.http import HttpResponse

from orchestrator.errors import Problem
from orchestrator.web.api import problems
from orchestrator.web.asgi import Application, Receive, Scope, Send, answer_early, is_for_program
from orchestrator.web.pages import errors
from orchestrator.web.settings import FORM_BYTES
from orchestrator.web.uploads import PART_BYTES

_PARTS = "/api/v1/uploads/"
_FILES = re.compile(r"/my/[^/]+/(submit|pictures)/")
"""Where a form takes a file."""
_WORDS_BYTES = 1024 * 1024
"""What the fields of a form, or a JSON document, may take."""


class _TooLargeError(Exception):
    """More came than may."""


def largest_body(path: str) -> int:
    """Returns how many bytes the body of a request to a path may have."""
    if path.startswith(_PARTS):
        return PART_BYTES
    return FORM_BYTES + _WORDS_BYTES if _FILES.fullmatch(path) else _WORDS_BYTES


async def _refuse(scope: Scope, send: Send) -> None:
    most = largest_body(scope["path"])
    if is_for_program(scope):
        problem = Problem("Content-Length", "the body is too large", f"send at most {most} bytes in a request here")
        response: HttpResponse = problems.refuse(413, "too-large", [problem])
    else:
        response = errors.body_too_large(most, is_file=bool(_FILES.fullmatch(scope["path"])))
    await answer_early(send, response)


def limit_bodies(application: Application) -> Application:
    """Returns an application that answers 413 to what is too large, whether its length was told or not."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        left = largest_body(scope["path"])
        told = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")

        async def receive_counted() -> Any:
            nonlocal left
            message = await receive()
            if message["type"] == "http.request":
                left -= len(message["body"])
                if left < 0:
                    raise _TooLargeError
            return message

        if not told.isdigit() or int(told) > left:
            await _refuse(scope, send)
            return
        try:
            await application(scope, receive_counted, send)
        except _TooLargeError:  # nothing was answered yet: Django reads the whole body before
            await _refuse(scope, send)

    return limited
