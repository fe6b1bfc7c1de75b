"""Reads a bundle's folder as hostile input: checks names, sizes, digests and the signature."""

import os
import stat
from dataclasses import dataclass
from io import BufferedReader
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.bundles import encoding
from orchestrator.bundles.layout import (
    MANIFEST,
    MAX_BUNDLE_BYTES,
    MAX_DOCUMENT_BYTES,
    SIGNATURE,
    BundleManifest,
    expected_files,
)
from orchestrator.bundles.packed_blobs import file_digest
from orchestrator.domain.field_errors import field_errors
from orchestrator.domain.ids import digest, parse_json
from orchestrator.domain.text import printable
from orchestrator.domain.versions import FORMAT_VERSION, unreadable_version
from orchestrator.errors import NotGenuine
from orchestrator.folder_walk import EntryKind, walk_folder
from orchestrator.signatures import KEY_BYTES, SIGNATURE_BYTES, SigningKey, fingerprint, verify_signature

_SIGNATURE_CONTEXT = f"sparring bundle {FORMAT_VERSION}\n"
"""The prefix of the signed bytes, so that no other signature of the same key is valid for a bundle."""
_SIGNATURE_SIZE = 2 * KEY_BYTES + 1 + 71 + 1 + 2 * SIGNATURE_BYTES + 1

M = TypeVar("M", bound=BaseModel)


def encode_signature(manifest: bytes, key: SigningKey) -> bytes:
    """Returns `manifest.sig`: the public key, the manifest's digest and the signature of the digest, on a line each."""
    named = digest(manifest)
    signature = key.sign((_SIGNATURE_CONTEXT + named + "\n").encode())
    return f"{key.public_key.hex()}\n{named}\n{signature.hex()}\n".encode("ascii")


@dataclass(frozen=True)
class Bundle:
    """A bundle whose manifest is signed, and whose files have the names and sizes that the manifest lists.

    Callers that read a file check its content; `find_altered_file` compares it with its digest.
    """

    path: Path
    manifest: BundleManifest
    key: str
    """The fingerprint of the key that signed it."""
    digest: str
    """The digest of the manifest."""

    @classmethod
    def load(cls, path: Path, key: str | None = None) -> "Bundle":
        """Opens a bundle. Raises NotGenuine at the first failed check, also if another key than `key` signed it."""
        data = read_file(path, MANIFEST, MAX_DOCUMENT_BYTES)
        require_version(data, MANIFEST, "bundle", "sparring_bundle")
        public, named = _read_signature(path)
        key_fingerprint = fingerprint(public)
        if key is not None and key_fingerprint != key:
            raise NotGenuine(SIGNATURE, f"signed by {key_fingerprint}, not by {printable(key, 80)}")
        if digest(data) != named:
            raise NotGenuine(MANIFEST, f"its digest is {digest(data)}; what was signed is {named}")
        manifest = parse_model(BundleManifest, encoding.decode(data, MANIFEST), MANIFEST)
        if manifest.key != public.hex():
            raise NotGenuine(f"{MANIFEST} key", "is not the key that signed it")
        names = [file.name for file in manifest.files]
        expected_names = expected_files(manifest.kind, manifest.rounds)
        for one, other in zip([*names, ""], [*expected_names, ""], strict=False):
            if one != other:
                raise NotGenuine(f"{MANIFEST} files", f"lists {printable(one) or 'no more'}; here belongs {other}")
        if sum(file.size for file in manifest.files) > MAX_BUNDLE_BYTES:
            raise NotGenuine(f"{MANIFEST} files", f"are larger than {MAX_BUNDLE_BYTES} bytes together")
        bundle = cls(path, manifest, key_fingerprint, named)
        bundle._check_listing()
        return bundle

    def open_file(self, name: str) -> BufferedReader:
        """Returns a listed file, open for reading."""
        return _open(self.path, name)

    def file_size(self, name: str) -> int:
        """Returns the size of a listed file, in bytes."""
        return next(file.size for file in self.manifest.files if file.name == name)

    def read_document(self, name: str) -> object:
        """Returns the value of a JSON document. Raises NotGenuine if it is not in canonical form, or too large."""
        return encoding.decode(read_file(self.path, name, MAX_DOCUMENT_BYTES), name)

    def read_text(self, name: str, size: int) -> str:
        """Returns the text of an ASCII file of at most `size` bytes. Raises NotGenuine for any other file."""
        try:
            return read_file(self.path, name, size).decode("ascii")
        except UnicodeDecodeError:
            raise NotGenuine(name, "is no ASCII text") from None

    def find_altered_file(self, most: int = MAX_BUNDLE_BYTES) -> NotGenuine | None:
        """Returns the error of the first file whose digest differs from the signed one, None if there is none.

        It reads at most `most` bytes, smaller files first, and skips the other files.
        """
        by_size = sorted(self.manifest.files, key=lambda file: file.size)
        totals = accumulate(file.size for file in by_size)
        read = {file.name for file, total in zip(by_size, totals, strict=True) if total <= most}
        for listed in self.manifest.files:
            if listed.name not in read:
                continue
            with self.open_file(listed.name) as file:
                found = file_digest(file)
            if found != listed.sha256:
                return NotGenuine(listed.name, f"its digest is {found}; what was signed is {listed.sha256}")
        return None

    def _check_listing(self) -> None:
        """Raises NotGenuine for a file that is missing, not listed, not plain, or of another size."""
        sizes = {file.name: file.size for file in self.manifest.files}
        folders = {str(parent) for name in sizes for parent in PurePosixPath(name).parents}
        seen = set()
        for entry in walk_folder(self.path, lambda folder: str(folder.path) in folders, _refuse_unreadable):
            name = str(entry.path)
            if entry.kind is EntryKind.FOLDER and name in folders:
                continue
            if name not in sizes and name not in {MANIFEST, SIGNATURE}:
                raise NotGenuine(printable(name), f"is not listed in {MANIFEST}; nothing else may lie in a bundle")
            if entry.kind is not EntryKind.FILE:
                raise NotGenuine(name, "is no plain file")
            if name in sizes and entry.size != sizes[name]:
                raise NotGenuine(name, f"has {entry.size} bytes; the manifest lists {sizes[name]}")
            seen.add(name)
        for name in sizes:
            if name not in seen:
                raise NotGenuine(name, "is missing")


