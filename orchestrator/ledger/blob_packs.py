"""Small blobs one behind another in a few files: a large round has 100,000, and making a file for each takes longest.

A pack is a sequence of records: `BLOB`, the length of the bytes as u32 little-endian, their SHA-256, the bytes. Each
writer has a pack of its own, which nobody else writes to and nothing is taken out of. There is no index on the disk:
whoever reads finds out where each blob lies from the heads of the records. A killed writer leaves half a record at the
end of its pack at most, and the next writer begins another pack.
"""

import os
import secrets
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

PACKS = "packs"
"""The folder of the packs, in that of the blobs."""
_MARK = b"BLOB"
_HEAD = struct.Struct("<4sI32s")


@dataclass(frozen=True, slots=True)
class PackedBlob:
    """Where a blob lies: its pack, and the place of its bytes in it."""

    path: str
    start: int
    size: int

    def read(self) -> bytes:
        """Returns the bytes that lie there now. Raises OSError."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, self.size, self.start)
        finally:
            os.close(descriptor)


class BlobPacks:
    """The packs in one folder. Threads may share it, and other processes may write packs of theirs meanwhile."""

    def __init__(self, folder: str) -> None:
        self._folder = f"{folder}/{PACKS}"
        self._own = f"{self._folder}/{secrets.token_hex(8)}"
        self._found: dict[bytes, PackedBlob] = {}
        self._copies: dict[bytes, list[PackedBlob]] = {}
        """Where else a blob lies: it was put by two writers at once, or again because it was damaged."""
        self._read_up_to: dict[str, int] = {}
        self._looked = False
        self._lock = threading.Lock()

    def seen(self, digest: bytes) -> list[PackedBlob]:
        """Returns every place where a blob lies as far as this object looked, which it does not do now."""
        with self._lock:
            return self._places(digest)

    def known(self, digest: bytes) -> list[PackedBlob]:
        """Returns every place where a blob lies, but for what others wrote since this object looked first."""
        with self._lock:
            if not self._looked:
                self._look_for_new()
            return self._places(digest)

    def find(self, digest: bytes) -> list[PackedBlob]:
        """Returns every place where a blob lies, those included that others wrote meanwhile."""
        with self._lock:
            self._look_for_new()
            return self._places(digest)

    def append(self, digest: bytes, data: bytes) -> None:
        """Adds a blob to this writer's pack, whole or not at all. Raises OSError."""
        record = _HEAD.pack(_MARK, len(data), digest) + data
        with self._lock:
            try:
                start = self._write(record)
            except FileNotFoundError:
                os.makedirs(self._folder, exist_ok=True)  # noqa: PTH103  see FolderBlobs
                start = self._write(record)
            self._note(digest, PackedBlob(self._own, start + _HEAD.size, len(data)))
            self._read_up_to[self._own] = start + len(record)

    def _write(self, record: bytes) -> int:
        """Writes a record at the end of this writer's pack and returns where it begins."""
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
            os.close(descriptor)  # other machines see of a shared file what was there when it was closed
        return start

    def _look_for_new(self) -> None:
        """Notes the records that were added to any pack since the last look."""
        self._looked = True
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                for digest, blob in self._new_records(entry.path):
                    self._note(digest, blob)

    def _new_records(self, path: str) -> Iterator[tuple[bytes, PackedBlob]]:
        """Yields the whole records behind those that were read. Behind what is no record nothing can be found."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # what cannot be read is missing
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

    def _note(self, digest: bytes, blob: PackedBlob) -> None:
        if self._found.setdefault(digest, blob) is not blob:
            self._copies.setdefault(digest, []).append(blob)

    def _places(self, digest: bytes) -> list[PackedBlob]:
        blob = self._found.get(digest)
        return [] if blob is None else [blob, *self._copies.get(digest, ())]
