"""Builds a program's Dockerfile on the base image and offers the image for admission.

An image that is refused is contained; the places of the problems are compared. An admitted image is started like any
player, and reports what it found. With the control removed, `docker run` starts the image as a careless operator would:
with the image's own user, environment, volumes and health check. The other limits stay, and there is no network.
"""

import secrets
import time

from orchestrator.errors import Rejected
from orchestrator.intake import image_check
from orchestrator.sandbox_selftest import docker_cli, harm_report
from orchestrator.sandbox_selftest.context import Context
from orchestrator.sandbox_selftest.expectation import Program
from orchestrator.sandbox_selftest.outcome import RunResult
from orchestrator.sandboxes.base import ImageSource, SandboxSpec

DERIVED_FOLDER = "on_top"
"""The folder of an image with the program's image as its base, whose tag is the build argument BELOW."""
_MAX_OUTPUT_BYTES = 64 * 1024
_RUN_LIMITS = (
    *("--rm", "--network", "none", "--memory", "256m", "--memory-swap", "256m", "--pids-limit", "64", "--cpus", "1"),
    *("--log-driver", "none", "--read-only", "--tmpfs", "/tmp:size=16m,mode=1777"),  # noqa: S108  the container's own
)


def run(program: Program, context: Context, *, removed: bool) -> RunResult:
    """Runs a program of the kind `image` and returns the result.

    Raises:
        SparringError: the image could not be built or started, so there is no result.
    """
    careless = bool(removed and program.expectation.removed and program.expectation.removed.bypass)
    tag = f"sparring-selftest/{program.name}:{secrets.token_hex(4)}"
    identity = docker_cli.build_image(program.folder, tag)
    try:
        if careless:
            return _run_unchecked(program, _build_derived_image(program, identity, tag))
        return _offer_for_admission(program, context, identity, removed=removed)
    finally:
        for image_tag in (f"{tag}-{DERIVED_FOLDER}", tag):
            docker_cli.run_docker("rmi", "--force", image_tag)


def _offer_for_admission(program: Program, context: Context, identity: str, *, removed: bool) -> RunResult:
    largest = program.expectation.largest_image
    started_at = time.monotonic()
    try:
        if largest is not None:
            image_check.require_admissible(context.backend, identity, largest=largest)
        image = context.backend.admit(ImageSource(image=identity))
    except Rejected as error:
        return RunResult(
            refused=[problem.place for problem in error.problems],
            seconds=time.monotonic() - started_at,
            evidence=[f"{problem.place}: {problem.what}" for problem in error.problems],
        )
    policy = context.policy_for(program, removed=removed)
    sandbox = context.backend.start(SandboxSpec(image, policy, context.run, program.name, context.device))
    try:
        output = b""
        deadline = started_at + program.expectation.seconds
        while data := sandbox.receive(deadline):
            output = (output + data)[-_MAX_OUTPUT_BYTES:]
    finally:
        end = sandbox.stop()
    harm, evidence = harm_report.parse_report(output)
    return RunResult(
        harm=harm,
        ending=end.ending,
        refused=[],
        seconds=time.monotonic() - started_at,
        evidence=[evidence or "no report"],
    )


def _build_derived_image(program: Program, identity: str, tag: str) -> str:
    """Builds the image that organizers would base on this one, if the program has one; otherwise returns this one."""
    folder = program.folder / DERIVED_FOLDER
    if not folder.is_dir():
        return identity
    return docker_cli.build_image(folder, f"{tag}-{DERIVED_FOLDER}", "--build-arg", f"BELOW={tag}")


def _run_unchecked(program: Program, identity: str) -> RunResult:
    started_at = time.monotonic()
    name = f"sparring-selftest-{program.name}-{secrets.token_hex(4)}"
    try:
        done = docker_cli.run_docker(
            "run", "--name", name, *_RUN_LIMITS, identity, seconds=program.expectation.seconds + 10
        )
    finally:
        docker_cli.run_docker("rm", "--force", "--volumes", name)
    harm, evidence = harm_report.parse_report(done.stdout[-_MAX_OUTPUT_BYTES:])
    error_lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return RunResult(
        harm=harm,
        ending=None,
        seconds=time.monotonic() - started_at,
        evidence=[evidence or f"no report: {error_lines[0] if error_lines else 'nothing was written'}"],
    )
