"""Where things lie: a round's folder."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from orchestrator import plugins
from orchestrator.errors import StoreFault, UsageError
from orchestrator.stores.base import Blobs, Ledger

CONTEST_LEDGER = "contest.sqlite"
"""The ledger of a contest, two folders above those of its rounds."""
SECRET_BYTES = 32
_OURS = frozenset(
    {
        ".gitignore",
        "blobs",
        "cells.csv",
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
def held(folder: Path, busy: str) -> Iterator[None]:
    """Holds a folder for this process. Raises UsageError, saying `busy`, when another process holds it."""
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(busy) from None
        yield


def ledger_at(path: Path) -> Ledger:
    """Returns the ledger in a file, made if it is not there."""
    ledger: Ledger = plugins.find("stores", "sql")(f"sqlite:///{path}")
    return ledger


def blobs_in(folder: Path) -> Blobs:
    """Returns what is kept below a folder."""
    blobs: Blobs = plugins.find("stores", "folder")(folder)
    return blobs


class RoundFolder:
    """The output folder of one round.

    ledger.sqlite, blobs/ and secret are the record; results.json, cells.csv and report/ are folded from it and can be
    made again at any time. `images/` holds what the process backend admitted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def contest(self) -> Path | None:
        """The folder of the contest that this is a round of, None for a round by itself."""
        above = self.path.resolve().parent.parent.parent
        return above if (above / CONTEST_LEDGER).exists() else None

    @property
    def exists(self) -> bool:
        """Whether a round was opened here."""
        return (self.path / "ledger.sqlite").exists()

    def create(self) -> None:
        """Makes the folder. Raises UsageError when something else lies there."""
        try:
            others = {entry.name for entry in self.path.iterdir()} - _OURS if self.path.is_dir() else set()
            if others and not self.exists:
                raise UsageError(f"{self.path} holds other files; give an empty or new folder as --out")
            self.path.mkdir(parents=True, exist_ok=True)
            # The folder holds the round's secret: it is not for anybody's repository.
            (self.path / ".gitignore").write_text("*\n", "ascii")
        except OSError as error:
            raise UsageError(f"{self.path} cannot be made: {error}; give another --out") from error

    def require(self) -> None:
        """Raises UsageError when no round was opened here."""
        if not self.exists:
            raise UsageError(f"{self.path} holds no round; give the --out folder of `sparring round run`")

    def locked(self) -> AbstractContextManager[None]:
        """Holds the round for this process. Raises UsageError when another orchestrator plays it."""
        return held(self.path, f"another orchestrator plays the round in {self.path}; wait for it or end it")

    def ledger(self) -> Ledger:
        """Returns the round's ledger, made if it is not there."""
        return ledger_at(self.path / "ledger.sqlite")

    def blobs(self) -> Blobs:
        """Returns the round's blobs; the rounds of one contest share theirs."""
        return blobs_in((self.contest or self.path) / "blobs")

    def secret(self) -> bytes:
        """Returns the round's secret, drawn the first time; only its owner can read the file.

        An empty file is one whose drawing was killed: no commitment is on record yet.
        """
        path = self.path / "secret"
        try:
            with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                secret = file.read()
                if not secret:
                    secret = secrets.token_bytes(SECRET_BYTES)
                    file.write(secret)
        except OSError as error:
            raise StoreFault(f"{path} cannot be read or written: {error}") from error
        if len(secret) != SECRET_BYTES:
            raise StoreFault(f"{path} is damaged: {len(secret)} bytes, expected {SECRET_BYTES}")
        return secret

    def write(self, name: str, text: str) -> Path:
        """Writes a derived file whole or not at all, and returns its path."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_text(text, "utf-8")
        fresh.replace(path)
        return path
