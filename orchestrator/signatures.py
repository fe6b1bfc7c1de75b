"""Signatures of bundles and receipts: Ed25519, by the `cryptography` library."""

import hashlib
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from orchestrator.errors import StoreFault

KEY_BYTES = 32
SIGNATURE_BYTES = 64
_LOST_REMEDY = "put it back from a copy of the folder, see `sparring explain seasons`"


class SigningKey:
    """The organizers' key. Who holds it can speak in their name: its file is readable by its owner only."""

    def __init__(self, private: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private)

    @classmethod
    def read_file(cls, path: Path) -> "SigningKey":
        """Returns the key in a file. Raises StoreFault when it is lost or damaged: no other can take its place."""
        try:
            private = path.read_bytes()
        except FileNotFoundError:
            raise StoreFault(f"{path} is missing: {_LOST_REMEDY}") from None
        except OSError as error:
            raise StoreFault(f"{path} cannot be read: {error.strerror or error}; make it readable") from error
        if len(private) != KEY_BYTES:
            raise StoreFault(f"{path} is damaged: {len(private)} bytes, expected {KEY_BYTES}; {_LOST_REMEDY}")
        return cls(private)

    @classmethod
    def read_or_generate(cls, path: Path) -> "SigningKey":
        """Returns the key in a file, drawn where there is none yet. Raises StoreFault when it cannot be kept.

        An empty file is one whose drawing was killed: nothing was signed yet.
        """
        try:
            with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                if not file.read(1):
                    new = Ed25519PrivateKey.generate()
                    file.write(new.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()))
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise StoreFault(f"{path} cannot be read or written: {error}") from error
        return cls.read_file(path)

    @property
    def public_key(self) -> bytes:
        """The 32 bytes that others check signatures with."""
        return self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @property
    def fingerprint(self) -> str:
        """What people compare: see `fingerprint`."""
        return fingerprint(self.public_key)

    def sign(self, data: bytes) -> bytes:
        """Returns the 64 bytes of the signature."""
        return self._key.sign(data)


def fingerprint(public: bytes) -> str:
    """Returns `sha256:` and 64 hex digits, the digest of a public key."""
    return "sha256:" + hashlib.sha256(public).hexdigest()


def verify_signature(public: bytes, signature: bytes, data: bytes) -> bool:
    """Returns whether the holder of this public key signed these bytes."""
    if len(public) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except InvalidSignature:
        return False
    return True
