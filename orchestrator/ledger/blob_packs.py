"""Packs: files that hold many small blobs. A large round has 100,000, and creating a file for each takes longest.

A pack is a sequence of records: `BLOB`, the length of the bytes as u32 little-endian, their SHA-256, the bytes. Each
writer has its own pack, to which no other process writes and from which nothing is removed. There is no index on disk:
a reader finds the blobs by the heads of the records. A killed writer leaves at most one partial record, at the end of
its pack, and the next writer begins another pack.
"""

import os
import secrets
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

PACKS = "packs"
"""The folder of the packs, inside the folder of the blobs."""
_MARK = b"BLOB"
_HEAD = struct.Struct("<4sI32s")


@dataclass(frozen=True, slots=True)
class PackedBlob:
    """The position of a blob: its pack, and the offset and length of its bytes."""

    path: str
    start: int
    size: int

    def read(self) -> bytes:
        """Reads the bytes at this position, without a check of their digest. Raises OSError."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, self.size, self.start)
        finally:
            os.close(descriptor)


class BlobPacks:
    """The packs in one folder. It is safe for threads, and other processes may write their own packs there."""

    def __init__(self, folder: str) -> None:
        self._folder = f"{folder}/{PACKS}"
        self._own = f"{self._folder}/{secrets.token_hex(8)}"
        self._blobs: dict[bytes, PackedBlob] = {}
        self._copies: dict[bytes, list[PackedBlob]] = {}
        """Further positions of a blob: two writers stored it at once, or it was stored again because it was damaged."""
        self._read_up_to: dict[str, int] = {}
        self._was_read = False
        self._lock = threading.Lock()

    def seen(self, digest: bytes) -> list[PackedBlob]:
        """Returns the known positions of a blob, without reading the packs."""
        with self._lock:
            return self._places(digest)

    def known(self, digest: bytes) -> list[PackedBlob]:
        """Returns the known positions of a blob. It reads the packs if this object never did."""
        with self._lock:
            if not self._was_read:
                self._read_new_records()
            return self._places(digest)

    def find(self, digest: bytes) -> list[PackedBlob]:
        """Returns all positions of a blob. It first reads the records that were added to any pack."""
        with self._lock:
            self._read_new_records()
            return self._places(digest)

    def append(self, digest: bytes, data: bytes) -> None:
        """Appends a blob to this writer's pack, completely or not at all. Raises OSError."""
        record = _HEAD.pack(_MARK, len(data), digest) + data
        with self._lock:
            try:
                start = self._write(record)
            except FileNotFoundError:
                os.makedirs(self._folder, exist_ok=True)  # noqa: PTH103  see FolderBlobs
                start = self._write(record)
            self._add(digest, PackedBlob(self._own, start + _HEAD.size, len(data)))
            self._read_up_to[self._own] = start + len(record)

    def _write(self, record: bytes) -> int:
        """Writes a record at the end of this writer's pack and returns its offset."""
        descriptor = os.open(self._own, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            start = os.fstat(descriptor).st_size
            try:
                written = 0
                while written < len(record):
                    written += os.write(descriptor, record[written:])
            except BaseException:
                os.ftruncate(descriptor, start)
                raise
        finally:
            os.close(descriptor)  # on a network file system, other machines see the data after the close
        return start

    def _read_new_records(self) -> None:
        """Adds the records that were appended to any pack since the last call."""
        self._was_read = True
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                for digest, blob in self._new_records(entry.path):
                    self._add(digest, blob)

    def _new_records(self, path: str) -> Iterator[tuple[bytes, PackedBlob]]:
        """Yields the complete records of a pack after those that were read. It stops at bytes that are not a record."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # blobs in a pack that cannot be read count as missing
        try:
            size, start = os.fstat(descriptor).st_size, self._read_up_to.get(path, 0)
            while len(head := os.pread(descriptor, _HEAD.size, start)) == _HEAD.size:
                mark, length, digest = _HEAD.unpack(head)
                end = start + _HEAD.size + length
                if mark != _MARK or end > size:
                    break
                yield digest, PackedBlob(path, start + _HEAD.size, length)
                self._read_up_to[path] = start = end
        finally:
            os.close(descriptor)

    def _add(self, digest: bytes, blob: PackedBlob) -> None:
        if self._blobs.setdefault(digest, blob) is not blob:
            self._copies.setdefault(digest, []).append(blob)

    def _places(self, digest: bytes) -> list[PackedBlob]:
        blob = self._blobs.get(digest)
        return [] if blob is None else [blob, *self._copies.get(digest, ())]
