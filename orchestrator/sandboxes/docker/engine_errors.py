"""The errors of the `docker` library become ours: whose fault a failed call to the engine is."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import requests
from docker.errors import APIError, DockerException

from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, SandboxLost
from orchestrator.sandboxes.retry_start import StartFailedError

# A file where /tmp, the init program or the working directory has to be: the same on every try, so not ours to retry.
_UNFIT_IMAGE = re.compile(
    r"Cannot mkdir|to rootfs at|chdir to cwd|container init: mkdir|failed to find initial working directory"
)
_UNSEEN = re.compile(r"bind source path does not exist")
_DISK_FULL = re.compile(r"no space left on device(: unknown)?\W*$", re.IGNORECASE)
"""How such a failure ends; before that there may be names that are a submission's."""


class UnseenFileError(Exception):
    """The engine does not see a file of this machine: it has another file system."""


@contextmanager
def image_errors() -> Iterator[None]:
    """Raises separate errors for unfit files of an image, a start that failed for any reason, and a failed engine.

    The engine's message does not say whose fault a failed start is: the image's files, the runtime's mounts, or the
    machine. So a caller that gets a StartFailedError starts a known image and compares.
    """
    try:
        yield
    except APIError as error:
        if _UNFIT_IMAGE.search(str(error.explanation)):
            raise StartFailedError(f"the image cannot be started: {error.explanation}", unfit=True) from error
        if _UNSEEN.search(str(error.explanation)):
            raise UnseenFileError(printable(str(error.explanation), 600)) from error
        if not _DISK_FULL.search(str(error.explanation)):
            said = printable(str(error.explanation), 600)
            raise StartFailedError(f"the engine failed to start it: {said}", unfit=False) from error
        raise


@contextmanager
def ignore_ended_container() -> Iterator[None]:
    """Lets pass that a container is gone, or does not run any more."""
    try:
        yield
    except APIError as error:
        if error.status_code not in {requests.codes.not_found, requests.codes.conflict}:
            raise


@contextmanager
def engine_errors(action: str) -> Iterator[None]:
    """Turns the library's errors into ours."""
    try:
        yield
    except (DockerException, requests.RequestException) as error:
        raise SandboxLost(f"{action}: the engine failed: {printable(str(error), 600)}") from error


@contextmanager
def sandbox_errors(action: str) -> Iterator[None]:
    """Turns every error into the loss of the sandbox that it is about."""
    try:
        with engine_errors(action):
            yield
    except BackendUnavailable as error:
        raise SandboxLost(f"{action}: {error}") from error
