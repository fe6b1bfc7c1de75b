"""Runs several steps even if some of them fail, then raises the first fault."""

from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.errors import InfrastructureFault


class DeferredErrors:
    """Keeps the first infrastructure fault of several blocks."""

    def __init__(self) -> None:
        self._first: InfrastructureFault | None = None

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Suppresses an InfrastructureFault that the block raises, and keeps it if it is the first."""
        try:
            yield
        except InfrastructureFault as fault:
            self._first = self._first or fault

    def raise_first(self) -> None:
        """Raises the first fault, if there was one."""
        if self._first is not None:
            raise self._first
