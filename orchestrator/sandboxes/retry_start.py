"""Whose fault a failed start is: it is tried again after a known image was started in the same way."""

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
        reason: why, in the words of the engine or the runtime.
        unfit: whether that is, by those words, because of what is or is not in the image.
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
    """Starts a sandbox again that could not be started because of `error`, with a known image before it.

    What passes is overcome so. What the image alone meets is its own doing: it has ended before it began, ambiguously
    where the words do not say that it is the image.

    Raises:
        SandboxLost: the known image fares no better, or there is none and the words do not say that it is the image.
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
    except (StartFailedError, PolicyNotAppliedError) as again:
        if _is_unfit(again):
            return NeverStarted(str(again))
        return NeverStarted(f"{again}; other images start as they should", doubtful=True)


def _is_unfit(error: StartFailedError | PolicyNotAppliedError) -> bool:
    return isinstance(error, StartFailedError) and error.unfit
