"""The layout of a bundle: the names of its files, and the manifest that lists them."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.domain.ids import Digest
from orchestrator.domain.versions import FORMAT_VERSION
from orchestrator.intake.manifest import Slug

MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
CONTEST = "contest.jsonl"
BLOBS = "blobs.bin"
BLOB_INDEX = "blobs.jsonl"

LEDGER = "ledger.jsonl"
RESULTS = "results.json"
PICTURES = "pictures.jsonl"
CELLS = "cells.jsonl"
ROUND = "round.json"
ATTACKS = "attacks.jsonl"
SECRET = "secret"  # noqa: S105  a file's name

MAX_DOCUMENT_BYTES = 256 * 1024**2
"""The largest JSON document, in bytes."""
MAX_FILE_BYTES = 64 * 1024**3
MAX_BUNDLE_BYTES = 256 * 1024**3
MAX_REHASHED_BYTES = 1024**3
"""How many bytes of files are hashed after a failed check, to find out which file was altered."""
MAX_ROUNDS = 10_000

BundleKind = Literal["sealed", "full"]

_ROUND_FILES: dict[str, tuple[str, ...]] = {
    "sealed": (LEDGER, ROUND, PICTURES, CELLS, RESULTS),
    "full": (LEDGER, SECRET, PICTURES, CELLS, ATTACKS, RESULTS),
}


class _BundleModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FilePart(_BundleModel):
    """One file."""

    name: Annotated[str, Field(min_length=1, max_length=300)]
    sha256: Digest
    size: Annotated[int, Field(ge=0, le=MAX_FILE_BYTES)]


class RoundPart(_BundleModel):
    """One task of one round; `head` is the hash of the last entry of its ledger."""

    round: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,99}$")]
    task: Slug
    head: Digest

    @property
    def folder(self) -> str:
        """The folder of its files in the bundle."""
        return f"rounds/{self.round}/{self.task}"


class BundleManifest(_BundleModel):
    """`manifest.json`, which is signed. `key` is the public key in hex, `head` that of the contest's ledger."""

    sparring_bundle: Literal[2] = FORMAT_VERSION
    kind: BundleKind
    pictures: bool
    """Whether a full bundle also holds the pictures and the adversarial examples."""
    contest: Slug
    software: Annotated[str, Field(max_length=40)]
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    head: Digest
    rounds: Annotated[list[RoundPart], Field(max_length=MAX_ROUNDS)]
    files: Annotated[list[FilePart], Field(max_length=8 * MAX_ROUNDS)]


def expected_files(kind: BundleKind, rounds: Iterable[RoundPart]) -> list[str]:
    """Returns the names of all files of a bundle except the manifest and its signature, sorted."""
    names = [f"{part.folder}/{name}" for part in rounds for name in _ROUND_FILES[kind]]
    return sorted([CONTEST, *names, *((BLOBS, BLOB_INDEX) if kind == "full" else ())])
