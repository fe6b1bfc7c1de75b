"""Sends a file in parts (tus 1.0), and resumes after a broken connection or a killed command.

The client stores nothing about an upload: the service finds it by the digest, so the same command resumes it.
"""

import base64
import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from orchestrator.domain.text import parse_digits
from orchestrator.errors import ServiceUnavailable, UsageError
from orchestrator.remote.client import API, Answer, ServiceClient, ServiceRefused

PART_BYTES = 8 * 1024 * 1024
FAILURES = 8
"""The most failed parts in a row. With the waits between them, a service may be unreachable for two minutes."""
_LONGEST_WAIT = 30.0
_RETRIED_REFUSALS = frozenset({"offset-mismatch", "upload-busy"})
_VERSION = {"Tus-Resumable": "1.0.0"}


def file_digest(path: Path) -> str:
    """Returns the SHA-256 of a file, in hex. Raises UsageError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; give another file") from error


def upload_file(
    client: ServiceClient,
    path: Path,
    metadata: Mapping[str, str],
    watch: Callable[[int], object],
    sleep: Callable[[float], object] = time.sleep,
) -> str:
    """Sends a file and returns the id of the arrival that it became.

    Args:
        client: the client of the site.
        path: the file.
        metadata: the file's metadata: team, and perhaps task, side and name.
        watch: called with the number of bytes that the service has confirmed.
        sleep: waits for a number of seconds.

    Raises:
        ServiceRefused: the contest's rules do not allow it, or the received bytes have another digest.
        UsageError: the token is not accepted, or the file cannot be read.
        ServiceUnavailable: the service is unreachable for too long; the same call resumes the upload.
    """
    fields = {**metadata, "filename": path.name, "sha256": file_digest(path)}
    encoded = (f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in fields.items() if value)
    headers = {**_VERSION, "Upload-Length": str(path.stat().st_size), "Upload-Metadata": ",".join(encoded)}
    state = client.request("POST", "/uploads", b"", headers)
    if arrival := _arrival(state):
        return arrival
    path_of_upload = _upload_path(state)
    if _offset(state):
        # The service then computes the digest of its bytes.
        state = client.request("HEAD", path_of_upload, headers=_VERSION)
    failures = 0
    with path.open("rb") as file:
        while not (arrival := _arrival(state)):
            watch(_offset(state))
            file.seek(_offset(state))
            try:
                state = _send_part(client, path_of_upload, _offset(state), file.read(PART_BYTES))
                failures = 0
            except (ServiceUnavailable, ServiceRefused) as error:
                failures += 1
                if failures > FAILURES or (isinstance(error, ServiceRefused) and error.reason not in _RETRIED_REFUSALS):
                    raise
                sleep(min(_LONGEST_WAIT, 2.0 ** (failures - 1)))
                state = client.request("HEAD", path_of_upload, headers=_VERSION)
    watch(path.stat().st_size)
    return arrival


def _send_part(client: ServiceClient, path: str, offset: int, part: bytes) -> Answer:
    headers = {**_VERSION, "Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    return client.request("PATCH", path, part, headers, attempts=1)


def _arrival(state: Answer) -> str:
    return state.headers.get("Sparring-Arrival", "")


def _offset(state: Answer) -> int:
    offset = parse_digits(state.headers.get("Upload-Offset", ""), 18)
    if offset is None:
        raise ServiceUnavailable("the service did not send Upload-Offset; is this the address of a contest?")
    return offset


def _upload_path(state: Answer) -> str:
    """Returns an upload's path below the API's. Ignores the host in Location, so that nothing is sent elsewhere."""
    path = urlsplit(state.headers.get("Location", "")).path
    if not path.startswith(f"{API}/uploads/"):
        raise ServiceUnavailable("the service did not send the upload's Location; is this the address of a contest?")
    return path.removeprefix(API)
