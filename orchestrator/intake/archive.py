"""Unpacks a stranger's submission in one file: a package of `sparring submission pack`, or a plain tar, tar.gz or zip.

The file is read once, from front to back, into a new folder that is removed afterwards. Only plain files are created,
with checked names, with O_EXCL, and with modes of our own, so nothing that is written can lead elsewhere. Every number
is bounded while the bytes are read, so that a decompression bomb costs no more than the bounds allow. docs/packing.md
lists the bounds.
"""

import hashlib
import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from orchestrator.archives.decompress import PieceReader, RatioLimit, SizeLimit, decompressed, with_observers
from orchestrator.archives.member_paths import PathRefused, UsedPaths, safe_path
from orchestrator.archives.members import PIECE_BYTES, MalformedArchive, Member, MemberKind
from orchestrator.archives.regular_file import open_regular_file
from orchestrator.archives.zip_stream import ZipStream
from orchestrator.domain.text import printable
from orchestrator.errors import InfrastructureFault, Problem, Rejected, first_problems
from orchestrator.intake import manifest, package
from orchestrator.intake.ignored_paths import excluded_part
from orchestrator.intake.package import IMAGE, SOURCE, Package, PackedFile
from orchestrator.intake.tar_stream import TarStream
from orchestrator.tar_format import BLOCK_BYTES

_PACK_REMEDY = "make it with `sparring submission pack`, and change nothing in it"
_OTHER_FORMATS = {b"\xfd7zXZ": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7z", b"Rar!": "rar"}
_REMEDIES = {
    MemberKind.LINK: "put the file itself there",
    MemberKind.HARD_LINK: "pack it twice (GNU tar: --hard-dereference)",
}


@dataclass(frozen=True, slots=True)
class ArchiveBounds:
    """The bounds of an archive. Sizes are bytes after unpacking."""

    source: int = 2 * 1024**3
    image: int = 20 * 1024**3
    members: int = 10_000
    ratio: int = 100
    unchecked_bytes: int = 32 * 1024**2
    """The first bytes, for which the ratio is not checked."""


@dataclass(frozen=True, slots=True)
class UnpackedArchive:
    """An unpacked archive: the submission's folder, and the folder of an OCI image layout if there is one.

    `digest` is the archive's own digest; `declared_image` is the id that the image has according to the package.
    `left_out` are the paths that were not unpacked because of their names.
    """

    source: Path
    image: Path | None
    digest: str
    declared_image: str = ""
    left_out: tuple[str, ...] = ()


@contextmanager
def open_archive(path: Path, workspace: Path, bounds: ArchiveBounds | None = None) -> Iterator[UnpackedArchive]:
    """Unpacks an archive into a new folder below `workspace`, which is removed on exit.

    Raises:
        UsageError: there is no such file.
        Rejected: with all its problems, as far as it could be read.
        InfrastructureFault: the folder cannot be written.
    """
    try:
        workspace.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".incoming-", dir=workspace))
    except OSError as error:
        raise InfrastructureFault(f"cannot write below {workspace}: {error}; correct this and try again") from error
    try:
        yield _unpack(path, folder, bounds or ArchiveBounds())
    finally:
        shutil.rmtree(folder)


def _unpack(path: Path, folder: Path, bounds: ArchiveBounds) -> UnpackedArchive:
    checksum = hashlib.sha256()
    unpacker = _Unpacker(folder, bounds)
    source = folder
    with open_regular_file(path) as file:
        try:
            unpacker.unpack_members(_member_stream(file, bounds, checksum.update))
            source = unpacker.finish()
        except MalformedArchive as error:
            unpacker.add_problem(str(error), error.remedy)
        except OSError as error:
            raise InfrastructureFault(
                f"cannot unpack into {folder}: {error}; free space, or correct this, and try again"
            ) from error
    if unpacker.problems:
        raise Rejected(f"archive {printable(path.name)}", first_problems(unpacker.problems, "archive"))
    image = folder / IMAGE
    return UnpackedArchive(
        source=source,
        image=image if unpacker.package and image.is_dir() else None,
        digest=f"sha256:{checksum.hexdigest()}",
        declared_image=unpacker.package.image if unpacker.package else "",
        left_out=tuple(sorted(unpacker.left_out)),
    )


def _member_stream(file: BinaryIO, bounds: ArchiveBounds, watch: Callable[[bytes], object]) -> TarStream | ZipStream:
    """Returns the stream of an archive's members; passes the archive's bytes to `watch`.

    Raises:
        MalformedArchive: the file is no tar, tar.gz or zip.
    """
    head = file.read(BLOCK_BYTES)
    file.seek(0)
    pieces = with_observers(iter(lambda: file.read(PIECE_BYTES), b""), watch)
    ratio = RatioLimit(bounds.ratio, bounds.unchecked_bytes)
    most = SizeLimit(bounds.source + bounds.image + 4 * BLOCK_BYTES * bounds.members)
    if head.startswith(b"PK"):
        size = sum(len(piece) for piece in pieces)
        return ZipStream(file, size, bounds.members, (ratio, most))
    if head.startswith(b"\x1f\x8b"):
        pieces = with_observers(decompressed(with_observers(pieces, ratio.add_input)), ratio.add_output)
    elif head[257:262] != b"ustar":
        known = next((name for magic, name in _OTHER_FORMATS.items() if head.startswith(magic)), "")
        format_text = f"a {known} archive" if known else "neither a tar, a tar.gz nor a zip"
        raise MalformedArchive(format_text, "pack it with `sparring submission pack`, or as one of these")
    return TarStream(PieceReader(with_observers(pieces, most.add_output)))


