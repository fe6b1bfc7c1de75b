"""Determines whose fault a failed start is: starts a known image in the same way, then tries again."""

from collections.abc import Callable
from dataclasses import replace

from orchestrator.errors import SandboxLost
from orchestrator.sandboxes import self_probe
from orchestrator.sandboxes.base import Image, Sandbox, SandboxSpec
from orchestrator.sandboxes.linux.applied_policy import PolicyNotAppliedError
from orchestrator.sandboxes.never_started import NeverStarted


class StartFailedError(Exception):
    """A container could not be started.

    Args:
        reason: the message of the engine or the runtime.
        unfit: whether that message names the image's files as the cause.
    """

    def __init__(self, reason: str, *, unfit: bool) -> None:
        super().__init__(reason)
        self.unfit = unfit


def retry_start(
    start: Callable[[SandboxSpec], Sandbox],
    spec: SandboxSpec,
    error: StartFailedError | PolicyNotAppliedError,
    known: Image | None,
) -> Sandbox:
    """Tries to start a sandbox again that failed with `error`, after starting a known image.

    This overcomes a temporary failure. If only this image fails, it is at fault, and the result is a `NeverStarted`
    sandbox; its end is ambiguous if the message does not name the image's files as the cause.

    Raises:
        SandboxLost: the known image fails too, or there is none and the message does not name the image's files.
    """
    if known is not None:
        try:
            start(replace(spec, image=replace(known, command=self_probe.WAIT_COMMAND))).stop()
        except (StartFailedError, SandboxLost) as other:
            raise SandboxLost(f"{error}; nor can {known.name} be started: {other}") from error
    elif not _is_unfit(error):
        raise SandboxLost(
            f"{error}; there is no image of ours to compare it with: run `sparring image build base`"
        ) from error
    try:
        return start(spec)
    except (StartFailedError, PolicyNotAppliedError) as second_error:
        if _is_unfit(second_error):
            return NeverStarted(str(second_error))
        return NeverStarted(f"{second_error}; other images start as they should", doubtful=True)


def _is_unfit(error: StartFailedError | PolicyNotAppliedError) -> bool:
    return isinstance(error, StartFailedError) and error.unfit
