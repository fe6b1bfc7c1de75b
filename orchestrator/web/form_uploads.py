"""Files that come through a form: refused before their bytes are read where they are too large."""

from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import StopUpload, TemporaryFileUploadHandler

from orchestrator.web.pages.errors import LARGER_FILE
from orchestrator.web.settings import FORM_BYTES

_FORM_OVERHEAD = 64 * 1024
"""What the fields beside a file may take."""


class BoundedUploadHandler(TemporaryFileUploadHandler):
    """Writes files to disk as they come, at most `FORM_BYTES` a request."""

    def handle_raw_input(self, input_data: Any, META: Any, content_length: int, *rest: Any) -> None:  # noqa: N803
        """Refuses a request that says that it is too large."""
        del input_data, META, rest
        if content_length > FORM_BYTES + _FORM_OVERHEAD:
            raise RequestDataTooBig(LARGER_FILE)
        self._received = 0

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        """Keeps a part of a file; ends the request where it is larger than it said."""
        self._received += len(raw_data)
        if self._received > FORM_BYTES:
            raise StopUpload(connection_reset=True)
        return super().receive_data_chunk(raw_data, start)
