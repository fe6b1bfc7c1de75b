"""The ledger in a database: SQLite in a file by default, or PostgreSQL by its URL.

It is one table with one row for each event. Triggers in the database refuse to change or remove a row; if somebody
removes the triggers first, the hash chain reveals the change. In PostgreSQL each ledger has its own schema, so one
database can hold many.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from pydantic import ValidationError

from orchestrator.domain.events import Event, read_canonical_event
from orchestrator.domain.field_errors import first_field_error
from orchestrator.domain.ids import parse_json
from orchestrator.domain.text import printable
from orchestrator.domain.versions import unreadable_version
from orchestrator.errors import Conflict, StoreFault, UsageError
from orchestrator.ledger.event_registry import parse_event
from orchestrator.ledger.stores import base
from orchestrator.logs import get_logger


class _Row(NamedTuple):
    """A row of the table, as it was read: whether it is an entry is still to be checked."""

    seq: int
    time: str
    kind: str
    salt: str
    event: str
    previous: str
    hash: str


_COLUMNS = ", ".join(_Row._fields)
_CREATE_TABLE = (
    "CREATE TABLE IF NOT EXISTS ledger (seq INTEGER NOT NULL, time VARCHAR(40) NOT NULL, kind VARCHAR(40) NOT NULL, "
    "salt VARCHAR(32) NOT NULL, event TEXT NOT NULL, previous VARCHAR(71) NOT NULL, hash VARCHAR(71) NOT NULL, "
    "PRIMARY KEY (seq))"
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
_SQLITE = "sqlite:///"
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
        self._lock_timeout = lock_timeout
        self._database = (
            _SqliteFile(Path(url.removeprefix(_SQLITE)), lock_timeout)
            if url.startswith(_SQLITE)
            else _PostgresqlSchema(url, schema, lock_timeout)
        )
        self._location = self._database.location
        marks = ", ".join([self._database.mark] * len(_Row._fields))
        self._insert = f"INSERT INTO ledger ({_COLUMNS}) VALUES ({marks})"  # noqa: S608  marks of the driver, no values
        try:
            with self._translated():
                self._database.set_up()
            self._require_columns()
            last = self._last_row()
        except StoreFault:
            self.close()
            raise
        self._is_checked = last is None
        if last is not None:
            self._seq, self._head, self._time = last.seq, last.hash, last.time

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
        """Adds rows in one transaction."""
        with self._database.connection() as connection, closing(connection.cursor()) as cursor:
            cursor.executemany(self._insert, rows)
            connection.commit()

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

    def _chain_to_head(self) -> Iterator[tuple[_Row, str]]:
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

    def _entry(self, row: _Row, leaf: str) -> base.LedgerEntry:
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

    def _chain(self, after: int = 0, previous: str = base.GENESIS, time: str = "") -> Iterator[tuple[_Row, str]]:
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
        with self._translated(), self._database.connection() as connection:
            columns = {name for name, *_ in connection.execute("SELECT * FROM ledger LIMIT 0").description}
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

    def _last_row(self) -> _Row | None:
        """Returns the last row without verifying it, None if the table is empty."""
        return next(iter(self._select("ORDER BY seq DESC LIMIT 1")), None)

    def _rows(self, after: int) -> Iterator[_Row]:
        """Yields the rows after an entry, fetched in parts: a long ledger is never completely in memory."""
        last = after or None  # from the first row, whatever its number
        while True:
            part = f"ORDER BY seq LIMIT {_ROWS_PER_QUERY}"
            rows = (
                self._select(part) if last is None else self._select(f"WHERE seq > {self._database.mark} {part}", last)
            )
            yield from rows
            if len(rows) < _ROWS_PER_QUERY:
                return
            last = rows[-1].seq

    def _select(self, which: str, *values: object) -> list[_Row]:
        query = f"SELECT {_COLUMNS} FROM ledger {which}"  # noqa: S608  names of columns, and words of this module
        with self._translated(), self._database.connection() as connection:
            return [_Row._make(row) for row in connection.execute(query, values).fetchall()]

    def close(self) -> None:
        """Closes the connections."""
        self._database.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._database.errors as error:
            cause = getattr(error, "orig", None) or error
            if isinstance(cause, self._database.integrity_error):
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


class _SqliteFile:
    """A SQLite file, and open connections to it: to open one takes longer than to append an entry."""

    mark = "?"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    integrity_error: type[Exception] = sqlite3.IntegrityError

    def __init__(self, path: Path, lock_timeout: float) -> None:
        self.location = str(path)
        self._path = path.absolute()
        self._lock_timeout = lock_timeout
        self._read_only = False
        self._unused: list[sqlite3.Connection] = []

    def set_up(self) -> None:
        """Creates the table and its triggers if they do not exist."""
        try:
            with self.connection() as connection:
                for statement in (_CREATE_TABLE, *_APPEND_ONLY):
                    connection.execute(statement)
        except sqlite3.OperationalError as error:
            if not self._is_complete_and_read_only(error):
                raise
            self._read_only = True

    def _is_complete_and_read_only(self, error: sqlite3.OperationalError) -> bool:
        """Returns whether the file exists and cannot be written, and can be read without being written.

        A file with a write-ahead log that is not merged cannot: https://www.sqlite.org/wal.html#read_only_databases
        """
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        log = self._path.with_name(f"{self._path.name}-wal")
        if code not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN) or not self._path.is_file():
            return False
        return not (log.exists() and log.stat().st_size)

    def _connect(self) -> sqlite3.Connection:
        """Opens the file with SQLite's write-ahead log, or for reading only.

        A kill loses nothing. A power failure may lose the last entries, but does not break the chain.

        https://www.sqlite.org/pragma.html#pragma_synchronous
        """
        where = f"file:{quote(str(self._path.resolve()))}?mode=ro&immutable=1" if self._read_only else self._path
        connection = sqlite3.connect(where, timeout=self._lock_timeout, check_same_thread=False, uri=self._read_only)
        if not self._read_only:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
            except BaseException:
                connection.close()
                raise
        return connection

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Lends a connection. What was not committed is undone where the caller fails."""
        try:
            connection = self._unused.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._unused.append(connection)

    def close(self) -> None:
        while self._unused:
            self._unused.pop().close()


