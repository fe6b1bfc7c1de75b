"""The arrays of a full bundle: `blobs.bin` has them one after another, `blobs.jsonl` their digests and sizes.

They are in one file, not one each, because a large round has a million steps.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.bundles import encoding
from orchestrator.bundles.layout import BLOB_INDEX, BLOBS
from orchestrator.domain.ids import Digest
from orchestrator.domain.ids import digest as digest_of
from orchestrator.errors import NotGenuine, StoreFault
from orchestrator.ledger.stores.base import Blobs

MAX_BLOB_BYTES = 4 * 1024**3
_PREAMBLE_BYTES = 10
_MAX_HEADER_BYTES = _PREAMBLE_BYTES + 0xFFFF
"""The largest number of bytes before the values, in version 1.0 of NumPy's format."""
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>..)"
    rb"\{'descr': '[<|](?P<kind>[biuf])(?P<size>[1248])', 'fortran_order': (?:True|False), "
    rb"'shape': \((?P<shape>(?:\d{1,18},|\d{1,18}(?:, \d{1,18}){1,7})?)\), \} *\n",
    re.DOTALL,
)
"""A header of booleans, integers or floats. Never objects, which would have to be unpickled."""


class _IndexLine(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    digest: Digest
    size: int = Field(ge=0, le=MAX_BLOB_BYTES)


def write_blobs(blobs: Blobs, digests: Iterable[str], folder: Path) -> None:
    """Writes these blobs into a bundle's folder, in the order of their digests."""
    with (folder / BLOBS).open("wb") as packed, (folder / BLOB_INDEX).open("wb") as index:
        for digest in sorted(set(digests)):
            data = blobs.get(digest)
            packed.write(data)
            index.write(encoding.encode({"digest": digest, "size": len(data)}))


class PackedBlobs:
    """The blobs of a bundle. Each call reads a blob and verifies its digest.

    Args:
        packed: `blobs.bin`.
        size: the length of `blobs.bin`.
        index: `blobs.jsonl`.
    """

    def __init__(self, packed: BinaryIO, size: int, index: BinaryIO) -> None:
        self._packed = packed
        self._places: dict[str, tuple[int, int]] = {}
        at, before = 0, ""
        for place, value in encoding.decode_lines(index, BLOB_INDEX):
            try:
                line = _IndexLine.model_validate(value)
            except ValidationError:
                raise NotGenuine(place, "is no digest with its size") from None
            if line.digest <= before:
                raise NotGenuine(place, f"{line.digest} does not come after the one before")
            self._places[line.digest] = (at, line.size)
            at, before = at + line.size, line.digest
        if at != size:
            raise NotGenuine(BLOBS, f"has {size} bytes, {BLOB_INDEX} tells of {at}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def put(self, data: bytes) -> str:
        """Raises StoreFault."""
        raise StoreFault(f"{len(data)} bytes were not kept: a bundle is only read")

    def get(self, digest: str) -> bytes:
        """Returns an array's bytes.

        Raises:
            NotGenuine: they do not have this digest, or are not a plain array.
            StoreFault: the bundle has no such blob.
        """
        if digest not in self._places:
            raise StoreFault(f"the bundle has no blob {digest}")
        at, size = self._places[digest]
        place = f"{BLOBS} byte {at}"
        self._packed.seek(at)
        _check_header(self._packed.read(min(size, _MAX_HEADER_BYTES)), size, place)
        self._packed.seek(at)
        data = self._packed.read(size)
        if digest_of(data) != digest:
            raise NotGenuine(place, f"what begins here is not {digest}")
        _check_booleans(data, place)
        return data


def _check_header(data: bytes, size: int, place: str) -> None:
    """Raises NotGenuine unless the bytes begin an array of numbers of `size` bytes. It is called before they are read.

    NumPy accepts more forms of headers than is safe for hostile input, so only the form in which it writes them is
    accepted.
    """
    header = _HEADER.match(data)
    if header is None or int.from_bytes(header["length"], "little") != header.end() - _PREAMBLE_BYTES:
        raise NotGenuine(place, "is no array of numbers in version 1.0 of NumPy's format")
    length = int(header["size"])
    for side in header["shape"].split(b","):
        length *= int(side) if side.strip() else 1
    if header.end() + length != size:
        raise NotGenuine(place, "is not as long as its header says")


def _check_booleans(data: bytes, place: str) -> None:
    """Raises NotGenuine if an array of booleans has a value other than 0 and 1. Its header was checked before."""
    header = _HEADER.match(data)
    if header is not None and header["kind"] == b"b" and max(data[header.end() :], default=0) > 1:
        raise NotGenuine(place, "holds a truth value that is neither 0 nor 1")


def file_digest(file: BufferedReader) -> str:
    """Returns the digest of a whole file."""
    return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
