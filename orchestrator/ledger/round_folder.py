"""The output folder of a round: its ledger, blobs, secret and derived files, and its locks."""

import errno
import fcntl
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TextIO

from orchestrator import plugins
from orchestrator.errors import BackendUnavailable, Busy, Rejected, StoreFault, UsageError
from orchestrator.files import UNFINISHED_PREFIX, write_fault, write_once, write_whole
from orchestrator.ledger.stores.base import Blobs, Ledger

CONTEST_LEDGER = "contest.sqlite"
"""The ledger of a contest, two folders above those of its rounds."""
DATABASE = "database.json"
"""Replaces `CONTEST_LEDGER` if the ledger is in a database: has the database's URL, which may contain a password."""
SECRET_BYTES = 32
LOCK_WAIT_SECONDS = 300.0
"""Seconds to wait for another command that writes to a contest. Writing a large contest's results takes a minute."""
_LOCK_POLL_SECONDS = 0.02
"""Seconds between two attempts to lock a folder."""
_ROUND_LOCK_SECONDS = 0.2
"""Seconds to wait for a round's lock: `is_played` of another process may hold it for a moment."""
_DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})
"""Errors of the disk, as opposed to errors in the operator's arguments."""
_OWN_NAMES = frozenset(
    {
        ".gitignore",
        "blobs",
        "cells.csv",
        "cluster",
        "images",
        "ledger.sqlite",
        "ledger.sqlite-shm",
        "ledger.sqlite-wal",
        "lock",
        "report",
        "results.json",
        "secret",
    }
)


@contextmanager
def lock_folder(folder: Path, busy: str, *, patience: float = 0.0) -> Iterator[None]:
    """Locks a folder for this process. The lock ends with the process, so a killed one leaves nothing to clear away.

    If another process holds the lock, waits for at most `patience` seconds.

    Raises:
        Busy: another process still holds it; the message is `busy`.
        StoreFault: the folder cannot be locked.
    """
    until = time.monotonic() + patience
    path = folder / "lock"
    try:
        file = path.open("a")
    except OSError as error:
        raise write_fault(path, error) from error
    with file:
        while not _try_lock(path, file):
            if time.monotonic() >= until:
                raise Busy(busy)
            time.sleep(_LOCK_POLL_SECONDS)
        yield


