"""The record of a round: a hash-chained ledger of events, and blobs by their SHA-256.

A ledger is of one version (`domain.versions`), which its first event states. The time of an entry is never before that
of the entry in front of it: what is earlier is the ledger's order, and the times do not contradict it.
"""

import functools
import io
import json
import math
import re
import secrets
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.contest_events import ContestOpened
from orchestrator.domain.events import Event, RoundOpened, event_text
from orchestrator.domain.ids import digest
from orchestrator.domain.versions import FORMAT_VERSION, unreadable_version
from orchestrator.errors import StoreFault

GENESIS = "sha256:" + "0" * 64
"""The hash before the first entry."""

SALT_BYTES = 16
TIME_PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}\+00:00"
"""How a ledger writes a time: in UTC, to the millisecond. Written so, times sort as they follow each other."""
_TIME = re.compile(TIME_PATTERN)
_OPENINGS = frozenset(kind.model_fields["kind"].default for kind in (ContestOpened, RoundOpened))


class LedgerEntry(NamedTuple):
    """One event in the chain. `leaf` covers it alone, `hash` the leaf and the hash before it.

    So an entry can be withheld and its leaf shown: the chain still holds, and the random `salt`, 32 hex digits, keeps
    everybody from guessing what was withheld.

    A tuple, as a large round makes 200,000 and reads them: a frozen dataclass takes three times as long to make.
    """

    seq: int
    time: str
    salt: str
    event: Event
    text: str
    """The event as canonical JSON, which is what the leaf covers."""
    previous: str
    leaf: str
    hash: str


def format_time(moment: datetime) -> str:
    """Returns a moment as a ledger writes it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def entry_time(clock: str, previous: str) -> str:
    """Returns the time of an entry: the clock's, or that of the entry in front where the clock is behind it."""
    return max(clock, previous)


def require_version(first: Any, location: str) -> None:
    """Raises StoreFault where the first event of a ledger, as JSON, is that of a ledger of another version."""
    if not isinstance(first, dict) or first.get("kind") not in _OPENINGS:
        return
    version = first.get("ledger_version", 1)
    if version != FORMAT_VERSION:
        raise StoreFault(f"{location} {unreadable_version('ledger', version)}")


def new_salt() -> str:
    """Returns a new salt."""
    return secrets.token_hex(SALT_BYTES)


_ARRAY_1_0 = np.lib.format.magic(1, 0)
_ARRAY_PREFIX = struct.Struct(f"<{len(_ARRAY_1_0)}sH")
"""How a file of NumPy begins, in version 1.0 of its format, with the length of the rest of its header."""
_json_text = json.encoder.encode_basestring


def leaf_hash(seq: int, time: str, salt: str, text: str) -> str:
    """Returns the leaf of an entry whose event, as canonical JSON, is `text`."""
    # In the order of their names, and so canonical as a whole; RFC 8785 writes texts as `json` does.
    return digest(f'{{"event":{text},"salt":{_json_text(salt)},"seq":{seq:d},"time":{_json_text(time)}}}')


def entry_hash(previous: str, leaf: str) -> str:
    """Returns the hash of the entry with this leaf that follows `previous`."""
    return digest(f"{previous}\n{leaf}")


def make_entry(previous: str, seq: int, time: str, event: Event, salt: str) -> LedgerEntry:
    """Returns the entry that follows `previous`. Raises ValueError for a time in another form than `format_time`'s."""
    if not _TIME.fullmatch(time):
        raise ValueError(f"{time!r} is not a time of a ledger; use format_time")
    text = event_text(event)
    leaf = leaf_hash(seq, time, salt, text)
    return LedgerEntry(seq, time, salt, event, text, previous, leaf, entry_hash(previous, leaf))


class Ledger(Protocol):
    """The append-only record. Everything else is derived from it."""

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        ...

    def append(self, *events: Event, time: str) -> str:
        """Adds events after the head, all or none, and returns the time that they bear: see `entry_time`.

        Raises:
            Conflict: somebody else appended; see `read_new`.
        """
        ...

    def read(self) -> Iterator[LedgerEntry]:
        """Yields the entries up to the head in order. Raises StoreFault at the first that breaks the chain."""
        ...

    def read_new(self) -> Iterator[LedgerEntry]:
        """Yields the entries that others appended after the head, which moves on with each. Raises like `read`."""
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
    return blobs.put(_encode_array(array))


def array_digest(array: NDArray[Any]) -> str:
    """Returns what `put_array` would, and keeps nothing."""
    return digest(_encode_array(array))


def _encode_array(array: NDArray[Any]) -> bytes:
    if array.flags.c_contiguous and not array.dtype.hasobject:
        return _array_header(array.shape, array.dtype) + array.tobytes()
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def get_array(blobs: Blobs, digest: str) -> NDArray[Any]:
    """Returns a kept array, without unpickling anything. Raises StoreFault when the blob is missing or no array."""
    data = blobs.get(digest)
    try:
        return _parse_array(data)
    except (ValueError, struct.error) as error:
        raise StoreFault(f"blob {digest} is not an array: {error}") from error


def _parse_array(data: bytes) -> NDArray[Any]:
    """Returns the array in a file of NumPy. Raises ValueError or struct.error where it is none."""
    if not data.startswith(_ARRAY_1_0):
        array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
        return array
    start = _ARRAY_PREFIX.size + _ARRAY_PREFIX.unpack_from(data)[1]
    shape, order, dtype = _array_layout(data[:start])
    if math.prod(shape) * dtype.itemsize > len(data) - start:
        raise ValueError(f"{shape} of {dtype} in {len(data)} bytes")
    return np.frombuffer(data, dtype, math.prod(shape), start).reshape(shape, order=order).copy(order)


@functools.lru_cache(256)
def _array_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Returns what stands in a file before an array's bytes in C order: a round has few of these, and many files."""
    buffer = io.BytesIO()
    described = {"shape": shape, "fortran_order": False, "descr": np.lib.format.dtype_to_descr(dtype)}
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue()


@functools.lru_cache(256)
def _array_layout(header: bytes) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
    """Returns the shape, order and type that a header says. Raises ValueError for objects, and for what is no shape."""
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(header[len(_ARRAY_1_0) :]))
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError("an array of objects, or of a negative size")
    return shape, "F" if fortran else "C", dtype