@dataclass
class _Unpacker:
    """Writes the members of one archive into a folder, and collects problems."""

    folder: Path
    bounds: ArchiveBounds
    problems: list[Problem] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    package: Package | None = None
    _place: str = "archive"
    _used_paths: UsedPaths = field(default_factory=UsedPaths)
    _unseen_files: dict[str, PackedFile] = field(default_factory=dict)
    _total_sizes: Counter[str] = field(default_factory=Counter)

    def add_problem(self, what: str, remedy: str) -> None:
        """Adds a problem with the current member."""
        self.problems.append(Problem(self._place, printable(what), remedy))

    def unpack_members(self, stream: TarStream | ZipStream) -> None:
        """Writes every member; after the first problem, only checks them.

        Raises:
            MalformedArchive: the rest of the archive cannot be read.
        """
        for number, member in enumerate(stream, start=1):
            self._place = printable(member.name, 120)
            if number > self.bounds.members:
                raise MalformedArchive(f"more than {self.bounds.members} members", "leave out what is not needed")
            if number == 1 and member.name == package.FILE_NAME.encode():
                self._open_package(member, stream)
                continue
            try:
                self._unpack_member(member, stream)
            except PathRefused as error:
                self.add_problem(str(error), error.remedy)

    def finish(self) -> Path:
        """Returns the folder that holds the manifest; adds problems for what is missing."""
        self._place = "archive"
        for path in self._unseen_files:
            self.problems.append(
                Problem(printable(path, 120), f"listed in {package.FILE_NAME}, but missing", _PACK_REMEDY)
            )
        if self.problems:
            return self.folder
        if self.package is not None:
            return self._with_manifest(self.folder / SOURCE)
        inside = list(self.folder.iterdir())
        if len(inside) == 1 and inside[0].is_dir():
            return self._with_manifest(inside[0])
        return self._with_manifest(self.folder)

    def _with_manifest(self, folder: Path) -> Path:
        if not (folder / manifest.FILE_NAME).is_file():
            if (folder / "manifest.json").is_file() or (folder / "oci-layout").is_file():
                self.add_problem(
                    "this is an image, not a submission", "pack its folder: `sparring submission pack --image TAG`"
                )
            else:
                self.add_problem(f"no {manifest.FILE_NAME} in it", "pack the folder that holds it")
        return folder

    def _open_package(self, member: Member, stream: TarStream | ZipStream) -> None:
        if member.kind is not MemberKind.FILE or member.size > package.MAX_BYTES:
            raise MalformedArchive(f"{member.size} bytes, at most {package.MAX_BYTES}", _PACK_REMEDY)
        self.package = package.parse_package(b"".join(stream.content()))
        self._unseen_files = {each.path: each for each in self.package.members}

    def _unpack_member(self, member: Member, stream: TarStream | ZipStream) -> None:
        """Writes one member, or skips it if its name is excluded.

        Raises:
            PathRefused: its name or kind is refused, or it differs from what the package lists.
            MalformedArchive: it exceeds a bound, or its bytes are malformed.
        """
        path = safe_path(member.name)
        if self.package is None and (out := excluded_part(path)):
            self.left_out.add(str(out))
            return
        self._check_member(path, member)
        expected = self._expected(path, member)
        if self.problems or not path.parts:
            return
        if member.kind is MemberKind.FOLDER:
            (self.folder / path).mkdir(parents=True, exist_ok=True)
            return
        found = self._write(path, member, stream.content())
        if expected is not None and found != expected.sha256:
            raise PathRefused(f"its SHA-256 is {found}, {package.FILE_NAME} says {expected.sha256}", _PACK_REMEDY)

    def _check_member(self, path: PurePosixPath, member: Member) -> None:
        """Raises PathRefused if a member may not be written, MalformedArchive if it exceeds a bound."""
        if member.kind not in {MemberKind.FILE, MemberKind.FOLDER}:
            raise PathRefused(f"a {member.kind}", _REMEDIES.get(member.kind, "remove it"))
        if path.parts:
            self._used_paths.add(path, folder=member.kind is MemberKind.FOLDER)
        elif member.kind is MemberKind.FILE:
            raise PathRefused("a file without a name", "remove it")
        if self.package is None and str(path) == package.FILE_NAME:
            raise PathRefused("not the first in the archive", _PACK_REMEDY)
        self._check_size(path, member.size)

    def _check_size(self, path: PurePosixPath, size: int) -> None:
        part = IMAGE if self.package is not None and path.parts[:1] == (IMAGE,) else SOURCE
        most = self.bounds.image if part == IMAGE else self.bounds.source
        self._total_sizes[part] += size
        if self._total_sizes[part] > most:
            raise MalformedArchive(f"more than {most} bytes in {part} files", "leave out what playing does not need")

    def _expected(self, path: PurePosixPath, member: Member) -> PackedFile | None:
        """Returns the package's record of a file, None for a plain archive. Raises PathRefused if they differ."""
        if self.package is None:
            return None
        expected = self._unseen_files.pop(str(path), None)
        if expected is None or path.parts[:1] not in {(SOURCE,), (IMAGE,)} or member.kind is MemberKind.FOLDER:
            raise PathRefused(f"not listed in {package.FILE_NAME}", _PACK_REMEDY)
        if expected.size != member.size:
            raise PathRefused(f"{member.size} bytes, {package.FILE_NAME} says {expected.size}", _PACK_REMEDY)
        return expected

    def _write(self, path: PurePosixPath, member: Member, content: Iterator[bytes]) -> str:
        """Writes a new file; returns the SHA-256 of its bytes in hexadecimal."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o755 if member.mode & stat.S_IXUSR else 0o644
        checksum = hashlib.sha256()
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
            for piece in with_observers(content, checksum.update):
                file.write(piece)
        return checksum.hexdigest()
