"""The sandbox of a player that an engine or a node refused to start."""

from collections.abc import Callable

from orchestrator.errors import AmbiguousExit
from orchestrator.sandboxes.base import STDERR_TAIL_BYTES, Ending, Exit, never_cancelled


class NeverStarted:
    """The sandbox of a player that could not be started.

    Args:
        reason: why.
        doubtful: whether the cause is unknown, so that the end is ambiguous; otherwise it is the image.
    """

    def __init__(self, reason: str, *, doubtful: bool = False) -> None:
        self._reason, self._doubtful = reason, doubtful
        ending = Ending.LOST if doubtful else Ending.CRASHED
        self._exit = Exit(ending, stderr=reason.encode()[-STDERR_TAIL_BYTES:])

    def send(self, data: bytes, deadline: float, cancelled: Callable[[], bool] = never_cancelled) -> bool:  # noqa: ARG002  there is no player
        """Returns False, because there is no player."""
        return False

    def receive(self, deadline: float) -> bytes | None:  # noqa: ARG002  there is no player
        """Returns b"", or raises AmbiguousExit if the cause is unknown; see `Sandbox.receive`."""
        if self._doubtful:
            raise AmbiguousExit(self._reason)
        return b""

    def stop(self) -> Exit:
        """Returns the reason as if the player had written it to stderr."""
        return self._exit
