"""Reads the files in a zip of pictures from strangers, one after another, without unpacking to disk (rule C2).

Names that lead out of the zip, links, duplicates and names that differ in case only are problems; `archives.zip_stream`
reads the zip itself. One common folder may hold everything, for example if somebody packed the folder and not its
contents. Files of macOS and Windows are skipped (`__MACOSX`, `.DS_Store`, `._*`, `Thumbs.db`, `desktop.ini`).
"""

import io
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from orchestrator.archives.decompress import RatioLimit, SizeLimit
from orchestrator.archives.member_paths import PathRefused, UsedPaths, safe_path
from orchestrator.archives.members import PACK_PLAINLY, MalformedArchive, Member, MemberKind
from orchestrator.archives.zip_stream import ZipStream
from orchestrator.picture_files.problems import ProblemList

PACK_REMEDY = "pack it again: `zip -r set.zip images` in the folder that holds images/"
_MAX_RATIO = 100
_FREE_BYTES = 1024**2
_FILE_BYTES, _METADATA_BYTES = 4, 64 * 1024
_LEFT_BY_TOOLS = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini"})


@dataclass(frozen=True, slots=True)
class PictureBounds:
    """The limits of a zip of pictures.

    Attributes:
        members: the largest number of entries, folders included.
        file_bytes: the largest file of a picture, in bytes.
        total_bytes: the largest zip, and the largest total of its unpacked contents, in bytes.
        unchecked_bytes: how many unpacked bytes are allowed before the ratio to packed bytes may be at most 100.
    """

    members: int
    file_bytes: int
    total_bytes: int
    unchecked_bytes: int

    @classmethod
    def of(cls, count: int, values: int) -> "PictureBounds":
        """Returns the limits for `count` pictures of `values` values: 4 bytes per value and 64 KiB of metadata each."""
        file_bytes = _METADATA_BYTES + _FILE_BYTES * values
        return cls(3 * count + 64, file_bytes, _FREE_BYTES + count * file_bytes, _FREE_BYTES + count * values)


class ZippedFile:
    """One file in a zip. It can only be read inside the call of `visit`. `name` is without the common folder."""

    def __init__(self, name: str, size: int, stream: ZipStream) -> None:
        self.name, self.size = name, size
        self._stream = stream

    def read(self) -> bytes:
        """Returns its `size` bytes. Raises MalformedArchive if their number or checksum is wrong."""
        return b"".join(self._stream.content())


def visit_files(
    file: BinaryIO,
    bounds: PictureBounds,
    roots: Collection[str],
    problems: ProblemList,
    visit: Callable[[ZippedFile], None],
) -> bool:
    """Calls `visit` with every file of a zip, in order, and adds what is wrong to `problems`.

    Returns whether the zip was read to its end: a malformed zip is not.

    Args:
        file: the zip.
        bounds: the limits. A larger zip is not read.
        roots: the names that are expected at the top, by which the common folder is recognised.
        problems: collects the problems.
        visit: called with each file.
    """
    size = file.seek(0, io.SEEK_END)
    if size > bounds.total_bytes:
        problems.add("archive", f"{size} bytes, at most {bounds.total_bytes}", "leave out what is not asked for")
        return False
    limits = RatioLimit(_MAX_RATIO, bounds.unchecked_bytes), SizeLimit(bounds.total_bytes)
    stream = ZipStream(file, size, bounds.members, limits)
    names = _Names(frozenset(roots))
    place: str | bytes = "archive"
    try:
        for member in stream:
            place = member.name
            try:
                name = names.name_of(member)
            except PathRefused as error:
                problems.add(member.name, str(error), error.remedy)
                continue
            if name is not None:
                visit(ZippedFile(name, member.size, stream))
    except MalformedArchive as error:
        problems.add(place, str(error), PACK_REMEDY if error.remedy == PACK_PLAINLY else error.remedy)
        return False
    return True


class _Names:
    """Converts names of members to names inside the common folder."""

    def __init__(self, roots: frozenset[str]) -> None:
        self._roots = roots
        self._used = UsedPaths()
        self._folder: str | None = None
        """The common folder, "" if there is none, None as long as it is unknown."""

    def name_of(self, member: Member) -> str | None:
        """Returns the name of a file; None for a folder, and for files that are skipped. Raises PathRefused."""
        path = safe_path(member.name)
        if member.kind not in {MemberKind.FILE, MemberKind.FOLDER}:
            raise PathRefused(f"a {member.kind}", "put the file itself there")
        if not path.parts:
            if member.kind is MemberKind.FILE:
                raise PathRefused("a file without a name", "remove it")
            return None
        self._used.add(path, folder=member.kind is MemberKind.FOLDER)
        left_behind = path.name.startswith("._") or not _LEFT_BY_TOOLS.isdisjoint(path.parts)
        return None if member.kind is MemberKind.FOLDER or left_behind else self._below_folder(path)

    def _below_folder(self, path: PurePosixPath) -> str:
        if self._folder is None:
            if path.parts[0] in self._roots:
                self._folder = ""
            elif self._roots & set(path.parts[1:2]):
                self._folder = path.parts[0]
        if not self._folder:
            return str(path)
        if path.parts[0] != self._folder:
            raise PathRefused(f"outside the folder {self._folder}/, which holds the others", "pack one folder")
        return str(PurePosixPath(*path.parts[1:]))
