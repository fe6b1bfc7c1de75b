"""Whose fault a call to the engine that failed is, told by what the engine said. The texts are recorded ones."""

import pytest
import requests
from docker.errors import APIError, DockerException

from orchestrator.errors import BackendUnavailable, SandboxLost
from orchestrator.sandboxes.docker.engine_errors import (
    engine_errors,
    ignore_ended_container,
    image_errors,
    sandbox_errors,
)
from orchestrator.sandboxes.retry_start import StartFailedError

SHIM = "failed to create shim task: OCI runtime create failed: "
RUNC_INIT = (
    f"{SHIM}runc create failed: unable to start container process: error during container init: error mounting "
    '"/usr/bin/docker-init" to rootfs at "/sbin/docker-init": open o_path procfd: not a directory: unknown'
)
RUNSC_FOLDER = (
    "OCI runtime start failed: starting container: starting root container: starting sandbox: creating process: failed "
    'to find initial working directory "/player/self/fd/8": invalid argument: unknown'
)
RUNSC_DIED = (
    f"{SHIM}creating container: cannot create sandbox: cannot read client sync file: waiting for sandbox to start: "
    "EOF: unknown"
)
RUNC_LIMIT = (
    f"{SHIM}runc create failed: unable to start container process: can't get final child's PID from pipe: EOF: unknown"
)
"""What runc says where the host has no process left for it."""
USERS_FOLDER = "unable to find user 20000: read /var/lib/docker/overlay2/ab/merged/etc/passwd: is a directory"
USERS_LOOP = "evalSymlinksInScope: too many links in /var/lib/docker/overlay2/ab/merged/etc/passwd"
USERS_LINE = "unable to find user 20002: bufio.Scanner: token too long"
"""What an engine says that looks the user up in an image's own files."""
NO_SPACE = "mkdir /var/lib/docker/overlay2/ab: no space left on device"


def said(text: str, status: int = 500) -> APIError:
    """Returns the library's error for an answer with this text."""
    answer = requests.Response()
    answer.status_code = status
    return APIError("500 Server Error", answer, text)


def becomes(error: Exception) -> BaseException:
    """Returns what an error of starting a container turns into."""
    with pytest.raises(Exception) as caught, engine_errors("starting a container"), image_errors():
        raise error
    return caught.value


@pytest.mark.parametrize("text", [RUNC_INIT, RUNSC_FOLDER, "Cannot mkdir: /player is not a directory"])
def test_files_in_the_way_are_the_images(text):
    """The same on every try: not ours to try again, under either runtime."""
    error = becomes(said(text))
    assert isinstance(error, StartFailedError)
    assert error.unfit


NAMED = 'exec: "/no space left on device": permission denied: unknown'


@pytest.mark.parametrize("text", [RUNSC_DIED, RUNC_LIMIT, USERS_FOLDER, USERS_LOOP, USERS_LINE, NAMED])
def test_a_start_that_fails_may_be_anybodys(text):
    """The engine answers that it cannot: because of what it reads of the image, or of what the machine lacks."""
    error = becomes(said(text))
    assert isinstance(error, StartFailedError)
    assert not error.unfit


@pytest.mark.parametrize(
    "error",
    [said(NO_SPACE), said(f"{SHIM}{NO_SPACE}: unknown"), DockerException("x"), requests.ConnectionError("reset")],
)
def test_an_engine_that_fails_is_ours(error):
    """Nothing of it points to the image or the runtime."""
    assert type(becomes(error)) is SandboxLost


def test_what_ended_already_is_no_error():
    """A container that is gone, or on its way, is as it should be; any other refusal is told."""
    for status in (404, 409):
        with ignore_ended_container():
            raise said("gone", status)
    with pytest.raises(APIError), ignore_ended_container():
        raise said("busy", 500)


def test_an_engine_that_is_away_loses_the_sandbox():
    """A sandbox that cannot be asked about is lost, so that it is tried again later."""
    with pytest.raises(SandboxLost, match="looking"), sandbox_errors("looking"):
        raise BackendUnavailable("nobody answers")
