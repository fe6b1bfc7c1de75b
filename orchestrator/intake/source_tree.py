"""The files of a submission's folder that are built and packed: the same files for both, in one order.

Files that tools leave behind, and files in which people keep credentials, are left out by name
(`ignored_paths.EXCLUDED_NAMES`) and listed. Links and special files are refused: what they mean depends on the machine.
"""

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from orchestrator.archives.member_paths import PathRefused, UsedPaths, safe_path
from orchestrator.archives.members import PIECE_BYTES
from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected, first_problems
from orchestrator.folder_walk import EntryKind, FolderEntry, walk_folder
from orchestrator.intake.archive import ArchiveBounds
from orchestrator.intake.ignored_paths import is_excluded
from orchestrator.tar_format import BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a folder; `path` is relative to the folder."""

    path: PurePosixPath
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class SourceTree:
    """The files of a folder, sorted by path, and the paths that were left out."""

    folder: Path
    files: tuple[SourceFile, ...]
    left_out: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The digest of every file's path, content and executable bit."""
        checksum = hashlib.sha256()
        for file in self.files:
            content = hashlib.sha256()
            for piece in self.read(file):
                content.update(piece)
            checksum.update(content.digest() + (b"x" if file.executable else b"-") + str(file.path).encode() + b"\0")
        return f"sha256:{checksum.hexdigest()}"

    def read(self, file: SourceFile) -> Iterator[bytes]:
        """Yields a file's bytes. Raises Rejected if it cannot be read, or changed since the folder was scanned."""
        path = self.folder / file.path
        left = file.size
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as stream:
                regular = stat.S_ISREG(os.fstat(handle).st_mode)
                while regular and (piece := stream.read(min(PIECE_BYTES, left + 1))):
                    left -= len(piece)
                    if left < 0:
                        break
                    yield piece
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            raise Rejected(f"folder {self.folder}", [Problem(str(file.path), reason, "make it readable")]) from error
        if left:
            change = Problem(str(file.path), "changed while it was read", "try again when nothing writes to it")
            raise Rejected(f"folder {self.folder}", [change])


def scan_folder(folder: Path, bounds: ArchiveBounds | None = None) -> SourceTree:
    """Returns the files of a folder.

    Raises:
        Rejected: with all links, special files, names that cannot be packed, and bounds that are exceeded.
    """
    limits = bounds or ArchiveBounds()
    scan = _FolderScan(folder)
    files = sorted(scan.files(), key=lambda file: file.path.parts)
    size = sum(file.size for file in files)
    if size > limits.source or len(files) > limits.members:
        problem = f"{size} bytes in {len(files)} files, at most {limits.source} in {limits.members}"
        scan.problems.append(Problem(str(folder), problem, "leave out what playing does not need"))
    if scan.problems:
        raise Rejected(f"folder {folder}", first_problems(scan.problems, str(folder)))
    return SourceTree(folder, tuple(files), tuple(sorted(scan.left_out)))


class _FolderScan:
    """One scan of a folder, which collects problems."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._used_paths = UsedPaths()
        self.problems: list[Problem] = []
        self.left_out: list[str] = []

    def files(self) -> Iterator[SourceFile]:
        """Yields the files below the folder that can be packed."""
        for entry in walk_folder(self._folder, self._is_entered, self._add_unreadable):
            if is_excluded(entry.path.name):
                self.left_out.append(printable(str(entry.path), 120))
            elif entry.kind is EntryKind.FILE:
                if self._is_packable(entry.path, folder=False):
                    yield SourceFile(entry.path, entry.size, entry.executable)
            elif entry.kind is EntryKind.LINK:
                self._add_problem(entry.path, "a symbolic link", "put the file itself there")
            elif entry.kind is EntryKind.OTHER:
                self._add_problem(entry.path, "neither a file nor a folder", "remove it")

    def _is_entered(self, entry: FolderEntry) -> bool:
        return not is_excluded(entry.path.name) and self._is_packable(entry.path, folder=True)

    def _is_packable(self, path: PurePosixPath, *, folder: bool) -> bool:
        """Returns whether a path can be packed and unpacked elsewhere; adds a problem if not."""
        try:
            self._used_paths.add(safe_path(os.fsencode(str(path))), folder=folder)
        except PathRefused as error:
            self._add_problem(path, str(error), error.remedy)
            return False
        return True

    def _add_unreadable(self, path: PurePosixPath, error: OSError) -> None:
        self._add_problem(path, f"cannot be read: {error.strerror}", "make it readable")

    def _add_problem(self, path: PurePosixPath, problem: str, remedy: str) -> None:
        self.problems.append(Problem(printable(os.fsencode(str(path)), 120), problem, remedy))


def tar_header(name: str, size: int, mode: int, time: int) -> bytes:
    """Returns a file's tar header, always the same for the same arguments. Owner and group are root."""
    found = tarfile.TarInfo(name)
    found.size, found.mode, found.mtime = size, mode, time
    return found.tobuf(tarfile.PAX_FORMAT)


def tar_members(tree: SourceTree, files: Sequence[SourceFile], prefix: str, time: int) -> Iterator[bytes]:
    """Yields the bytes of files as members of a tar, without its end mark."""
    for file in files:
        yield tar_header(f"{prefix}{file.path}", file.size, 0o755 if file.executable else 0o644, time)
        yield from tree.read(file)
        yield bytes(-file.size % BLOCK_BYTES)


def tar_end() -> bytes:
    """Returns the end mark of a tar."""
    return bytes(2 * BLOCK_BYTES)
