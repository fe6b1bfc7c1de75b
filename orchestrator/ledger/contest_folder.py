"""The folder of a contest: its file, its ledger, its key, the submissions, and a folder for each round and task."""

import json
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from orchestrator.domain.text import shell_word
from orchestrator.errors import StoreFault, UsageError
from orchestrator.files import write_whole
from orchestrator.ledger.round_folder import (
    CONTEST_LEDGER,
    DATABASE,
    RoundFolder,
    is_contest,
    lock_contest,
    open_blobs,
    open_database,
    open_ledger,
)
from orchestrator.ledger.stores.base import Blobs, Ledger
from orchestrator.signatures import SigningKey

FILE_NAME = "contest.yaml"
_IGNORE, _KEY = ".gitignore", "key"
_MANIFEST = "submission.yaml"


class ContestFolder:
    """The folder of one contest.

    Organizers may edit contest.yaml. contest.sqlite, blobs/, rounds/*/*/ledger.sqlite and the two kinds of secret (key,
    rounds/*/*/secret) are the record; everything else is made from them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def file(self) -> Path:
        """The contest file."""
        return self.path / FILE_NAME

    @property
    def exists(self) -> bool:
        """Whether a contest was opened here."""
        return is_contest(self.path)

    def create(self) -> None:
        """Creates the folder. Raises UsageError if it is not empty."""
        try:
            if self.path.is_dir() and any(self.path.iterdir()):
                what = "holds a contest already" if self.exists else "is not empty"
                raise UsageError(f"{self.path} {what}; give a new folder")
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be made: {error}; give another folder") from error

    def discard(self, *, begun: bool) -> None:
        """Removes the contest file, the files of an opening that had `begun`, and the folder if it is then empty."""
        ledger = (CONTEST_LEDGER, f"{CONTEST_LEDGER}-wal", f"{CONTEST_LEDGER}-shm")
        for name in (FILE_NAME, *((_IGNORE, _KEY, *ledger) if begun else ())):
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):  # it holds other files
            self.path.rmdir()

    def write_gitignore(self) -> None:
        """Keeps the folder out of git repositories: it holds secrets and strangers' submissions."""
        ignored = self.path / _IGNORE
        if not ignored.exists():
            write_whole(ignored, b"*\n")

    def require(self) -> None:
        """Raises UsageError if no contest was opened here."""
        if self.exists:
            return
        if not self.path.exists():
            remedy = f"make a contest with `sparring contest init {shell_word(self.path)}`, or give another path"
            raise UsageError(f"there is no folder {self.path}; {remedy}")
        if not self.path.is_dir():
            folder = (
                f"the contest's folder, {self.path.parent}" if self.path.name == FILE_NAME else "a contest's folder"
            )
            raise UsageError(f"{self.path} is a file; give {folder}")
        raise UsageError(self._missing_contest_message())

    def _missing_contest_message(self) -> str:
        """Returns a message for a folder without an opened contest: what the folder is, and the remedy."""
        path = self.path
        if RoundFolder(path).exists:
            return _round_folder_message(path)
        if (path / _MANIFEST).exists():
            return f"{path} is the folder of a submission; the contest's folder comes first"
        if self.file.exists():
            command = f"sparring contest open {shell_word(path)}"
            return f"{path} holds a {FILE_NAME}, and no contest was opened with it; run `{command}`"
        return f"{path} holds no contest; give a contest's folder, or make one with `sparring contest init NAME`"

    def writing(self) -> AbstractContextManager[None]:
        """Locks the contest while something is written; see `lock_contest`."""
        return lock_contest(self.path)

    def ledger(self) -> Ledger:
        """Returns the contest's ledger, created if it does not exist: a file, unless `use_database` named a database.

        Raises:
            StoreFault: the file that names the database is damaged, or the database cannot be reached.
        """
        path = self.path / DATABASE
        if not path.exists():
            return open_ledger(self.path / CONTEST_LEDGER)
        try:
            database = json.loads(path.read_bytes())
            return open_database(database["url"], database["schema"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            problem = f"{path} does not say where the ledger is: {error}"
            raise StoreFault(f"{problem}; put it back from a copy of the folder") from error

    def use_database(self, url: str, schema: str) -> None:
        """Makes a contest that is being opened keep its ledger in a database, in its own schema.

        Raises:
            UsageError: the URL is invalid, or the schema holds a contest already.
            StoreFault: the database cannot be reached.
        """
        ledger = open_database(url, schema)
        try:
            if next(iter(ledger.read()), None) is not None:
                raise UsageError(f"the database holds a contest {schema!r} already; give this one another `contest:`")
        finally:
            ledger.close()
        document = json.dumps({"url": url, "schema": schema}).encode()
        write_whole(self.path / DATABASE, document, 0o600)

    def blobs(self) -> Blobs:
        """Returns the blobs, which all rounds share."""
        return open_blobs(self.path / "blobs")

    def key(self) -> SigningKey:
        """Returns the organizers' key. Raises StoreFault if it is lost: without it nothing can be signed for them."""
        return SigningKey.read_file(self.path / _KEY)

    def create_key(self) -> SigningKey:
        """Returns the organizers' key, generated if there is none. Only for a contest that is being opened."""
        return SigningKey.read_or_generate(self.path / _KEY)

    def round(self, name: str, task: str) -> RoundFolder:
        """Returns the folder of one round of one task."""
        return RoundFolder(self.path / "rounds" / name / task)


def _round_folder_message(path: Path) -> str:
    """Returns a message for the folder of a round that was given instead of a contest's, with the remedy."""
    if (contest := RoundFolder(path).contest_path) is not None:
        return f"{path} is the folder of a round; give the folder of its contest, {contest}"
    word = shell_word(path)
    return (
        f"{path} is the folder of a round, not of a contest; `sparring round status {word}` says how far the round is, "
        f"`sparring report {word}` writes a page with its leaderboards, and `sparring round run FILE --out {word}` "
        "continues it"
    )


def contest_file(path: Path) -> Path:
    """Returns the contest file that a path names: the path itself, or the file in a contest's folder.

    Raises UsageError if there is none.
    """
    if not path.exists():
        raise UsageError(f"there is no {path}; give a contest file, or a contest's folder")
    if not path.is_dir():
        return path
    file = ContestFolder(path).file
    if not file.exists():
        raise UsageError(f"{path} has no {file.name}; give a contest file, or a contest's folder")
    return file
