"""Does many things of which some may fail: it does the others nevertheless, then raises the first fault."""

from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.errors import InfrastructureFault


class DeferredErrors:
    """Notes what failed."""

    def __init__(self) -> None:
        self._first: InfrastructureFault | None = None

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Goes on behind the block when one of our faults ends it."""
        try:
            yield
        except InfrastructureFault as fault:
            self._first = self._first or fault

    def raise_first(self) -> None:
        """Raises the first fault that was noted, if there is one."""
        if self._first is not None:
            raise self._first
