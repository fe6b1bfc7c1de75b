"""How large the body of a request may be, which depends only on its method and path."""

import re

from orchestrator.application.grading.attack_pictures import MAX_PICTURE_BYTES
from orchestrator.web.settings import FORM_BYTES
from orchestrator.web.uploads import PART_BYTES

SMALL_BYTES = 64 * 1024
"""How many bytes any client may send; a larger body is not read before the client is known."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PARTS = "/api/v1/uploads/"
_DEVICE = "/api/v1/device"
"""The only paths below /api that take a body from clients without a token."""
_FILE = re.compile(r"/my/[^/]+/submit/")
_PICTURE = re.compile(r"/my/[^/]+/pictures/")
"""The paths where a form takes a file."""
_WORDS_BYTES = 1024 * 1024
"""How many bytes the fields of a form or a JSON document may take; a picture sent to the API is no larger."""


def takes_file(method: str, path: str) -> bool:
    """Returns whether a request sends a form with a file, which Django writes to the disk however small it is."""
    return method == "POST" and bool(_FILE.fullmatch(path) or _PICTURE.fullmatch(path))


def largest_body(method: str, path: str) -> int:
    """Returns how many bytes the body of a request may have, from any client."""
    if method in SAFE_METHODS or path.startswith(_DEVICE):
        return SMALL_BYTES
    if path.startswith(_PARTS):
        return PART_BYTES
    if not takes_file(method, path):
        return _WORDS_BYTES
    return _WORDS_BYTES + (FORM_BYTES if _FILE.fullmatch(path) else MAX_PICTURE_BYTES)
