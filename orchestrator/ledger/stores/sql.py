"""The ledger in a database: SQLite in a file by default, or PostgreSQL by its URL.

It is one table with one row for each event. Triggers in the database refuse to change or remove a row; if somebody
removes the triggers first, the hash chain reveals the change. In PostgreSQL each ledger has its own schema, so one
database can hold many.
"""

import importlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy import exc

from orchestrator.domain.events import Event, read_canonical_event
from orchestrator.domain.field_errors import first_field_error
from orchestrator.domain.ids import parse_json
from orchestrator.domain.text import printable
from orchestrator.domain.versions import unreadable_version
from orchestrator.errors import Conflict, StoreFault, UsageError
from orchestrator.ledger.event_registry import parse_event
from orchestrator.ledger.stores import base
from orchestrator.logs import get_logger

_metadata = sa.MetaData()
_entries = sa.Table(
    "ledger",
    _metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time", sa.String(40), nullable=False),
    sa.Column("kind", sa.String(40), nullable=False),
    sa.Column("salt", sa.String(32), nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("previous", sa.String(71), nullable=False),
    sa.Column("hash", sa.String(71), nullable=False),
)
_APPEND_ONLY = [
    f"CREATE TRIGGER IF NOT EXISTS ledger_no_{name} BEFORE {when} "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for name, when in (
        ("update", "UPDATE ON ledger"),
        ("delete", "DELETE ON ledger"),
        # INSERT OR REPLACE removes a row without firing a trigger on DELETE: https://www.sqlite.org/lang_conflict.html
        ("replace", "INSERT ON ledger WHEN EXISTS (SELECT 1 FROM ledger WHERE seq = NEW.seq)"),
    )
]

_APPEND_ONLY_POSTGRESQL = [
    (
        "CREATE OR REPLACE FUNCTION ledger_refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RAISE EXCEPTION USING MESSAGE = ''the ledger is append-only''; END'"
    ),
    (
        "CREATE OR REPLACE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON ledger "
        "FOR EACH ROW EXECUTE FUNCTION ledger_refuse_change()"
    ),
    (
        "CREATE OR REPLACE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON ledger "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change()"
    ),
]
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
"""The SQLAlchemy dialect and driver for each database."""
_SET_UP_LOCK = 0x5350_4152
"""The key of an advisory lock in PostgreSQL: of two commands that start at once, one creates the tables."""

_RESTORE_REMEDY = "put it back from a copy of the folder, or play into a new folder"
_ROWS_PER_QUERY = 2000
LOCK_TIMEOUT_SECONDS = 10.0
"""How long to wait for another program's lock on a SQLite file, each time."""
_log = get_logger()


class SqlLedger:
    """The ledger at a database URL. Its head is the hash in the last row; `read` verifies the chain up to there.

    `append` and `read_new` verify the chain first if `read` has not done so: nothing is appended to a broken chain.

    Args:
        url: `sqlite:///PATH` or `postgresql://[USER[:PASSWORD]@]HOST/DATABASE`.
        lock_timeout: how many seconds to wait for another program's lock, each time.
        schema: PostgreSQL's schema of this ledger, created if it does not exist; not used by SQLite.

    Raises:
        UsageError: the URL is invalid, is that of another kind of database, or the driver is not installed.
        StoreFault: the database cannot be reached or is damaged, or has a table of version 0.1.0.
    """

    def __init__(self, url: str, lock_timeout: float = LOCK_TIMEOUT_SECONDS, schema: str = "ledger") -> None:
        self._seq, self._head, self._time = 0, base.GENESIS, ""
        self._clock_was_behind = False
        self._writing: Any = None
        self._lock_timeout = lock_timeout
        where = parse_url(url)
        self._sqlite = where.get_backend_name() == "sqlite"
        self._driver: Any = sqlite3 if self._sqlite else importlib.import_module("psycopg")
        values = ", ".join(["?" if self._sqlite else "%s"] * len(_entries.columns))
        self._insert = f"INSERT INTO ledger VALUES ({values})"  # noqa: S608  marks of the driver, no values
        self._location = (where.database or "") if self._sqlite else f"{where.render_as_string()}, schema {schema}"
        with self._translated():
            self._engine = self._sqlite_engine(where) if self._sqlite else self._postgresql_engine(where, schema)
        try:
            self._require_columns()
            last = self._last_row()
        except StoreFault:
            self.close()
            raise
        self._is_checked = last is None
        if last is not None:
            self._seq, self._head, self._time = last.seq, last.hash, last.time

    def _sqlite_engine(self, where: sa.URL) -> sa.Engine:
        engine = sa.create_engine(where, connect_args={"timeout": self._lock_timeout})
        sa.event.listen(engine, "connect", _enable_write_ahead_log)
        try:
            _metadata.create_all(engine)
            with engine.begin() as connection:
                for statement in _APPEND_ONLY:
                    connection.execute(sa.text(statement))
        except exc.OperationalError as error:
            engine.dispose()
            if (readable := _read_only_engine(where, error)) is None:
                raise
            return readable
        return engine

    def _postgresql_engine(self, where: sa.URL, schema: str) -> sa.Engine:
        name = schema.replace('"', '""')
        settings = f'-csearch_path="{name}" -clock_timeout={round(1000 * self._lock_timeout)}'
        arguments = {"options": settings, "connect_timeout": max(2, round(self._lock_timeout))}
        engine = sa.create_engine(where, connect_args=arguments, pool_pre_ping=True)
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _SET_UP_LOCK})
            if not sa.inspect(connection).has_table("ledger", schema=schema):
                connection.execute(sa.text(f'CREATE SCHEMA IF NOT EXISTS "{name}"'))
                _metadata.create_all(connection)
                for statement in _APPEND_ONLY_POSTGRESQL:
                    connection.execute(sa.text(statement))
        return engine

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self._head

    def append(self, *events: Event, time: str) -> str:
        """Appends events after the head, all or none, and returns the time of their entries.

        Raises:
            Conflict: another process appended first.
            StoreFault: the chain up to the head is broken, or the database cannot be written.
        """
        self._require_chain()
        time = self._entry_time(time)
        if not events:
            return time
        seq, head = self._seq, self._head
        rows = []
        for event in events:
            entry = base.make_entry(head, seq + 1, time, event, base.new_salt())
            seq, head = entry.seq, entry.hash
            rows.append((seq, time, event.kind, entry.salt, entry.text, entry.previous, head))
        with self._translated():
            self._write(rows)
        self._seq, self._head, self._time = seq, head, time
        return time

    def _write(self, rows: list[tuple[Any, ...]]) -> None:
        """Adds rows in one transaction of the driver, since one of SQLAlchemy takes longer than SQLite itself.

        A connection to a SQLite file stays open: taking one from the pool and returning it takes half as long again.
        """
        if self._writing is None:
            self._writing = self._engine.raw_connection()
        connection = self._writing.dbapi_connection
        try:
            with closing(connection.cursor()) as cursor:
                cursor.executemany(self._insert, rows)
            connection.commit()
        except BaseException:
            with suppress(self._driver.Error):  # if the connection is lost, there is nothing to roll back
                connection.rollback()
            raise
        finally:
            if not self._sqlite:  # PostgreSQL may be restarted before the next call
                self._close_writing()

    def _close_writing(self) -> None:
        if self._writing is not None:
            self._writing.close()
            self._writing = None

    def _entry_time(self, clock: str) -> str:
        """Returns the time of the next entry. Logs one warning if the clock is behind the ledger."""
        time = base.entry_time(clock, self._time)
        if time != clock and not self._clock_was_behind:
            self._clock_was_behind = True
            _log.warning("clock_behind_ledger", clock=clock, recorded=time, ledger=self._location)
        return time

    def read(self) -> Iterator[base.LedgerEntry]:
        """Yields the entries up to the head, in order. Raises StoreFault at the first that does not continue the chain.

        Only `read_new` yields the entries that other processes appended after the head, so that a caller of both gets
        each entry once.
        """
        for row, leaf in self._chain_to_head():
            yield self._entry(row, leaf)

    def _chain_to_head(self) -> Iterator[tuple[Any, str]]:
        """Yields the rows up to the head with their leaves. Raises StoreFault if the chain does not end in the head."""
        last, head = self._seq, self._head
        if self._is_checked and not last:
            return  # it was empty
        for place, (row, leaf) in enumerate(self._chain(), start=1):
            if place < last:
                yield row, leaf
            elif row.hash == head:
                self._is_checked = True
                yield row, leaf
                return
            else:
                break
        raise self._broken(last)

    def _require_chain(self) -> None:
        """Raises StoreFault if the chain does not end in the head. Does nothing if that was verified before."""
        if not self._is_checked:
            for _ in self._chain_to_head():
                pass

    def read_new(self) -> Iterator[base.LedgerEntry]:
        """Yields the entries after the head, and advances the head with each. Raises StoreFault like `read`."""
        self._require_chain()
        for row, leaf in self._chain(self._seq, self._head, self._time):
            entry = self._entry(row, leaf)
            self._seq, self._head, self._time = row.seq, row.hash, row.time
            yield entry

    def _entry(self, row: Any, leaf: str) -> base.LedgerEntry:
        """Returns the entry of a row whose hashes are verified. Raises StoreFault if its text is not an event."""
        seq, time, kind, salt, text, previous, row_hash = row
        event = read_canonical_event(kind, text) or self._event(seq, kind, text)
        return base.LedgerEntry(seq, time, salt, event, text, previous, leaf, row_hash)

    def _event(self, seq: int, kind: str, text: str) -> Event:
        """Parses the text of an event.

        The hashes cover the text, so only its JSON value is compared with the event's. To write the canonical text
        again would be a third of the time of reading; the verifier of bundles does so.
        """
        try:
            value = parse_json(text)
            event = parse_event(value)
        except UsageError as error:
            raise StoreFault(f"ledger entry {seq}: {error}") from error
        except (ValidationError, ValueError, TypeError, RecursionError) as error:
            why = first_field_error(error) if isinstance(error, ValidationError) else error
            raise StoreFault(
                f"ledger entry {seq} is not an event of this version: {why}; {self._location} was altered or "
                f"damaged, or written by another version; {_RESTORE_REMEDY}"
            ) from error
        if kind != event.kind or value != event.model_dump(mode="json"):
            raise self._broken(seq)
        return event

    def _chain(self, after: int = 0, previous: str = base.GENESIS, time: str = "") -> Iterator[tuple[Any, str]]:
        """Yields the rows after an entry with their leaves. Raises StoreFault for a wrong hash or an earlier time.

        It does not parse the events, except for the version in the first.
        """
        for place, row in enumerate(self._rows(after), start=after + 1):
            seq, row_time, _, salt, text, before, row_hash = row
            try:
                leaf = base.leaf_hash(seq, row_time, salt, text)
                follows = base.entry_hash(previous, leaf)
            except (TypeError, ValueError) as error:  # a column of another type, or text that is not Unicode
                raise self._broken(place) from error
            if seq != place or before != previous or row_hash != follows or row_time < time:
                raise self._broken(place)
            if place == 1:
                self._require_version(row)
            previous, time = row_hash, row_time
            yield row, leaf

    def _require_columns(self) -> None:
        """Raises StoreFault if the table was made by version 0.1.0, whose entries had no salt."""
        with self._translated(), self._engine.connect() as connection:
            columns = {column["name"] for column in sa.inspect(connection).get_columns(_entries.name)}
        if "salt" not in columns:
            raise StoreFault(f"{self._location} {unreadable_version('ledger', 1)}")

    def _require_version(self, first: Any) -> None:
        """Raises StoreFault if the first entry is that of a ledger of another version."""
        try:
            body = parse_json(first.event)
        except (ValueError, RecursionError):
            return  # not an event: `_event` raises the error
        base.require_version(body, self._location)

    def _broken(self, place: int) -> StoreFault:
        return StoreFault(
            f"ledger entry {place} does not continue the chain; {self._location} was altered or damaged; "
            f"{_RESTORE_REMEDY}"
        )

    def _last_row(self) -> Any:
        """Returns the last row without verifying it, None if the table is empty."""
        query = sa.select(_entries).order_by(_entries.c.seq.desc()).limit(1)
        with self._translated(), self._engine.connect() as connection:
            return connection.execute(query).first()

    def _rows(self, after: int) -> Iterator[Any]:
        """Yields the rows after an entry, fetched in parts: a long ledger is never completely in memory."""
        query = sa.select(_entries).order_by(_entries.c.seq).limit(_ROWS_PER_QUERY)
        last = after or None  # from the first row, whatever its number
        while True:
            with self._translated(), self._engine.connect() as connection:
                rows = connection.execute(query if last is None else query.where(_entries.c.seq > last)).all()
            yield from rows
            if len(rows) < _ROWS_PER_QUERY:
                return
            last = rows[-1].seq

    def close(self) -> None:
        """Closes the connections."""
        self._close_writing()
        self._engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (exc.SQLAlchemyError, self._driver.Error) as error:
            cause = getattr(error, "orig", None) or error
            if isinstance(cause, self._driver.IntegrityError):
                problem = f"another process appended to {self._location} first; run the same command again"
                raise Conflict(problem) from error
            raise StoreFault(f"the ledger cannot be used: {self._error_message(cause)}") from error

    def _error_message(self, cause: Exception) -> str:
        """Returns the problem and the remedy. SQLAlchemy's message would show the whole statement with its values."""
        if not isinstance(cause, sqlite3.Error):
            remedy = "see that the database answers and that its user may use it, and run the same command again"
            return f"{self._location}: {str(cause).strip()}; {remedy}"
        match getattr(cause, "sqlite_errorcode", 0) & 0xFF:  # the lowest byte of an extended code is its primary code
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                problem = f"another program has held {self._location} for more than {self._lock_timeout:g} s"
                return f"{problem} ({cause}); wait for it or end it, and run the same command again"
            case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN:
                remedy = "see that its folder has space and is writable, and run the same command again"
                return f"{self._location}: {cause}; {remedy}"
            case _:
                return f"{self._location}: {cause}; {_RESTORE_REMEDY}"


