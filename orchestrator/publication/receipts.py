"""A receipt that a team got for its submission, checked."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.domain.ids import canonical_json
from orchestrator.domain.text import printable
from orchestrator.errors import NotGenuine
from orchestrator.publication.reading import model, read_file
from orchestrator.signatures import fingerprint, signed_by

LARGEST_RECEIPT = 64 * 1024


class ReceiptFile(BaseModel):
    """A receipt as it is handed out: everything but `signature` is signed, as canonical JSON; `key` is public."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    contest: str
    submission: str
    team: str
    task: str
    side: str
    digest: str
    received: str
    attempt: int
    left: int
    warnings: list[str]
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt that is signed by its key, which has this fingerprint."""

    body: ReceiptFile
    key: str


def verify(path: Path, key: str | None = None) -> Receipt:
    """Returns a receipt that is genuine. Raises NotGenuine where its signature does not fit, or another key signed."""
    name = path.name
    data = read_file(path.parent, name, LARGEST_RECEIPT)
    try:
        value = json.loads(data)
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        same = text.encode() == data
    except (ValueError, RecursionError) as error:
        raise NotGenuine(printable(name), f"is no JSON: {printable(str(error), 120)}") from None
    body = model(ReceiptFile, value, name)
    if not same or list(value) != [*sorted(set(value) - {"signature"}), "signature"]:
        raise NotGenuine(printable(name), "is not written as receipts are handed out")
    signed = canonical_json(body.model_dump(exclude={"signature"})).encode()
    public = bytes.fromhex(body.key)
    if not signed_by(public, bytes.fromhex(body.signature), signed):
        raise NotGenuine(printable(name), "its signature is not that of its key and its text")
    found = fingerprint(public)
    if key is not None and found != key:
        raise NotGenuine(printable(name), f"signed by {found}, not by {printable(key, 80)}")
    return Receipt(body, found)