def require_version(data: bytes, place: str, what: str, key: str) -> None:
    """Raises NotGenuine if the document's value at `key` says that it has another version.

    It is checked before the signature, which other versions computed over other bytes. It accepts a document that
    cannot be parsed, which the caller has to refuse. Receipts of version 1 did not have the key.
    """
    try:
        document = parse_json(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    version = document.get(key, 1 if "signature" in document else FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise NotGenuine(place, unreadable_version(what, version))


def parse_model(kind: type[M], value: object, place: str) -> M:
    """Returns a value as a model. Raises NotGenuine if it is not valid."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = field_errors(error)[0]
        at = " ".join(printable(str(part), 80) for part in first.path)
        raise NotGenuine(f"{place} {at}".strip(), first.what) from None


def _read_signature(path: Path) -> tuple[bytes, str]:
    """Returns the public key and the signed digest in `manifest.sig`, after verifying the signature."""
    data = read_file(path, SIGNATURE, _SIGNATURE_SIZE)
    lines = data.decode("ascii", "replace").split("\n")
    shape = [2 * KEY_BYTES, 71, 2 * SIGNATURE_BYTES, 0]
    digits = "".join(lines).replace("sha256:", "", 1)
    if [len(line) for line in lines] != shape or not set(digits) <= set("0123456789abcdef"):
        raise NotGenuine(SIGNATURE, "is not a key, a digest and a signature, each on a line")
    public, named, signature = bytes.fromhex(lines[0]), lines[1], bytes.fromhex(lines[2])
    if not named.startswith("sha256:") or not verify_signature(
        public, signature, (_SIGNATURE_CONTEXT + named + "\n").encode()
    ):
        raise NotGenuine(SIGNATURE, "its signature is not that of its key and digest")
    return public, named


def read_file(root: Path, name: str, limit: int) -> bytes:
    """Returns the bytes of a regular file of at most `limit` bytes. Raises NotGenuine for others, also for links."""
    with _open(root, name) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise NotGenuine(name, f"is longer than {limit} bytes")
    return data


def _open(root: Path, name: str) -> BufferedReader:
    """Opens a regular file for reading. It refuses links, and does not block on a pipe."""
    try:
        handle = os.open(root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise NotGenuine(
            name, f"cannot be read: {printable(getattr(error, 'strerror', None) or 'no such name')}"
        ) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotGenuine(name, "is no plain file")
    return os.fdopen(handle, "rb")


def _refuse_unreadable(path: PurePosixPath, error: OSError) -> NoReturn:
    place = f"{printable(str(path))}/" if path.name else "the bundle"
    raise NotGenuine(place, f"cannot be read: {error.strerror}")
