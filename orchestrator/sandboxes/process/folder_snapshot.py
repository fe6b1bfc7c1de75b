"""Copies a submission's folder to a name computed from its content, so that what was admitted is what plays."""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath, PurePosixPath

from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, Problem, Rejected
from orchestrator.folder_walk import EntryKind, FolderEntry, walk_folder
from orchestrator.sandboxes.linux.process_tree import ProcessTag
from orchestrator.sandboxes.linux.sandbox_owner import Owner, OwnerState

MAX_FOLDER_BYTES = 2 * 1024**3
"""The most bytes a folder may hold."""
UNFINISHED_PREFIX = ".incoming-"
"""The prefix of the name of an unfinished copy."""
IGNORED_NAMES = frozenset({"__pycache__"})
_FORMAT = b"sparring folder 1\0"
_BLOCK = 1024 * 1024
_PROBLEMS_SHOWN = 20


def snapshot_folder(folder: Path, images: Path, command: Sequence[str]) -> tuple[str, Path, bool]:
    """Copies `folder` below `images`, read-only, unless there is such a copy already.

    Returns its digest, "sha256:" + 64 hexadecimal digits, the copy, and whether it is new. The digest covers each
    file's path, content and x bit, and the command, since another command makes another player; times, owners and empty
    folders do not count. It is computed from the copied bytes, so it matches the copy even if the folder changes
    meanwhile.

    Raises:
        Rejected: links, special files, files that cannot be read, or more than `MAX_FOLDER_BYTES` bytes; each named.
        BackendUnavailable: the copy cannot be written.
    """
    files, problems = _list_files(folder)
    if problems:
        raise Rejected(f"folder {folder}", problems)
    try:
        images.mkdir(parents=True, exist_ok=True)
        incoming = images / f"{UNFINISHED_PREFIX}{ProcessTag.create(Owner.current_process(), '').text}"
        incoming.mkdir(0o700)
    except OSError as error:
        raise BackendUnavailable(
            f"cannot write below {images}: {error}; free space or choose another workspace"
        ) from error
    try:
        digest = _copy_files(folder, files, incoming, command)
        snapshot = images / digest
        new = not snapshot.is_dir()
        if new:
            _make_read_only(incoming)
            new = _publish(incoming, snapshot)
    except OSError as error:
        raise BackendUnavailable(f"cannot copy {folder} to {images}: {error}; correct this and try again") from error
    finally:
        if incoming.is_dir():
            remove_folder(incoming)
    return f"sha256:{digest}", snapshot, new


def remove_abandoned(images: Path, here: Owner) -> int:
    """Removes the unfinished copies of dead processes below `images`; returns how many."""
    removed = 0
    for folder in images.glob(f"{UNFINISHED_PREFIX}*"):
        tag = ProcessTag.parse(folder.name.removeprefix(UNFINISHED_PREFIX))
        if tag is None or tag.owner(here).state_seen_by(here) is OwnerState.DEAD:
            remove_folder(folder)
            removed += 1
    return removed


def remove_folder(folder: Path) -> None:
    """Removes a folder, even if its content was made unreadable; it never follows links."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except PermissionError:
        for inner in _folders_from(folder):
            inner.chmod(0o700)
        shutil.rmtree(folder)


def _folders_from(folder: Path) -> Iterator[Path]:
    """Yields a folder and the folders below it, each before it is read, so that the caller can correct its mode."""
    yield folder
    for entry in walk_folder(folder):
        if entry.kind is EntryKind.FOLDER:
            yield folder / entry.path


def _list_files(folder: Path) -> tuple[list[Path], list[Problem]]:
    """Returns the relative paths of the regular files below `folder`, sorted by their bytes, and the problems."""
    files: list[Path] = []
    problems: list[Problem] = []
    size = 0

    def add_unreadable(path: PurePosixPath, error: OSError) -> None:
        place = _printable_path(folder / path)
        problems.append(Problem(place, f"cannot be read: {error.strerror}", "make it readable"))

    for entry in walk_folder(folder, lambda entry: entry.path.name not in IGNORED_NAMES, add_unreadable):
        if entry.path.name in IGNORED_NAMES or entry.kind is EntryKind.FOLDER:
            continue
        if entry.kind is EntryKind.FILE and os.access(folder / entry.path, os.R_OK):
            files.append(Path(entry.path))
            size += entry.size
        else:
            problems.append(_entry_problem(entry))
    if size > MAX_FOLDER_BYTES:
        problems.append(
            Problem(
                _printable_path(folder),
                f"{size} bytes, at most {MAX_FOLDER_BYTES} are allowed",
                "leave out what is not needed",
            )
        )
    hidden = len(problems) - _PROBLEMS_SHOWN
    if hidden > 0:
        problems = [*problems[:_PROBLEMS_SHOWN], Problem(_printable_path(folder), f"{hidden} more problems like these")]
    return sorted(files, key=os.fsencode), problems


def _entry_problem(entry: FolderEntry) -> Problem:
    place = _printable_path(entry.path)
    if entry.kind is EntryKind.LINK:
        return Problem(place, "a symbolic link", "put the file itself there")
    if entry.kind is EntryKind.FILE:
        return Problem(place, "cannot be read", "make it readable")
    return Problem(place, "neither a file nor a folder", "remove it")


def _printable_path(path: PurePath) -> str:
    return printable(os.fsencode(path))


def _copy_files(folder: Path, files: Sequence[Path], target: Path, command: Sequence[str]) -> str:
    checksum = hashlib.sha256(_FORMAT)
    remaining = MAX_FOLDER_BYTES
    for file in files:
        content, executable, size = _copy_file(folder / file, target / file, remaining)
        remaining -= size
        checksum.update(content + (b"x" if executable else b"-") + os.fsencode(file) + b"\0")
    checksum.update(b"\0" + b"".join(os.fsencode(argument) + b"\0" for argument in command))
    return checksum.hexdigest()


def _copy_file(source: Path, target: Path, most: int) -> tuple[bytes, bool, int]:
    """Copies one file; returns its SHA-256, whether it is executable, and its size."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # Since the folder was listed, a file may have become a link or a FIFO.
    handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb", buffering=0) as reader, target.open("xb") as writer:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Rejected(
                f"file {_printable_path(source)}",
                [Problem(_printable_path(source), "changed while it was read", "try again")],
            )
        content = hashlib.sha256()
        size = 0
        while block := reader.read(_BLOCK):
            size += len(block)
            if size > most:
                raise Rejected(
                    f"file {_printable_path(source)}",
                    [Problem(_printable_path(source), "grew while it was read", "try again")],
                )
            content.update(block)
            writer.write(block)
        executable = bool(status.st_mode & stat.S_IXUSR)
        os.fchmod(writer.fileno(), 0o555 if executable else 0o444)
    return content.digest(), executable, size


def _make_read_only(folder: Path) -> None:
    for inner in list(_folders_from(folder)):
        inner.chmod(0o555)


def _publish(incoming: Path, target: Path) -> bool:
    """Renames the copy to its final name, atomically; returns False if another orchestrator did so first."""
    try:
        incoming.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        return False
    return True
