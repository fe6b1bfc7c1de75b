"""A ledger and blobs in memory, for tests and trials."""

from collections.abc import Iterator

from orchestrator.domain.events import Event
from orchestrator.domain.ids import digest as digest_of
from orchestrator.errors import StoreFault
from orchestrator.ledger.stores import base


class MemoryLedger:
    """A list of entries."""

    def __init__(self) -> None:
        self._entries: list[base.LedgerEntry] = []

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self._entries[-1].hash if self._entries else base.GENESIS

    def append(self, *events: Event, time: str) -> str:
        """Appends events, and returns the time of their entries."""
        time = base.entry_time(time, self._entries[-1].time if self._entries else time)
        for event in events:
            entry = base.make_entry(self.head, len(self._entries) + 1, time, event, base.new_salt())
            self._entries.append(entry)
        return time

    def read(self) -> Iterator[base.LedgerEntry]:
        """Yields every entry in order."""
        yield from list(self._entries)

    def read_new(self) -> Iterator[base.LedgerEntry]:
        """Yields nothing: only this object appends."""
        return iter(())

    def close(self) -> None:
        """Does nothing."""


class MemoryBlobs:
    """A dictionary of bytes."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        """Stores the bytes and returns their digest."""
        name = digest_of(data)
        self._blobs[name] = bytes(data)
        return name

    def get(self, digest: str) -> bytes:
        """Returns the bytes. Raises StoreFault if they are missing."""
        try:
            return self._blobs[digest]
        except KeyError:
            raise StoreFault(f"no blob {digest}") from None


plugin = MemoryLedger
