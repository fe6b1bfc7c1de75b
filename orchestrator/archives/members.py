"""The members of an archive from strangers, and the error for a malformed archive."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

PIECE_BYTES = 1024 * 1024
"""The largest piece of a file that is in memory at a time, in bytes."""
PACK_PLAINLY = "pack it again with a plain tar or zip"


class MalformedArchive(Exception):
    """An archive that cannot be read here; the message says why, and `remedy` what to do."""

    def __init__(self, what: str, remedy: str = PACK_PLAINLY) -> None:
        super().__init__(what)
        self.remedy = remedy


class MemberKind(StrEnum):
    """The kind of a member."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "symbolic link"
    HARD_LINK = "hard link"
    CHARACTER_DEVICE = "character device"
    BLOCK_DEVICE = "block device"
    FIFO = "FIFO"


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of an archive; every field is hostile input. `pax` has its extended records that are not used here."""

    name: bytes
    kind: MemberKind
    mode: int
    size: int
    link: bytes = b""
    pax: Mapping[str, bytes] = field(default_factory=dict)
