"""Calls the Docker engine without the backend: to build images, and to act as a careless operator.

It runs the `docker` program, as an operator would. Only the self-test uses it.
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


def run_docker(*arguments: str, seconds: float = _COMMAND_SECONDS) -> "subprocess.CompletedProcess[bytes]":
    """Runs `docker` with arguments and returns the completed process.

    Raises:
        BackendUnavailable: the program is not installed.
        subprocess.TimeoutExpired: it took longer than `seconds`.
    """
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
    try:
        return subprocess.run(
            [_PROGRAM, *arguments],
            capture_output=True,
            timeout=seconds,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise BackendUnavailable(f"there is no `{_PROGRAM}` program; {_INSTALL_REMEDY}") from error


def build_image(folder: Path, tag: str, *extra_options: str) -> str:
    """Builds the Dockerfile in a folder without a network; returns the image's id. Raises BackendUnavailable.

    It uses no cached layers, because another check on this machine may remove them meanwhile.
    """
    options = ("--quiet", "--no-cache", "--force-rm", "--network", "none", "--tag", tag, *extra_options)
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
    """Returns whether the engine reports a container as running, or does not answer."""
    try:
        done = run_docker("inspect", "--format", "{{.State.Running}}", container, seconds=_COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return done.stdout.strip() == b"true"


def count_logged_bytes(context: Context, job: str, enough: int) -> int:
    """Returns the bytes that the engine logged of a job's containers; stops counting above `enough`."""
    total = 0
    for container in list_containers(context, job):
        with subprocess.Popen(
            [_PROGRAM, "logs", container], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as reader:
            while total <= enough and reader.stdout is not None and (data := reader.stdout.read(1024**2)):
                total += len(data)
            reader.kill()
    return total
