"""The ledger in PostgreSQL: what SQLite's does, and what only a server can have."""

import secrets
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from orchestrator.errors import Conflict, StoreFault, UsageError
from orchestrator.ledger.stores import base
from orchestrator.ledger.stores.memory import MemoryLedger
from orchestrator.ledger.stores.sql import SqlLedger

pytestmark = pytest.mark.xdist_group("postgresql")
WRITERS = 10


@pytest.fixture
def schema() -> str:
    """A schema of this test's own, with a character that has to be quoted."""
    return f"cup-{secrets.token_hex(6)}"


@pytest.fixture
def open_ledger(database_url, schema) -> Iterator[Callable[[], SqlLedger]]:
    """Opens the test's ledger once more; all are closed in the end."""
    made: list[SqlLedger] = []

    def opened(name: str = schema) -> SqlLedger:
        made.append(SqlLedger(database_url, schema=name))
        return made[-1]

    yield opened
    for ledger in made:
        ledger.close()


@pytest.fixture
def execute(database_url, schema) -> Callable[[str], None]:
    """Runs a statement on the test's schema behind the ledger's back, as the database's owner."""

    def run(statement: str) -> None:
        with psycopg.connect(database_url, options=f'-csearch_path="{schema}"') as connection:
            connection.execute(statement)

    return run


def test_entries_come_back_in_order(open_ledger, event, time):
    """What was appended is read as it was by whoever opens the ledger next, and the chain goes on."""
    ledger = open_ledger()
    assert (ledger.head, list(ledger.read())) == (base.GENESIS, [])
    ledger.append(event(0), event(1), time=time)
    again = open_ledger()
    assert again.head == ledger.head
    again.append(event(2), time=time)
    assert [entry.event for entry in open_ledger().read()] == [event(number) for number in range(3)]


def test_the_chain_is_that_of_every_store(open_ledger, event, time, monkeypatch):
    """With the same salts the head does not depend on where a ledger is kept."""
    monkeypatch.setattr(base, "new_salt", lambda: "5a" * 16)
    ledgers = open_ledger(), MemoryLedger()
    for ledger in ledgers:
        ledger.append(event(1), event(2), time=time)
    assert ledgers[0].head == ledgers[1].head


def test_somebody_else_was_faster(open_ledger, event, time):
    """The second of two gets a Conflict, learns what is new, and goes on."""
    first, second = open_ledger(), open_ledger()
    first.append(event(0), event(1), time=time)
    with pytest.raises(Conflict, match=r"another process appended to .* first"):
        second.append(event(2), time=time)
    assert [entry.event for entry in second.read_new()] == [event(0), event(1)]
    second.append(event(2), time=time)
    assert [entry.event for entry in open_ledger().read()] == [event(number) for number in range(3)]


def test_many_writers_leave_one_chain(open_ledger, event, time):
    """Ten that append at once, each again after a Conflict, leave every entry in one whole chain."""
    ledgers = [open_ledger() for _ in range(WRITERS)]

    def write(number: int) -> None:
        while True:
            try:
                ledgers[number].append(event(number), time=time)
            except Conflict:
                assert list(ledgers[number].read_new())
            else:
                return

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    found = [entry.event for entry in open_ledger().read()]
    assert sorted(each.step for each in found) == list(range(WRITERS))


@pytest.mark.parametrize(
    "statement",
    ["UPDATE ledger SET time = 'x'", "DELETE FROM ledger", "DELETE FROM ledger WHERE seq = 1", "TRUNCATE ledger"],
)
def test_the_database_refuses_to_change_a_row(open_ledger, event, time, execute, statement):
    """UPDATE, DELETE and TRUNCATE are refused by the database itself, the owner's too."""
    open_ledger().append(event(0), event(1), time=time)
    with pytest.raises(psycopg.Error, match="the ledger is append-only"):
        execute(statement)
    assert len(list(open_ledger().read())) == 2


def test_an_owner_who_removes_the_triggers_is_seen(open_ledger, event, time, execute):
    """What was altered without them does not continue the chain."""
    open_ledger().append(event(0), event(1), time=time)
    execute("DROP TRIGGER ledger_no_change ON ledger")
    execute("UPDATE ledger SET time = 'later' WHERE seq = 1")
    with pytest.raises(StoreFault, match="ledger entry 1 does not continue the chain"):
        list(open_ledger().read())


def test_a_lost_connection_is_replaced(open_ledger, event, time, caplog):
    """The call during which the server ends it fails, the next succeeds, and SQLAlchemy logs nothing."""
    ledger = open_ledger()
    with pytest.raises(psycopg.OperationalError), ledger._database.connection() as connection:
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    ledger.append(event(0), time=time)
    assert [entry.event for entry in ledger.read()] == [event(0)]
    assert not caplog.records


def test_one_database_holds_many_ledgers(open_ledger, event, time, schema):
    """Each has its own schema, and sees nothing of the others."""
    open_ledger().append(event(0), time=time)
    other = open_ledger(f"{schema}-2")
    assert list(other.read()) == []


def test_a_database_that_does_not_answer_is_named(tmp_path):
    """The fault names the address without its password, and what to look at."""
    with pytest.raises(StoreFault, match="see that the database answers") as fault:
        SqlLedger(f"postgresql://ada:hidden@/cup?host={tmp_path}", lock_timeout=2)
    assert "ada:***@" in str(fault.value)
    assert "hidden" not in str(fault.value)


@pytest.mark.parametrize(
    "url", ["nonsense", "mysql://ada:hidden@host/cup", "postgresql://ada:hidden@host:x/cup", "://", ""]
)
def test_an_address_of_no_database_is_refused(url):
    """Only SQLite and PostgreSQL keep ledgers; a password is never repeated."""
    with pytest.raises(UsageError, match="is not a database for a ledger") as refused:
        SqlLedger(url)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("package", ["psycopg", "sqlalchemy"])
def test_a_missing_driver_is_named(monkeypatch, package):
    """Without one of its packages the remedy is the extra that brings both."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=r"pip install 'sparring\[postgresql\]'"):
        SqlLedger("postgresql://host/cup")
