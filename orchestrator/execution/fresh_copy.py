"""The copy of an image's files that a determinism check runs from.

The kernel remembers what a sandbox looked up among the files of its image, after the sandbox is gone. A defence that
keeps answers there has them in the round's play and, from the image itself, in every replay as well: both agree.
"""

import threading

import structlog

from orchestrator.errors import InfrastructureFault
from orchestrator.execution.round_context import RoundContext
from orchestrator.sandboxes.base import Backend, Image

_log = structlog.get_logger()


class FreshCopy:
    """One image's copy, made when it is first asked for. Threads may share it."""

    def __init__(self, backend: Backend, image: Image, run: str) -> None:
        self._backend, self._original, self._run = backend, image, run
        self._lock = threading.Lock()
        self._copy: Image | None = None
        self.digest = ""
        """The copy's digest, also after its removal; empty until it is made, and where nothing is copied."""

    @classmethod
    def of(cls, context: RoundContext, submission: str) -> "FreshCopy | None":
        """Returns what a check of a submission runs from in place of its image; None for the organizers' own."""
        if context.roster[submission].baseline:
            return None
        return cls(context.backend, context.images[submission], context.run)

    def get_image(self) -> Image:
        """Returns the copy, or the image itself where the backend copies nothing.

        Raises:
            InfrastructureFault: it could not be made; another call tries again.
        """
        with self._lock:
            if self._copy is None:
                self._copy = self._backend.fresh_copy(self._original, self._run)
                if self._copy.digest != self._original.digest:
                    self.digest = self._copy.digest
            return self._copy

    def discard(self) -> None:
        """Removes the copy, if one was made.

        What cannot be removed now is left for the sweep at the end of the round.
        """
        with self._lock:
            copied, self._copy = self._copy, None
        if copied is None or copied.digest == self._original.digest or copied.rollback is None:
            return
        try:
            copied.rollback()
        except InfrastructureFault as fault:
            _log.warning("copy_left", image=copied.digest, reason=str(fault))
