"""How large a request's body may be, as its address alone tells."""

import re

from orchestrator.application.grading.attack_pictures import MAX_PICTURE_BYTES
from orchestrator.web.settings import FORM_BYTES
from orchestrator.web.uploads import PART_BYTES

SMALL_BYTES = 64 * 1024
"""What anybody may send, and what is kept in memory until it is known who sends it."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PARTS = "/api/v1/uploads/"
_DEVICE = "/api/v1/device"
"""The one address below /api that takes something from whoever has no token."""
_FILE = re.compile(r"/my/[^/]+/submit/")
_PICTURE = re.compile(r"/my/[^/]+/pictures/")
"""Where a form takes a file."""
_WORDS_BYTES = 1024 * 1024
"""What the fields of a form, or a JSON document, may take; a picture by the API is no larger."""


def takes_file(method: str, path: str) -> bool:
    """Returns whether a form takes a file there, which Django writes to the disk however small it is."""
    return method == "POST" and bool(_FILE.fullmatch(path) or _PICTURE.fullmatch(path))


def largest_body(method: str, path: str) -> int:
    """Returns how many bytes the body of a request may have, whoever sends it."""
    if method in SAFE_METHODS or path.startswith(_DEVICE):
        return SMALL_BYTES
    if path.startswith(_PARTS):
        return PART_BYTES
    if not takes_file(method, path):
        return _WORDS_BYTES
    return _WORDS_BYTES + (FORM_BYTES if _FILE.fullmatch(path) else MAX_PICTURE_BYTES)
