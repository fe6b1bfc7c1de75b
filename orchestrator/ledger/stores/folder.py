"""Blobs as files named by their SHA-256, written whole or not at all.

They are not forced to the disk one by one: a killed process loses none, and what a power cut damages is found by its
digest and played again (`execution.reuse`).
"""

import os
import secrets
from pathlib import Path

from orchestrator.domain.ids import digest as digest_of
from orchestrator.errors import StoreFault
from orchestrator.files import UNFINISHED_PREFIX


class FolderBlobs:
    """Blobs under one folder: `ab/cdef...` for `sha256:abcdef...`.

    Their paths are plain strings: a large round has 100,000, and making a `Path` takes longer than reading most files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._not_kept(error) from error

    def put(self, data: bytes) -> str:
        """Keeps the bytes and returns their digest; a reader never sees half a blob."""
        name = digest_of(data)
        path = self._path(name)
        if _is_intact(path, name):
            return name
        try:
            try:
                _write(path, data)
            except FileNotFoundError:  # the first of its folder, or a round that began took the file for a killed one's
                Path(path).parent.mkdir(exist_ok=True)
                _write(path, data)
        except OSError as error:
            raise self._not_kept(error) from error
        return name

    def get(self, digest: str) -> bytes:
        """Returns the bytes. Raises StoreFault when they are missing or damaged."""
        try:
            data = _read(self._path(digest))
        except OSError as error:
            raise StoreFault(f"blob {digest} cannot be read: {error}") from error
        if digest_of(data) != digest:
            raise StoreFault(f"blob {digest} is damaged; remove {self._path(digest)} and run again")
        return data

    def _not_kept(self, error: OSError) -> StoreFault:
        return StoreFault(f"cannot keep a blob under {self._folder}: {error}; make space there, or mend it; run again")

    def _path(self, digest: str) -> str:
        _, _, digits = digest.partition(":")
        return f"{self._folder}/{digits[:2]}/{digits[2:]}"


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  see FolderBlobs
        return file.readall()


def _is_intact(path: str, name: str) -> bool:
    """Returns whether a file is there and still what its name says: a damaged one is written again."""
    try:
        return digest_of(_read(path)) == name
    except OSError:
        return False


def _write(path: str, data: bytes) -> None:
    fresh = f"{path.rpartition('/')[0]}/{UNFINISHED_PREFIX}{secrets.token_hex(8)}"
    with open(fresh, "xb", opener=_private) as file:
        try:
            file.write(data)
            file.flush()  # before it has its name: a full disk says so here, and a kill leaves no half of it there
            os.replace(fresh, path)  # noqa: PTH105  see FolderBlobs
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise


def _private(path: str, flags: int) -> int:
    """Opens a file that nobody else can read: labels are among the blobs."""
    return os.open(path, flags, 0o600)


plugin = FolderBlobs
