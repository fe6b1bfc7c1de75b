"""What the self-test asks the Docker engine beside the backend: to build images, and to act as a careless operator.

It speaks through the `docker` program, as an operator would. Nothing here is used to play.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable
from orchestrator.sandbox_selftest.context import Context

BUILD_SECONDS = 120.0
_COMMAND_SECONDS = 30.0
_PROGRAM = "docker"
_INSTALL_REMEDY = "install Docker's command line, which the hostile programs' images are built with"


def run_docker(*words: str, seconds: float = _COMMAND_SECONDS) -> "subprocess.CompletedProcess[bytes]":
    """Runs `docker WORDS` and returns how it went.

    Raises:
        BackendUnavailable: there is no such program.
        subprocess.TimeoutExpired: it took longer.
    """
    surroundings = {**os.environ, "DOCKER_BUILDKIT": "0"}
    try:
        return subprocess.run(
            [_PROGRAM, *words],
            capture_output=True,
            timeout=seconds,
            check=False,
            env=surroundings,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise BackendUnavailable(f"there is no `{_PROGRAM}` program; {_INSTALL_REMEDY}") from error


def build_image(folder: Path, tag: str, *more: str) -> str:
    """Builds the Dockerfile in a folder without a network; returns the image's id. Raises BackendUnavailable.

    Nothing is taken from earlier builds, so that no other check on this machine removes it meanwhile.
    """
    options = ("--quiet", "--no-cache", "--force-rm", "--network", "none", "--tag", tag, *more)
    done = run_docker("build", *options, str(folder), seconds=BUILD_SECONDS)
    if done.returncode:
        error_lines = done.stderr.strip().splitlines()
        raise BackendUnavailable(
            f"cannot build {folder.name}: {printable(error_lines[-1] if error_lines else b'no reason given')}"
        )
    return done.stdout.decode("ascii").strip()


def list_containers(context: Context, job: str) -> list[str]:
    """Returns the ids of the containers of one job of this check."""
    labels = [f"label=sparring.run={context.run}", f"label=sparring.job={job}"]
    filters: Sequence[str] = [argument for label in labels for argument in ("--filter", label)]
    return run_docker("ps", "--all", "--quiet", "--no-trunc", *filters).stdout.decode("ascii").split()


def is_running(container: str) -> bool:
    """Whether the engine takes a container for running."""
    try:
        done = run_docker("inspect", "--format", "{{.State.Running}}", container, seconds=_COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return done.stdout.strip() == b"true"


def count_logged_bytes(context: Context, job: str, enough: int) -> int:
    """Returns how many bytes the engine kept of what a job's containers wrote; it stops counting beyond `enough`."""
    total = 0
    for container in list_containers(context, job):
        with subprocess.Popen(
            [_PROGRAM, "logs", container], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as reader:
            while total <= enough and reader.stdout is not None and (data := reader.stdout.read(1024**2)):
                total += len(data)
            reader.kill()
    return total
