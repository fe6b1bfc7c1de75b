"""Ledgers and blob stores of every kind, and events to store in them."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.domain import events
from orchestrator.domain.plan import Stage
from orchestrator.ledger.stores.base import Blobs, Ledger
from orchestrator.ledger.stores.folder import FolderBlobs
from orchestrator.ledger.stores.memory import MemoryBlobs, MemoryLedger
from orchestrator.ledger.stores.sql import SqlLedger

ZERO = "sha256:" + "0" * 64
COUNT = 5
TIME = "2026-03-01T08:00:00.000+00:00"


def happened(number: int) -> events.Event:
    """Returns an event, a different one for each number."""
    faults = [events.FaultRecord(code="died", message="naïve ☠", pictures=number)]
    return events.StepFinished(
        job="j",
        stage=Stage.CLASSIFY,
        submission="d",
        step=number,
        cells=[events.CellRecord(defence="d", attack=None)],
        blobs={"rows": ZERO},
        faults=faults,
        seconds=0.1 * number,
    )


@pytest.fixture(scope="session")
def event() -> Callable[[int], events.Event]:
    """Makes events."""
    return happened


@pytest.fixture(scope="session")
def time() -> str:
    """A moment, as the ledger writes it."""
    return TIME


@pytest.fixture
def database(tmp_path) -> Path:
    """The path of the test's SQLite ledger."""
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def open_ledger(database) -> Iterator[Callable[[], Ledger]]:
    """Returns a function that opens the SQLite ledger again. All are closed after the test."""
    made: list[Ledger] = []

    def opened() -> Ledger:
        made.append(SqlLedger(f"sqlite:///{database}"))
        return made[-1]

    yield opened
    for ledger in made:
        ledger.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> bytes:
    """A SQLite ledger of five entries, as a file."""
    path = tmp_path_factory.mktemp("template") / "ledger.sqlite"
    ledger = SqlLedger(f"sqlite:///{path}")
    for number in range(COUNT):
        ledger.append(happened(number), time=TIME)
    ledger.close()
    return path.read_bytes()


@pytest.fixture
def filled(database, template) -> int:
    """Puts a ledger of five entries in place of the test's ledger, and returns their number."""
    database.write_bytes(template)
    return COUNT


@pytest.fixture(params=["sql", "memory"])
def ledger(request, open_ledger) -> Ledger:
    """An empty ledger of each kind."""
    return open_ledger() if request.param == "sql" else MemoryLedger()


@pytest.fixture
def tamper(database) -> Callable[..., None]:
    """Returns a function that drops the database's triggers and changes it directly."""

    def run(statement: str, *values: object) -> None:
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for (name,) in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(statement, values)
            connection.commit()

    return run


@pytest.fixture(params=["files", "packs", "memory"])
def blobs(request, tmp_path) -> Blobs:
    """An empty blob store of each kind."""
    return MemoryBlobs() if request.param == "memory" else FolderBlobs(tmp_path, pack=request.param == "packs")