class _PostgresqlSchema:
    """A schema of a PostgreSQL database, and SQLAlchemy's pool of connections, which notices a server that restarted.

    Raises UsageError like `SqlLedger`.
    """

    mark = "%s"

    def __init__(self, url: str, schema: str, lock_timeout: float) -> None:
        named = printable(url.partition("@")[2] or url, 80)
        unknown = f"{named!r} is not a database for a ledger; give sqlite:///PATH or postgresql://USER@HOST/DATABASE"
        if url.partition("://")[0].partition("+")[0] != "postgresql":
            raise UsageError(unknown)
        try:
            import psycopg as driver  # noqa: PLC0415  with the next a quarter of a second; a file needs neither
            from sqlalchemy import create_engine, exc, make_url  # noqa: PLC0415
        except ImportError as error:
            raise UsageError("PostgreSQL needs its driver; pip install 'sparring[postgresql]'") from error
        try:
            where = make_url(url)
        except (exc.ArgumentError, ValueError) as error:  # ValueError: a port that is no number
            raise UsageError(unknown) from error
        self.location = f"{where.render_as_string()}, schema {schema}"
        self.errors: tuple[type[Exception], ...] = (driver.Error, exc.SQLAlchemyError)
        self.integrity_error: type[Exception] = driver.IntegrityError
        self._schema = schema
        self._quoted = '"' + schema.replace('"', '""') + '"'
        settings = f"-csearch_path={self._quoted} -clock_timeout={round(1000 * lock_timeout)}"
        arguments = {"options": settings, "connect_timeout": max(2, round(lock_timeout))}
        where = where.set(drivername="postgresql+psycopg")
        self._engine = create_engine(where, connect_args=arguments, pool_pre_ping=True)

    def set_up(self) -> None:
        exists = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'ledger'"
        with self.connection() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_SET_UP_LOCK])
            if connection.execute(exists, [self._schema]).fetchone() is None:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self._quoted}")
                for statement in (_CREATE_TABLE, *_APPEND_ONLY_POSTGRESQL):
                    connection.execute(statement)
            connection.commit()

    @contextmanager
    def connection(self) -> Iterator[Any]:
        with closing(self._engine.raw_connection()) as pooled:
            connection: Any = pooled.dbapi_connection
            try:
                yield connection
            finally:
                if connection.closed:  # by the server
                    pooled.invalidate()

    def close(self) -> None:
        self._engine.dispose()


plugin = SqlLedger