def _try_lock(path: Path, file: TextIO) -> bool:
    """Returns whether this process got the lock. Raises StoreFault if files cannot be locked there."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreFault(f"{path} cannot be locked: {error}; use a folder on a disk of this machine") from error
    return True


@contextmanager
def lock_contest(folder: Path) -> Iterator[None]:
    """Locks a contest's folder to write entries of its ledger, or files that are made from it.

    No caller holds the lock while it plays, builds or tries a submission, so others wait only for a moment. Raises like
    `lock_folder`.
    """
    waited = f"{LOCK_WAIT_SECONDS:g} s"
    busy = f"another command has been writing to the contest in {folder} for {waited}; wait for it or end it"
    with lock_folder(folder, busy, patience=LOCK_WAIT_SECONDS):
        yield


def is_contest(folder: Path) -> bool:
    """Returns whether a contest was opened in a folder."""
    return (folder / CONTEST_LEDGER).exists() or (folder / DATABASE).exists()


def open_ledger(path: Path) -> Ledger:
    """Returns the ledger in a file, created if it does not exist."""
    ledger: Ledger = plugins.load_plugin("stores", "sql")(f"sqlite:///{path}")
    return ledger


def open_database(url: str, schema: str) -> Ledger:
    """Returns the ledger in a database, created if it does not exist. Raises UsageError for an invalid URL."""
    ledger: Ledger = plugins.load_plugin("stores", "sql")(url, schema=schema)
    return ledger


def open_blobs(folder: Path, *, pack: bool = False) -> Blobs:
    """Returns the blobs in a folder. With `pack`, new small blobs go into one file."""
    blobs: Blobs = plugins.load_plugin("stores", "folder")(folder, pack=pack)
    return blobs


class RoundFolder:
    """The output folder of one round.

    ledger.sqlite, blobs/ and secret are the record; results.json, cells.csv and report/ are made from it and can be
    made again at any time. `images/` holds the copies of submissions that the process backend admitted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def contest_path(self) -> Path | None:
        """The folder of the contest that this round belongs to, None for a round by itself."""
        above = self.path.resolve().parent.parent.parent
        return above if is_contest(above) else None

    @property
    def exists(self) -> bool:
        """Whether a round was opened here."""
        return (self.path / "ledger.sqlite").exists()

    @property
    def results_path(self) -> Path:
        """The results file. It is written after the files that belong to it, and removed before it becomes outdated."""
        return self.path / "results.json"

    def discard_results(self) -> None:
        """Removes the results file. Raises StoreFault if it cannot be removed."""
        try:
            self.results_path.unlink(missing_ok=True)
        except OSError as error:
            raise write_fault(self.results_path, error) from error

    def create(self) -> None:
        """Creates the folder. Raises UsageError if it holds other files, StoreFault if the disk is full or fails."""
        ignored = self.path / ".gitignore"
        try:
            others = {entry.name for entry in self.path.iterdir()} - _OWN_NAMES if self.path.is_dir() else set()
            others = {name for name in others if not name.startswith(UNFINISHED_PREFIX)}
            if others and not self.exists:
                raise UsageError(f"{self.path} holds other files; give an empty or new folder as --out")
            self.path.mkdir(parents=True, exist_ok=True)
            # The folder holds the round's secret, so it must not get into a repository.
            if not ignored.exists() or ignored.read_bytes() != b"*\n":
                ignored.write_bytes(b"*\n")
        except OSError as error:
            if error.errno in _DISK_ERRNOS:
                raise write_fault(self.path, error) from error
            raise UsageError(f"{self.path} cannot be made: {error}; give another --out") from error

    @contextmanager
    def create_or_undo(self) -> Iterator[None]:
        """Creates the folder. Removes it again if the body is refused before a round is opened in it."""
        fresh = not self.path.exists()
        self.create()
        try:
            yield
        except (BackendUnavailable, Rejected, UsageError):
            if fresh and not self.exists:
                shutil.rmtree(self.path, ignore_errors=True)
            raise

    @property
    def exchange_path(self) -> Path:
        """The folder through which the controller and drivers communicate, next to the blobs."""
        return (self.contest_path or self.path) / "cluster"

    def require(self) -> None:
        """Raises UsageError if no round was opened here."""
        if not self.exists and is_contest(self.path):
            rounds = sorted(ledger.parent for ledger in self.path.glob("rounds/*/*/ledger.sqlite"))
            round_paths = ", ".join(str(folder) for folder in rounds) or "no round was played yet"
            raise UsageError(f"{self.path} is a contest's folder; give that of one of its rounds: {round_paths}")
        if not self.exists:
            raise UsageError(
                f"{self.path} holds no round; give the --out folder of `sparring round run`, or a contest's folder"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Locks the round for this process, and removes partial files that a killed process left.

        Raises:
            Busy: another orchestrator plays it.
            StoreFault: the folder cannot be locked.
        """
        busy = f"another orchestrator plays the round in {self.path}; wait for it or end it"
        with lock_folder(self.path, busy, patience=_ROUND_LOCK_SECONDS):
            with self.writing():  # other commands write results of this round too
                unfinished = (folder.glob(f"{UNFINISHED_PREFIX}*") for folder in (self.path, self.path / "report"))
                for path in chain(*unfinished, self._blobs_path.glob(f"*/{UNFINISHED_PREFIX}*")):
                    with suppress(OSError):  # the next run tries again
                        path.unlink()
            yield

    def is_played(self) -> bool:
        """Returns whether a process plays the round at this moment. It writes nothing."""
        try:
            with (self.path / "lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # there is no lock file, or files cannot be locked there
            return False
        return False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Locks the contest that this round belongs to, since its results also depend on the contest's ledger.

        Does nothing for a round by itself.
        """
        if self.contest_path is None:
            yield
            return
        with lock_contest(self.contest_path):
            yield

    def ledger(self) -> Ledger:
        """Returns the round's ledger, created if it does not exist."""
        return open_ledger(self.path / "ledger.sqlite")

    def blobs(self, *, pack: bool = False) -> Blobs:
        """Returns the round's blobs, which the rounds of a contest share. The process that plays it sets `pack`."""
        return open_blobs(self._blobs_path, pack=pack)

    @property
    def _blobs_path(self) -> Path:
        return (self.contest_path or self.path) / "blobs"

    def secret(self) -> bytes:
        """Returns the round's secret, drawn at the first call. Only the file's owner can read it.

        It is written before the ledger exists; once there is a ledger, a lost secret is never drawn again. An empty
        file was left by a kill while it was written. Raises StoreFault if it is lost or damaged, or cannot be written.
        """
        path = self.path / "secret"
        try:
            secret = path.read_bytes()
        except FileNotFoundError:
            secret = b""
        except OSError as error:
            raise StoreFault(f"{path} cannot be read: {error.strerror or error}; make it readable") from error
        if not secret and not self.exists:
            if path.exists():
                write_whole(path, secrets.token_bytes(SECRET_BYTES), 0o600)
            else:
                write_once(path, secrets.token_bytes(SECRET_BYTES), 0o600)  # of two controllers, one writes
            secret = path.read_bytes()
        if len(secret) != SECRET_BYTES:
            remedy = "put it back from a copy of the folder, or play the round again into a new one"
            remedy = remedy if self.exists else "remove it: no round was opened with it yet"
            raise StoreFault(f"{path} is lost or damaged: {len(secret)} bytes, expected {SECRET_BYTES}; {remedy}")
        return secret

    def write_file(self, name: str, text: str) -> Path:
        """Writes a derived file completely or not at all, and returns its path. Raises StoreFault."""
        path = self.path / name
        write_whole(path, text.encode())
        return path
