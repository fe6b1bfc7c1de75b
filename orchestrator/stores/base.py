"""The record of a round: a hash-chained ledger of events, and blobs by their SHA-256."""

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.events import Event, read_event
from orchestrator.domain.ids import canonical_json
from orchestrator.errors import StoreFault

GENESIS = "sha256:" + "0" * 64
"""The hash before the first entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One event in the chain. `hash` covers everything here and the hash before it."""

    seq: int
    time: str
    event: Event
    previous: str
    hash: str


def link(previous: str, seq: int, time: str, event: Event) -> Entry:
    """Returns the entry that follows `previous`; `time` is ISO 8601 in UTC."""
    body = {"seq": seq, "time": time, "event": event.model_dump(mode="json")}
    chained = hashlib.sha256(f"{previous}\n{canonical_json(body)}".encode()).hexdigest()
    return Entry(seq, time, event, previous, "sha256:" + chained)


def relink(previous: str, seq: int, time: str, body: dict[str, object]) -> Entry:
    """Returns the entry that a stored body makes. Raises pydantic.ValidationError when it is no event."""
    return link(previous, seq, time, read_event(dict(body)))


class Ledger(Protocol):
    """The append-only record. Everything else is derived from it."""

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        ...

    def append(self, *events: Event, time: str) -> None:
        """Adds events, all or none. Raises Conflict when somebody else appended since the last read."""
        ...

    def read(self) -> Iterator[Entry]:
        """Yields every entry in order. Raises StoreFault at the first that does not continue the chain."""
        ...

    def close(self) -> None:
        """Lets go of the store."""
        ...


class Blobs(Protocol):
    """Bytes kept by what they are."""

    def put(self, data: bytes) -> str:
        """Keeps the bytes and returns their digest. Keeping them twice costs nothing."""
        ...

    def get(self, digest: str) -> bytes:
        """Returns the bytes. Raises StoreFault when they are missing or not what the digest says."""
        ...


def put_array(blobs: Blobs, array: NDArray[Any]) -> str:
    """Keeps an array in NumPy's file format and returns its digest."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return blobs.put(buffer.getvalue())


def get_array(blobs: Blobs, digest: str) -> NDArray[Any]:
    """Returns a kept array, without unpickling anything. Raises StoreFault when the blob is missing or no array."""
    try:
        array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(blobs.get(digest)), allow_pickle=False)
    except ValueError as error:
        raise StoreFault(f"blob {digest} is not an array: {error}") from error
    return array
