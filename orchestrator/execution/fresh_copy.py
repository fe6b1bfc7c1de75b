"""The copy of an image's files for the sandboxes of a determinism check.

The kernel caches a sandbox's look-ups of its image's files, and keeps them after the sandbox has ended. A defence could
store answers in that cache during play and find them again in every replay from the same image, so that play and
replays would agree.
"""

import threading

import structlog

from orchestrator.errors import InfrastructureFault
from orchestrator.execution.round_context import RoundContext
from orchestrator.sandboxes.base import Backend, Image

_log = structlog.get_logger()


class FreshCopy:
    """The copy of one image, which is made on first use. Threads may share it."""

    def __init__(self, backend: Backend, image: Image, run: str) -> None:
        self._backend, self._original, self._run = backend, image, run
        self._lock = threading.Lock()
        self._copy: Image | None = None
        self.digest = ""
        """The copy's digest, also after its removal; empty until it is made, and if the backend copies nothing."""

    @classmethod
    def of(cls, context: RoundContext, submission: str) -> "FreshCopy | None":
        """Returns the copy from which a submission's determinism check runs, or None for a baseline."""
        if context.roster[submission].baseline:
            return None
        return cls(context.backend, context.images[submission], context.run)

    def get_image(self) -> Image:
        """Returns the copy, or the image itself if the backend copies nothing.

        Raises:
            InfrastructureFault: the copy could not be made; another call tries again.
        """
        with self._lock:
            if self._copy is None:
                self._copy = self._backend.fresh_copy(self._original, self._run)
                if self._copy.digest != self._original.digest:
                    self.digest = self._copy.digest
            return self._copy

    def discard(self) -> None:
        """Removes the copy, if one was made.

        A copy that cannot be removed now is left for the sweep at the end of the round.
        """
        with self._lock:
            copy, self._copy = self._copy, None
        if copy is None or copy.digest == self._original.digest or copy.rollback is None:
            return
        try:
            copy.rollback()
        except InfrastructureFault as fault:
            _log.warning("copy_left", image=copy.digest, reason=str(fault))
