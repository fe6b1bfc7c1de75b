"""Files that are sent with a form. One that is too large is refused before its bytes are read."""

from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import SkipFile, StopUpload, TemporaryFileUploadHandler

from orchestrator.web.body_limits import takes_file
from orchestrator.web.pages.errors import LARGER_FILE
from orchestrator.web.settings import FORM_BYTES

_FORM_OVERHEAD = 64 * 1024
"""How many bytes the other fields of the form may take."""


class BoundedUploadHandler(TemporaryFileUploadHandler):
    """Writes the files of forms that take one to disk as they come, at most `FORM_BYTES` a request."""

    def handle_raw_input(self, input_data: Any, META: Any, content_length: int, *rest: Any) -> None:  # noqa: N803
        """Refuses a request whose Content-Length is too large."""
        del input_data, META, rest
        if content_length > FORM_BYTES + _FORM_OVERHEAD:
            raise RequestDataTooBig(LARGER_FILE)
        self._received = 0

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        """Begins a file on the disk; skips the file if the form at this address takes none."""
        if self.request is None or not takes_file(str(self.request.method), self.request.path_info):
            raise SkipFile
        super().new_file(*args, **kwargs)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        """Writes a part of a file; ends the request if more bytes come than it announced."""
        self._received += len(raw_data)
        if self._received > FORM_BYTES:
            raise StopUpload(connection_reset=True)
        return super().receive_data_chunk(raw_data, start)
