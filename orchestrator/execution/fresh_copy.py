"""The copy of an image's files for the sandboxes of a determinism check.

The kernel caches a sandbox's look-ups of its image's files, and keeps them after the sandbox has ended. A defence could
store answers in that cache during play and find them again in every replay from the same image, so that play and
replays would agree.
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from orchestrator.errors import InfrastructureFault
from orchestrator.execution.round_context import RoundContext
from orchestrator.logs import get_logger
from orchestrator.sandboxes.base import Backend, Image

_log = get_logger()
_AHEAD = 3
"""The most copies that wait for their replays: each takes as much room on the disk as its image."""
CallTask = Callable[[Callable[[], None]], None]
"""Calls a function, at once or in another thread."""


def _call_now(task: Callable[[], None]) -> None:
    task()


class FreshCopy:
    """The copy of one image, which is made on first use. Threads may share it.

    Args:
        backend: what copies the image.
        image: the image.
        run: the run whose sweep removes the copy if nothing else does.
        remove: calls the function that removes the copy, at once or in another thread.
    """

    def __init__(self, backend: Backend, image: Image, run: str, remove: CallTask = _call_now) -> None:
        self._backend, self._original, self._run, self._remove = backend, image, run, remove
        self._lock = threading.Lock()
        self._copy: Image | None = None
        self._discarded = False
        self.digest = ""
        """The copy's digest, also after its removal; empty until it is made, and if the backend copies nothing."""

    @classmethod
    def of(cls, context: RoundContext, submission: str, remove: CallTask = _call_now) -> "FreshCopy | None":
        """Returns the copy from which a submission's determinism check runs, or None for a baseline."""
        if context.roster[submission].baseline:
            return None
        return cls(context.backend, context.images[submission], context.run, remove)

    def get_image(self) -> Image:
        """Returns the copy, or the image itself if the backend copies nothing.

        Raises:
            InfrastructureFault: the copy could not be made; another call tries again.
        """
        with self._lock:
            return self._make()

    def make_ahead(self) -> bool:
        """Makes the copy before it is needed, unless it was discarded; returns whether that worked.

        A failure is only logged: the sandbox that needs the copy tries again.
        """
        with self._lock:
            try:
                if not self._discarded:
                    self._make()
            except InfrastructureFault as fault:
                _log.warning("copy_not_made_ahead", image=self._original.digest, reason=str(fault))
                return False
            return True

    def _make(self) -> Image:
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
            copy, self._copy, self._discarded = self._copy, None, True
        if copy is None or copy.digest == self._original.digest or copy.rollback is None:
            return
        self._remove(partial(_roll_back, copy.digest, copy.rollback))


def _roll_back(digest: str, rollback: Callable[[], None]) -> None:
    try:
        rollback()
    except InfrastructureFault as fault:
        _log.warning("copy_left", image=digest, reason=str(fault))


class FreshCopies:
    """The copies for the replays of a round, which one thread makes before these need them, and removes afterwards.

    The engine takes seconds for a copy, often longer than a replay takes, and a slot would be idle for as long.
    """

    def __init__(self, context: RoundContext) -> None:
        self._context = context
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="image-copies")
        self._tasks: list[Future[None]] = []
        self._lock = threading.Lock()
        self._seen: set[str] = set()
        self._upcoming: list[str] = []
        self._waiting: dict[str, FreshCopy] = {}
        self._all: list[FreshCopy] = []

    def make_ahead(self, submissions: Iterable[str]) -> None:
        """Copies the images of these submissions, but for those named before, in the background and in this order."""
        with self._lock:
            new = [name for name in submissions if name not in self._seen]
            self._seen.update(new)
            self._upcoming += new
            self._fill()

    def take(self, submission: str) -> FreshCopy | None:
        """Returns the copy for a submission's replay, made or not, or None for a baseline."""
        with self._lock:
            self._seen.add(submission)
            copy = self._waiting.pop(submission, None) or self._of(submission)
            self._upcoming = [name for name in self._upcoming if name != submission]
            self._fill()
            return copy

    def close(self) -> None:
        """Removes the copies that are left. Returns when no image is being copied or removed any more."""
        with self._lock:
            self._upcoming = []
        for copy in self._all:  # also what was taken by a job that another process plays
            copy.discard()
        self._thread.shutdown()
        for task in self._tasks:
            task.result()

    def _fill(self) -> None:
        while self._upcoming and len(self._waiting) < _AHEAD:
            submission = self._upcoming.pop(0)
            if copy := self._of(submission):
                self._waiting[submission] = copy
                self._do(partial(self._make, copy))

    def _make(self, copy: FreshCopy) -> None:
        if not copy.make_ahead():  # if the disk is full, a copy for later would take the room of the next replay's
            with self._lock:
                self._upcoming = []

    def _of(self, submission: str) -> FreshCopy | None:
        copy = FreshCopy.of(self._context, submission, self._do)
        if copy is not None:
            self._all.append(copy)
        return copy

    def _do(self, task: Callable[[], None]) -> None:
        self._tasks.append(self._thread.submit(task))
