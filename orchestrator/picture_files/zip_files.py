"""The files in a zip of pictures from strangers, one after the other: nothing is unpacked to disk (rule C2).

Names that lead elsewhere, links, duplicates and names that differ in case only are problems; the zip itself is read by
`archives.zip_stream`. One folder may hold everything, as where somebody packed the folder and not what is in it; what
macOS and Windows put into folders is passed over (`__MACOSX`, `.DS_Store`, `._*`, `Thumbs.db`, `desktop.ini`).
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
    """How much a zip of pictures may hold.

    Attributes:
        members: entries of the zip, folders included.
        file_bytes: of one picture's file.
        total_bytes: of the zip, and of everything in it after unpacking.
        unchecked_bytes: how much may come out before it may not be more than 100 times what went in.
    """

    members: int
    file_bytes: int
    total_bytes: int
    unchecked_bytes: int

    @classmethod
    def of(cls, count: int, values: int) -> "PictureBounds":
        """Returns the bounds for so many pictures of so many values: 4 bytes a value and 64 KiB of metadata each."""
        file_bytes = _METADATA_BYTES + _FILE_BYTES * values
        return cls(3 * count + 64, file_bytes, _FREE_BYTES + count * file_bytes, _FREE_BYTES + count * values)


class ZippedFile:
    """One file in a zip; it can be read while it is shown. `name` is without the common folder."""

    def __init__(self, name: str, size: int, stream: ZipStream) -> None:
        self.name, self.size = name, size
        self._stream = stream

    def read(self) -> bytes:
        """Returns its `size` bytes. Raises MalformedArchive where they are others."""
        return b"".join(self._stream.content())


def visit_files(
    file: BinaryIO,
    bounds: PictureBounds,
    roots: Collection[str],
    problems: ProblemList,
    visit: Callable[[ZippedFile], None],
) -> bool:
    """Shows every file of a zip to `visit`, in their order, and notes what is wrong.

    Returns whether it was read to its end: a zip that contradicts itself is not.

    Args:
        file: the zip.
        bounds: how much it may hold. A larger file is not read.
        roots: names at the top that are expected: the common folder is found by them.
        problems: takes what is wrong.
        visit: takes a file.
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
    """Turns the names of members into names below the common folder."""

    def __init__(self, roots: frozenset[str]) -> None:
        self._roots = roots
        self._used = UsedPaths()
        self._folder: str | None = None
        """The common folder, empty where there is none, None as long as that is open."""

    def name_of(self, member: Member) -> str | None:
        """Returns the name of a file; None for a folder and for what tools leave behind. Raises PathRefused."""
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
