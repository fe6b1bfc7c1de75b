"""What an archive from strangers holds, member by member, and how a reader refuses it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

PIECE_BYTES = 1024 * 1024
"""The most bytes of a file that are held at a time."""
PACK_PLAINLY = "pack it again with a plain tar or zip"


class MalformedArchive(Exception):
    """The bytes are no archive that is read here; the message says why, and `remedy` what to do."""

    def __init__(self, what: str, remedy: str = PACK_PLAINLY) -> None:
        super().__init__(what)
        self.remedy = remedy


class MemberKind(StrEnum):
    """What a member is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "symbolic link"
    HARD_LINK = "hard link"
    CHARACTER_DEVICE = "character device"
    BLOCK_DEVICE = "block device"
    FIFO = "FIFO"


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of an archive: hostile in every field. `pax` are its extended records that are not used here."""

    name: bytes
    kind: MemberKind
    mode: int
    size: int
    link: bytes = b""
    pax: Mapping[str, bytes] = field(default_factory=dict)
