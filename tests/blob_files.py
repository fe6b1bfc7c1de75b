"""Finds blobs on disk, for tests that read or damage them directly.

It reads packs by their description in docs/results.md, and shares no code with the module that writes them.
"""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEAD = struct.Struct("<4sI32s")


@dataclass(frozen=True)
class BlobPlace:
    """The bytes of one blob in a file: the whole file, or a part of a pack."""

    digest: str
    path: Path
    start: int
    size: int

    def read(self) -> bytes:
        """Returns the bytes."""
        return self.path.read_bytes()[self.start : self.start + self.size]

    def write(self, data: bytes) -> None:
        """Replaces the blob's bytes. In a pack, `data` is padded with zeros to the old size."""
        whole = self.path.read_bytes()
        rest = b"" if self.start == 0 else bytes(self.size - len(data))
        self.path.write_bytes(whole[: self.start] + data + rest + whole[self.start + self.size :])


def blob_places(folder: Path) -> Iterator[BlobPlace]:
    """Yields every blob in a folder of blobs."""
    for path in sorted(path for path in folder.glob("??/*") if path.is_file()):
        yield BlobPlace(f"sha256:{path.parent.name}{path.name}", path, 0, path.stat().st_size)
    for pack in sorted(folder.glob("packs/*")):
        data, start = pack.read_bytes(), 0
        while start + HEAD.size <= len(data):
            _, size, digest = HEAD.unpack_from(data, start)
            yield BlobPlace(f"sha256:{digest.hex()}", pack, start + HEAD.size, size)
            start += HEAD.size + size


def find_blob(folder: Path, digest: str) -> BlobPlace:
    """Returns the place of the blob with a digest."""
    place = next(place for place in blob_places(folder) if place.digest == digest)
    assert "sha256:" + hashlib.sha256(place.read()).hexdigest() == digest
    return place
