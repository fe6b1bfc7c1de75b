"""A submission's folder as it is built and packed: the same files both times, in one order, and nothing else.

What tools leave behind and where people keep credentials is left out, by name (`entry_names.LEFT_OUT`), and said so.
Links and special files are refused: what they mean depends on the machine.
"""

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from orchestrator.domain.text import printable
from orchestrator.errors import Problem, Rejected
from orchestrator.intake.archive import MAX_PROBLEMS, ArchiveBounds
from orchestrator.intake.archive_paths import PathRefused, UsedPaths, is_excluded, safe_path
from orchestrator.intake.tar_stream import BLOCK, PIECE_BYTES


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a folder, by its path in it."""

    path: PurePosixPath
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class SourceTree:
    """What a folder holds, sorted by path, and what was left out of it."""

    folder: Path
    files: tuple[SourceFile, ...]
    left_out: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The digest of every path, content and x bit."""
        whole = hashlib.sha256()
        for file in self.files:
            content = hashlib.sha256()
            for piece in self.read(file):
                content.update(piece)
            whole.update(content.digest() + (b"x" if file.executable else b"-") + str(file.path).encode() + b"\0")
        return f"sha256:{whole.hexdigest()}"

    def read(self, file: SourceFile) -> Iterator[bytes]:
        """Yields a file's bytes. Raises Rejected when it is not what it was when the folder was looked at."""
        path = self.folder / file.path
        left = file.size
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as opened:
                regular = stat.S_ISREG(os.fstat(handle).st_mode)
                while regular and (piece := opened.read(min(PIECE_BYTES, left + 1))):
                    left -= len(piece)
                    if left < 0:
                        break
                    yield piece
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            raise Rejected(f"folder {self.folder}", [Problem(str(file.path), what, "make it readable")]) from error
        if left:
            problem = Problem(str(file.path), "changed while it was read", "try again when nothing writes to it")
            raise Rejected(f"folder {self.folder}", [problem])


def scan_folder(folder: Path, bounds: ArchiveBounds | None = None) -> SourceTree:
    """Returns what a folder holds.

    Raises:
        Rejected: links, special files, names that cannot be packed, or more than is allowed; all of them named.
    """
    limits = bounds or ArchiveBounds()
    walk = _FolderScan(folder)
    files = sorted(walk.below(PurePosixPath()), key=lambda file: file.path.parts)
    size = sum(file.size for file in files)
    if size > limits.source or len(files) > limits.members:
        what = f"{size} bytes in {len(files)} files, at most {limits.source} in {limits.members}"
        walk.problems.append(Problem(str(folder), what, "leave out what playing does not need"))
    if walk.problems:
        hidden = len(walk.problems) - MAX_PROBLEMS
        more = [Problem(str(folder), f"and {hidden} more problems like these")] if hidden > 0 else []
        raise Rejected(f"folder {folder}", walk.problems[:MAX_PROBLEMS] + more)
    return SourceTree(folder, tuple(files), tuple(sorted(walk.left_out)))


class _FolderScan:
    """One look through a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken = UsedPaths()
        self.problems: list[Problem] = []
        self.left_out: list[str] = []

    def below(self, path: PurePosixPath) -> Iterator[SourceFile]:
        """Yields the files in a folder, and in those below it."""
        try:
            with os.scandir(self._folder / path) as found:
                entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            self._note(path, f"cannot be read: {error.strerror}", "make it readable")
            return
        for entry in entries:
            if is_excluded(entry.name):
                self.left_out.append(printable(str(path / entry.name), 120))
            elif entry.is_dir(follow_symlinks=False):
                if self._fits(path / entry.name, folder=True):
                    yield from self.below(path / entry.name)
            elif entry.is_file(follow_symlinks=False):
                if self._fits(path / entry.name, folder=False):
                    status = entry.stat(follow_symlinks=False)
                    yield SourceFile(path / entry.name, status.st_size, bool(status.st_mode & stat.S_IXUSR))
            elif entry.is_symlink():
                self._note(path / entry.name, "a symbolic link", "put the file itself there")
            else:
                self._note(path / entry.name, "neither a file nor a folder", "remove it")

    def _fits(self, path: PurePosixPath, *, folder: bool) -> bool:
        """Whether a path can be packed and read again elsewhere; notes why not."""
        try:
            self._taken.take(safe_path(os.fsencode(str(path))), folder=folder)
        except PathRefused as error:
            self._note(path, str(error), error.remedy)
            return False
        return True

    def _note(self, path: PurePosixPath, what: str, remedy: str) -> None:
        self.problems.append(Problem(printable(os.fsencode(str(path)), 120), what, remedy))


def tar_header(name: str, size: int, mode: int, time: int) -> bytes:
    """Returns the header of a file in a tar, the same for the same arguments. Owner and group are root."""
    found = tarfile.TarInfo(name)
    found.size, found.mode, found.mtime = size, mode, time
    return found.tobuf(tarfile.PAX_FORMAT)


def tar_members(tree: SourceTree, files: Sequence[SourceFile], prefix: str, time: int) -> Iterator[bytes]:
    """Yields files as members of a tar, without its end mark."""
    for file in files:
        yield tar_header(f"{prefix}{file.path}", file.size, 0o755 if file.executable else 0o644, time)
        yield from tree.read(file)
        yield bytes(-file.size % BLOCK)


def tar_end() -> bytes:
    """Returns what a tar ends with."""
    return bytes(2 * BLOCK)