def _read_only_engine(where: sa.URL, error: exc.OperationalError) -> sa.Engine | None:
    """Returns a read-only engine if the SQLite file exists and cannot be written, else None.

    Returns None for a file with a write-ahead log that is not merged: it cannot be read completely without writing.
    https://www.sqlite.org/wal.html#read_only_databases
    """
    path = Path(where.database or "")
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    log = path.with_name(f"{path.name}-wal")
    if code not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN) or not path.is_file():
        return None
    if log.exists() and log.stat().st_size:
        return None
    query = {"mode": "ro", "immutable": "1", "uri": "true"}
    return sa.create_engine(where.set(database=f"file:{quote(str(path.resolve()))}", query=query))


def parse_url(url: str) -> sa.URL:
    """Returns a database's URL with the driver that is used for it.

    Raises:
        UsageError: it is not a URL, or the database is not supported, or the driver is not installed.
    """
    kinds = "sqlite:///PATH or postgresql://USER@HOST/DATABASE"
    try:
        where = sa.make_url(url)
        driver = _DRIVERS[where.get_backend_name()]
    except (exc.ArgumentError, KeyError):
        raise UsageError(
            f"{printable(url.partition('@')[2] or url, 80)!r} is not a database for a ledger; give {kinds}"
        ) from None
    if driver != "sqlite" and find_spec("psycopg") is None:
        raise UsageError("PostgreSQL needs its driver; pip install 'sparring[postgresql]'")
    return where.set(drivername=driver)


def _enable_write_ahead_log(connection: Any, _: object) -> None:
    """Turns on SQLite's write-ahead log.

    A kill loses nothing. A power failure may lose the last entries, but does not break the chain.

    https://www.sqlite.org/pragma.html#pragma_synchronous
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


plugin = SqlLedger
