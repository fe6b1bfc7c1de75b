"""Signs bundles and receipts, and verifies their signatures: Ed25519, by the `cryptography` library."""

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
    """The organizers' private key. Everybody who has it can sign in their name, so only its owner can read its file."""

    def __init__(self, private: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(private)

    @classmethod
    def read_file(cls, path: Path) -> "SigningKey":
        """Returns the key in a file. Raises StoreFault if it is lost or damaged, since no other key can replace it."""
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
        """Returns the key in a file, and generates one if there is none yet. Raises StoreFault if it cannot be kept.

        If the file is empty, the process that generated the key was killed, and nothing was signed with it yet.
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
        """The 32 bytes of the public key, with which others verify signatures."""
        return self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the public key, which people compare: see `fingerprint`."""
        return fingerprint(self.public_key)

    def sign(self, data: bytes) -> bytes:
        """Returns the 64 bytes of the signature."""
        return self._key.sign(data)


def fingerprint(public: bytes) -> str:
    """Returns the digest of a public key: `sha256:` and 64 hexadecimal digits."""
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
