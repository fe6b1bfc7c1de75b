"""Blobs named by their SHA-256, written completely or not at all: each in its own file, or small ones in packs.

They are not flushed to the disk one by one. A killed process loses none; a blob that a power failure damages is
detected by its digest, and its step is played again (`execution.reusable_jobs`).
"""

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from orchestrator.domain.ids import digest as digest_of
from orchestrator.errors import StoreFault
from orchestrator.files import UNFINISHED_PREFIX
from orchestrator.ledger.blob_packs import BlobPacks, PackedBlob

LARGEST_PACKED_BYTES = 65_536
"""The size of the largest blob that goes into a pack. A larger blob has its own file."""


class FolderBlobs:
    """Blobs in one folder: `ab/cdef...` for `sha256:abcdef...`, or in `packs` (`ledger.blob_packs`).

    Paths are plain strings: a large round has 100,000, and creating a `Path` takes longer than reading most files.

    Args:
        folder: the folder of the blobs, created if it does not exist.
        pack: whether new small blobs go into a pack, for a process that stores many. Readers find them either way.

    Raises:
        StoreFault: the folder cannot be created.
    """

    def __init__(self, folder: Path, *, pack: bool = False) -> None:
        self._folder, self._packs = folder, BlobPacks(str(folder))
        self._largest_packed = LARGEST_PACKED_BYTES if pack else -1
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._write_fault(error) from error

    def put(self, data: bytes) -> str:
        """Stores the bytes and returns their digest. A reader never sees a partial blob."""
        name = digest_of(data)
        if len(data) <= self._largest_packed:
            self._pack(name, data)
            return name
        path = self._path(name)
        if _is_intact(path, name):
            return name
        try:
            try:
                _write(path, data)
            except FileNotFoundError:  # no folder yet, or a starting round took the file for a killed process's
                Path(path).parent.mkdir(exist_ok=True)
                _write(path, data)
        except OSError as error:
            raise self._write_fault(error) from error
        return name

    def _pack(self, name: str, data: bytes) -> None:
        key = _key(name)
        if _read_packed(self._packs.known(key), name) is None:
            try:
                self._packs.append(key, data)
            except OSError as error:
                raise self._write_fault(error) from error

    def get(self, digest: str) -> bytes:
        """Returns the bytes. Raises StoreFault if they are missing or damaged."""
        key, path = _key(digest), self._path(digest)
        data = _read_packed(self._packs.seen(key), digest)
        if data is not None:
            return data
        problem = f"blob {digest} is damaged; remove {path} and run again"
        try:
            if digest_of(data := _read(path)) == digest:
                return data
        except OSError as error:
            problem = f"blob {digest} cannot be read: {error}"
        places = self._packs.find(key)
        if (data := _read_packed(places, digest)) is not None:
            return data
        if places:
            problem = f"blob {digest} is damaged in {places[0].path}, byte {places[0].start}; run again"
        raise StoreFault(problem)

    def _write_fault(self, error: OSError) -> StoreFault:
        return StoreFault(
            f"cannot keep a blob under {self._folder}: {error}; make space there, or correct this, and run again"
        )

    def _path(self, digest: str) -> str:
        _, _, digits = digest.partition(":")
        return f"{self._folder}/{digits[:2]}/{digits[2:]}"


def _key(digest: str) -> bytes:
    """Returns the raw bytes of a digest, the key of packs; b"", under which there is nothing, if it is not a digest."""
    try:
        return bytes.fromhex(digest.partition(":")[2])
    except ValueError:
        return b""


def _read_packed(places: Iterable[PackedBlob], name: str) -> bytes | None:
    """Returns the bytes of the first place whose content has the digest `name`, None if there is no such place."""
    for place in places:
        with suppress(OSError):
            if digest_of(data := place.read()) == name:
                return data
    return None


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  see FolderBlobs
        return file.readall()


def _is_intact(path: str, name: str) -> bool:
    """Returns whether the file exists and has the digest `name`. A damaged file is written again."""
    try:
        return digest_of(_read(path)) == name
    except OSError:
        return False


def _write(path: str, data: bytes) -> None:
    fresh = f"{path.rpartition('/')[0]}/{UNFINISHED_PREFIX}{secrets.token_hex(8)}"
    with open(fresh, "xb", opener=_open_private) as file:
        try:
            file.write(data)
            file.flush()  # before the rename: a full disk fails here, and a kill leaves no partial blob under the name
            os.replace(fresh, path)  # noqa: PTH105  see FolderBlobs
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise


def _open_private(path: str, flags: int) -> int:
    """Opens a file that only its owner can read: some blobs are labels."""
    return os.open(path, flags, 0o600)


plugin = FolderBlobs
