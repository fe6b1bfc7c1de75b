"""A submission's folder, copied once and named by its content, so that what was admitted is what plays."""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.domain.text import printable
from orchestrator.errors import BackendUnavailable, Problem, Rejected
from orchestrator.sandboxes.linux.owner import Owner, OwnerState
from orchestrator.sandboxes.linux.process_tree import ProcessTag

MAX_FOLDER_BYTES = 2 * 1024**3
"""The most bytes a folder may hold."""
UNFINISHED_PREFIX = ".incoming-"
"""How the name of a copy begins that is not whole yet."""
IGNORED_NAMES = frozenset({"__pycache__"})
_FORMAT = b"sparring folder 1\0"
_BLOCK = 1024 * 1024
_PROBLEMS_SHOWN = 20


def snapshot_folder(folder: Path, images: Path, command: Sequence[str]) -> tuple[str, Path, bool]:
    """Copies `folder` below `images`, read-only, unless it is there already.

    Returns its digest, "sha256:" + 64 hexadecimal digits, the copy, and whether it is new. The digest covers each
    file's path, content and x bit, and the command, since another command makes another player; times, owners and empty
    folders do not count. It is computed from the bytes that were copied, so a folder that changes meanwhile cannot part
    the two.

    Raises:
        Rejected: links, special files, files that cannot be read, or more than `LARGEST` bytes; all of them named.
        BackendUnavailable: the copy cannot be written.
    """
    files, problems = _list_files(folder)
    if problems:
        raise Rejected(f"folder {folder}", problems)
    try:
        images.mkdir(parents=True, exist_ok=True)
        incoming = images / f"{UNFINISHED_PREFIX}{ProcessTag.fresh(Owner.current(), '').text}"
        incoming.mkdir(0o700)
    except OSError as error:
        raise BackendUnavailable(
            f"cannot write below {images}: {error}; free space or choose another workspace"
        ) from error
    try:
        digest = _copy_files(folder, files, incoming, command)
        kept = images / digest
        new = not kept.is_dir()
        if new:
            _make_read_only(incoming)
            new = _publish(incoming, kept)
    except OSError as error:
        raise BackendUnavailable(f"cannot copy {folder} to {images}: {error}; mend it and try again") from error
    finally:
        if incoming.is_dir():
            remove_folder(incoming)
    return f"sha256:{digest}", kept, new


def remove_abandoned(images: Path, here: Owner) -> int:
    """Removes the copies that killed processes left unfinished below `images`; returns how many."""
    removed = 0
    for folder in images.glob(f"{UNFINISHED_PREFIX}*"):
        tag = ProcessTag.parse(folder.name.removeprefix(UNFINISHED_PREFIX))
        if tag is None or tag.owner(here).life(here) is OwnerState.DEAD:
            remove_folder(folder)
            removed += 1
    return removed


def remove_folder(folder: Path) -> None:
    """Removes a folder, also where its content was made unreadable; links in it are removed, never followed."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except PermissionError:
        for inner in _walk_folders(folder):
            inner.chmod(0o700)
        shutil.rmtree(folder)


def _walk_folders(folder: Path) -> Iterator[Path]:
    """Each folder before what it holds, so that its mode can be mended first."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        yield here
        with os.scandir(here) as entries:
            waiting += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _list_files(folder: Path) -> tuple[list[Path], list[Problem]]:
    """The regular files below `folder`, relative and sorted by their bytes, and what is wrong."""
    files: list[Path] = []
    problems: list[Problem] = []
    size = 0
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as found:
                entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
            for entry in entries:
                path = Path(entry.path)
                if entry.name in IGNORED_NAMES:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_file(follow_symlinks=False) and os.access(path, os.R_OK):
                    files.append(path.relative_to(folder))
                    size += entry.stat(follow_symlinks=False).st_size
                else:
                    problems.append(_entry_problem(path.relative_to(folder), entry))
        except OSError as error:
            problems.append(Problem(_printable_path(here), f"cannot be read: {error.strerror}", "make it readable"))
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


def _entry_problem(path: Path, entry: "os.DirEntry[str]") -> Problem:
    if entry.is_symlink():
        return Problem(_printable_path(path), "a symbolic link", "put the file itself there")
    if entry.is_file(follow_symlinks=False):
        return Problem(_printable_path(path), "cannot be read", "make it readable")
    return Problem(_printable_path(path), "neither a file nor a folder", "remove it")


def _printable_path(path: Path) -> str:
    return printable(os.fsencode(path))


def _copy_files(folder: Path, files: Sequence[Path], target: Path, command: Sequence[str]) -> str:
    whole = hashlib.sha256(_FORMAT)
    left = MAX_FOLDER_BYTES
    for file in files:
        content, executable, size = _copy_file(folder / file, target / file, left)
        left -= size
        whole.update(content + (b"x" if executable else b"-") + os.fsencode(file) + b"\0")
    whole.update(b"\0" + b"".join(os.fsencode(word) + b"\0" for word in command))
    return whole.hexdigest()


def _copy_file(source: Path, target: Path, most: int) -> tuple[bytes, bool, int]:
    """Copies one file; returns its SHA-256, whether it is executable, and its size."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # The folder was looked at before: since then a file may have become a link or a FIFO.
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
    for inner in list(_walk_folders(folder)):
        inner.chmod(0o555)


def _publish(incoming: Path, kept: Path) -> bool:
    """Gives the copy its name, at once; returns False where another orchestrator did so first."""
    try:
        incoming.rename(kept)
    except OSError:
        if not kept.is_dir():
            raise
        return False
    return True
