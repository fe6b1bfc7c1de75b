"""Translates the errors of the `docker` library, and tells apart whose fault a failed call is."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import requests
from docker.errors import APIError, DockerException

from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, SandboxLost
from orchestrator.sandboxes.retry_start import StartFailedError

# The image has a file where /tmp, the init program or the working directory belongs: no retry can change that.
_UNFIT_IMAGE = re.compile(
    r"Cannot mkdir|to rootfs at|chdir to cwd|container init: mkdir|failed to find initial working directory"
)
_UNSEEN = re.compile(r"bind source path does not exist")
_DISK_FULL = re.compile(r"no space left on device(: unknown)?\W*$", re.IGNORECASE)
"""Matches only the end of a message: the names before it may come from a submission."""


class UnseenFileError(Exception):
    """The engine cannot find a file of this machine, because it has another file system."""


@contextmanager
def image_errors() -> Iterator[None]:
    """Raises StartFailedError for a failed start, UnseenFileError for a missing mount source, APIError for a full disk.

    The engine's message does not tell whether the image's files, the runtime's mounts or the machine caused a failed
    start. So a caller that gets a StartFailedError starts a known image and compares.
    """
    try:
        yield
    except APIError as error:
        if _UNFIT_IMAGE.search(str(error.explanation)):
            raise StartFailedError(f"the image cannot be started: {error.explanation}", unfit=True) from error
        if _UNSEEN.search(str(error.explanation)):
            raise UnseenFileError(printable(str(error.explanation), 600)) from error
        if not _DISK_FULL.search(str(error.explanation)):
            reason = printable(str(error.explanation), 600)
            raise StartFailedError(f"the engine failed to start it: {reason}", unfit=False) from error
        raise


@contextmanager
def ignore_ended_container() -> Iterator[None]:
    """Suppresses the errors for a container that does not exist or does not run any more."""
    try:
        yield
    except APIError as error:
        if error.status_code not in {requests.codes.not_found, requests.codes.conflict}:
            raise


@contextmanager
def engine_errors(action: str) -> Iterator[None]:
    """Raises SandboxLost in place of the library's errors."""
    try:
        yield
    except (DockerException, requests.RequestException) as error:
        raise SandboxLost(f"{action}: the engine failed: {printable(str(error), 600)}") from error


@contextmanager
def sandbox_errors(action: str) -> Iterator[None]:
    """Raises SandboxLost in place of every error, also if no engine answers."""
    try:
        with engine_errors(action):
            yield
    except BackendUnavailable as error:
        raise SandboxLost(f"{action}: {error}") from error
