"""Where blobs lie on a disk, for tests that read or damage them behind the software's back.

It reads packs by the description in docs/results.md and shares no code with what writes them.
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
        """Puts other bytes there: into a file of its own just these, into a pack as many as there were, zeros last."""
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
    """Returns where the blob of that digest lies."""
    place = next(place for place in blob_places(folder) if place.digest == digest)
    assert "sha256:" + hashlib.sha256(place.read()).hexdigest() == digest
    return place
