"""Builds a program's Dockerfile on the base image and offers the image for admission.

An image that is refused is contained; the places of the problems are compared. One that is admitted is started like
any player, and reports what it found. With the control removed a careless operator runs the image as it is: `docker
run` keeps the image's own user, environment, volumes and health check. The other limits stay, and there is no network.
"""

import secrets
import time

from orchestrator.backends.base import Order, Source
from orchestrator.errors import Rejected
from orchestrator.intake import image_check
from orchestrator.zoo import _engine, report
from orchestrator.zoo.context import Context
from orchestrator.zoo.expectation import Program
from orchestrator.zoo.outcome import Observed

ON_TOP = "on_top"
"""The folder of an image that is built on the program's, whose tag it gets as the argument BELOW."""
_KEPT = 64 * 1024
_BOUNDS = (
    *("--rm", "--network", "none", "--memory", "256m", "--memory-swap", "256m", "--pids-limit", "64", "--cpus", "1"),
    *("--log-driver", "none", "--read-only", "--tmpfs", "/tmp:size=16m,mode=1777"),  # noqa: S108  the container's own
)


def run(program: Program, context: Context, *, removed: bool) -> Observed:
    """Returns what was seen of a program of the kind `image`.

    Raises:
        SparringError: it could not be built or started; nothing is shown then.
    """
    careless = bool(removed and program.expectation.removed and program.expectation.removed.bypass)
    tag = f"sparring-zoo/{program.name}:{secrets.token_hex(4)}"
    identity = _engine.build(program.folder, tag)
    try:
        if careless:
            return _as_it_is(program, _on_top(program, identity, tag))
        return _offered(program, context, identity, removed=removed)
    finally:
        for made in (f"{tag}-{ON_TOP}", tag):
            _engine.call("rmi", "--force", made)


def _offered(program: Program, context: Context, identity: str, *, removed: bool) -> Observed:
    largest = program.expectation.largest_image
    begun = time.monotonic()
    try:
        if largest is not None:
            image_check.admissible(context.backend, identity, largest=largest)
        image = context.backend.admit(Source(image=identity))
    except Rejected as error:
        return Observed(
            refused=[problem.place for problem in error.problems],
            seconds=time.monotonic() - begun,
            evidence=[f"{problem.place}: {problem.what}" for problem in error.problems],
        )
    policy = context.policy(program, removed=removed)
    sandbox = context.backend.start(Order(image, policy, context.run, program.name))
    try:
        heard = b""
        deadline = begun + program.expectation.seconds
        while data := sandbox.receive(deadline):
            heard = (heard + data)[-_KEPT:]
    finally:
        end = sandbox.stop()
    harm, evidence = report.read(heard)
    return Observed(
        harm=harm,
        ending=end.ending,
        refused=[],
        seconds=time.monotonic() - begun,
        evidence=[evidence or "no report"],
    )


def _on_top(program: Program, identity: str, tag: str) -> str:
    """Returns the image that the organizers would build on this one, where the program's folder has one; else it."""
    folder = program.folder / ON_TOP
    if not folder.is_dir():
        return identity
    return _engine.build(folder, f"{tag}-{ON_TOP}", "--build-arg", f"BELOW={tag}")


def _as_it_is(program: Program, identity: str) -> Observed:
    begun = time.monotonic()
    name = f"sparring-zoo-{program.name}-{secrets.token_hex(4)}"
    try:
        done = _engine.call("run", "--name", name, *_BOUNDS, identity, seconds=program.expectation.seconds + 10)
    finally:
        _engine.call("rm", "--force", "--volumes", name)
    harm, evidence = report.read(done.stdout[-_KEPT:])
    words = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return Observed(
        harm=harm,
        ending=None,
        seconds=time.monotonic() - begun,
        evidence=[evidence or f"no report: {words[0] if words else 'nothing was written'}"],
    )
