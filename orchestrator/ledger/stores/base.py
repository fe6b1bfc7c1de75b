"""The record of a round: a hash-chained ledger of events, and blobs named by their SHA-256.

A ledger has one version (`domain.versions`), which its first event states. An entry's time is never before that of the
previous entry: the order of the entries decides which of two is earlier, and the times do not contradict it.
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
"""The form of a time in a ledger: UTC, to the millisecond. As text, such times sort in their order."""
_TIME = re.compile(TIME_PATTERN)
_OPENINGS = frozenset(kind.model_fields["kind"].default for kind in (ContestOpened, RoundOpened))


class LedgerEntry(NamedTuple):
    """One event in the chain. `leaf` is the hash of the entry alone, `hash` that of the leaf and the previous hash.

    So a bundle can withhold an entry and show its leaf: the chain can still be verified, and the random `salt`, 32 hex
    digits, prevents guessing the event.

    It is a tuple because a large round writes and reads 200,000: a frozen dataclass takes three times as long to
    create.
    """

    seq: int
    time: str
    salt: str
    event: Event
    text: str
    """The event as canonical JSON, from which the leaf is computed."""
    previous: str
    leaf: str
    hash: str


def format_time(moment: datetime) -> str:
    """Returns a time in the form of a ledger, `TIME_PATTERN`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def entry_time(clock: str, previous: str) -> str:
    """Returns the time of an entry: the clock's, or the previous entry's if the clock is behind it."""
    return max(clock, previous)


def require_version(first: Any, location: str) -> None:
    """Raises StoreFault if `first`, the JSON value of a ledger's first event, has another version."""
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
"""The start of a NumPy file in version 1.0 of the format: the magic bytes and the length of the rest of the header."""
_json_text = json.encoder.encode_basestring


def leaf_hash(seq: int, time: str, salt: str, text: str) -> str:
    """Returns the leaf of an entry whose event, as canonical JSON, is `text`."""
    # The names are sorted, so the whole text is canonical; RFC 8785 writes strings as `json` does.
    return digest(f'{{"event":{text},"salt":{_json_text(salt)},"seq":{seq:d},"time":{_json_text(time)}}}')


def entry_hash(previous: str, leaf: str) -> str:
    """Returns the hash of the entry with this leaf that follows `previous`."""
    return digest(f"{previous}\n{leaf}")


def make_entry(previous: str, seq: int, time: str, event: Event, salt: str) -> LedgerEntry:
    """Returns the entry that follows `previous`. Raises ValueError if the time is not in the form of `format_time`."""
    if not _TIME.fullmatch(time):
        raise ValueError(f"{time!r} is not a time of a ledger; use format_time")
    text = event_text(event)
    leaf = leaf_hash(seq, time, salt, text)
    return LedgerEntry(seq, time, salt, event, text, previous, leaf, entry_hash(previous, leaf))


class Ledger(Protocol):
    """The append-only sequence of entries. Everything else is derived from it."""

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        ...

    def append(self, *events: Event, time: str) -> str:
        """Appends events after the head, all or none, and returns the time of their entries: see `entry_time`.

        Raises:
            Conflict: another process appended first; see `read_new`.
        """
        ...

    def read(self) -> Iterator[LedgerEntry]:
        """Yields the entries up to the head, in order. Raises StoreFault at the first that breaks the chain."""
        ...

    def read_new(self) -> Iterator[LedgerEntry]:
        """Yields the entries that other processes appended after the head, and advances it. Raises like `read`."""
        ...

    def close(self) -> None:
        """Closes the store."""
        ...


class Blobs(Protocol):
    """A content-addressed store: bytes named by their digest."""

    def put(self, data: bytes) -> str:
        """Stores the bytes and returns their digest. Bytes that are stored already take no more space."""
        ...

    def get(self, digest: str) -> bytes:
        """Returns the bytes. Raises StoreFault if they are missing or do not have this digest."""
        ...


def put_array(blobs: Blobs, array: NDArray[Any]) -> str:
    """Stores an array in NumPy's file format and returns its digest."""
    return blobs.put(_encode_array(array))


def array_digest(array: NDArray[Any]) -> str:
    """Returns the digest that `put_array` would return, without storing the array."""
    return digest(_encode_array(array))


def _encode_array(array: NDArray[Any]) -> bytes:
    if array.flags.c_contiguous and not array.dtype.hasobject:
        return _array_header(array.shape, array.dtype) + array.tobytes()
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def get_array(blobs: Blobs, digest: str) -> NDArray[Any]:
    """Returns a stored array, without unpickling. Raises StoreFault if the blob is missing or is not an array."""
    data = blobs.get(digest)
    try:
        return _parse_array(data)
    except (ValueError, struct.error) as error:
        raise StoreFault(f"blob {digest} is not an array: {error}") from error


def _parse_array(data: bytes) -> NDArray[Any]:
    """Returns the array in the bytes of a NumPy file. Raises ValueError or struct.error if there is none."""
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
    """Returns the header of a NumPy file with an array in C order. A round has many files and few different headers."""
    buffer = io.BytesIO()
    described = {"shape": shape, "fortran_order": False, "descr": np.lib.format.dtype_to_descr(dtype)}
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue()


@functools.lru_cache(256)
def _array_layout(header: bytes) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype[Any]]:
    """Returns the shape, order and type from a header. Raises ValueError for arrays of objects and negative sizes."""
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(header[len(_ARRAY_1_0) :]))
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError("an array of objects, or of a negative size")
    return shape, "F" if fortran else "C", dtype
