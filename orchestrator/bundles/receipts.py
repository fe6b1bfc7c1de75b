"""The receipt that a team gets for its submission. The organizers sign it, and anybody can verify it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.bundles.reader import parse_model, read_file, require_version
from orchestrator.domain.ids import canonical_json, parse_json
from orchestrator.domain.text import printable
from orchestrator.domain.versions import FORMAT_VERSION
from orchestrator.errors import NotGenuine
from orchestrator.signatures import SIGNATURE_BYTES, SigningKey, fingerprint, verify_signature

MAX_RECEIPT_BYTES = 64 * 1024
_UNSIGNED = "00" * SIGNATURE_BYTES


class Receipt(BaseModel):
    """A receipt for a submission, signed with the organizers' key, so that nobody can deny it later.

    Everything except `signature` is signed, as canonical JSON; `key` is the public key. `entry` is the number of the
    submission's entry in the contest's ledger, and `head` that entry's hash: if the entry is removed, the ledger has
    another hash there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    sparring_receipt: Literal[2] = FORMAT_VERSION
    contest: str
    submission: str
    team: str
    task: str
    side: str
    digest: str
    received: str
    entry: int
    head: str
    attempt: int
    attempts_left: int
    warnings: Annotated[tuple[str, ...], Field(strict=False)]
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]

    @classmethod
    def create_signed(cls, key: SigningKey, **fields: object) -> "Receipt":
        """Returns a signed receipt with these fields, which are all except `key` and `signature`."""
        unsigned = cls.model_validate(fields | {"key": key.public_key.hex(), "signature": _UNSIGNED})
        return unsigned.model_copy(update={"signature": key.sign(unsigned.signed_bytes()).hex()})

    def signed_bytes(self) -> bytes:
        """Returns the bytes that are signed."""
        return canonical_json(self.model_dump(mode="json", exclude={"signature"})).encode()

    def document(self) -> dict[str, Any]:
        """Returns the receipt as JSON for its file: its keys in order, the signature last."""
        fields: dict[str, Any] = json.loads(self.signed_bytes())
        return fields | {"signature": self.signature}


@dataclass(frozen=True, slots=True)
class VerifiedReceipt:
    """A receipt whose signature is verified; `key` is the fingerprint of its key."""

    receipt: Receipt
    key: str


def encode_receipt(document: Any) -> bytes:
    """Returns the bytes of a receipt's file. Raises ValueError if the document is not JSON."""
    return (json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def verify_receipt(path: Path, key: str | None = None) -> VerifiedReceipt:
    """Verifies and returns a receipt. Raises NotGenuine if its signature is wrong, or not that of `key`."""
    name = path.name
    data = read_file(path.parent, name, MAX_RECEIPT_BYTES)
    require_version(data, printable(name), "receipt", "sparring_receipt")
    try:
        value = parse_json(data)
        same = encode_receipt(value) == data
    except (ValueError, RecursionError) as error:
        remedy = "give the receipt as the organizers sent it, or a bundle's folder"
        raise NotGenuine(printable(name), f"is no JSON: {printable(str(error), 120)}", remedy) from None
    body = parse_model(Receipt, value, name)
    if not same or list(value) != list(body.document()):
        raise NotGenuine(printable(name), "is not written as receipts are handed out")
    public = bytes.fromhex(body.key)
    if not verify_signature(public, bytes.fromhex(body.signature), body.signed_bytes()):
        raise NotGenuine(printable(name), "its signature is not that of its key and its text")
    found = fingerprint(public)
    if key is not None and found != key:
        raise NotGenuine(printable(name), f"signed by {found}, not by {printable(key, 80)}")
    return VerifiedReceipt(body, found)
