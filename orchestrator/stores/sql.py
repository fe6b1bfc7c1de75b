"""The ledger in a database: SQLite in a file by default, any other by its SQLAlchemy URL.

One table, one row an event. The database itself refuses to change or remove a row where it can (SQLite triggers); the
hash chain shows it where it cannot.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy import exc

from orchestrator.domain.events import Event
from orchestrator.errors import Conflict, StoreFault
from orchestrator.stores import base

_metadata = sa.MetaData()
_entries = sa.Table(
    "ledger",
    _metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time", sa.String(40), nullable=False),
    sa.Column("kind", sa.String(40), nullable=False, index=True),
    sa.Column("salt", sa.String(32), nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("previous", sa.String(71), nullable=False),
    sa.Column("hash", sa.String(71), nullable=False, unique=True),
)
_APPEND_ONLY = [
    f"CREATE TRIGGER IF NOT EXISTS ledger_no_{name} BEFORE {when} "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for name, when in (
        ("update", "UPDATE ON ledger"),
        ("delete", "DELETE ON ledger"),
        # INSERT OR REPLACE removes a row without firing a trigger on DELETE: https://www.sqlite.org/lang_conflict.html
        ("replace", "INSERT ON ledger WHEN EXISTS (SELECT 1 FROM ledger WHERE seq = NEW.seq OR hash = NEW.hash)"),
    )
]


class SqlLedger:
    """The ledger at a SQLAlchemy URL. Reading everything once finds where the chain ends."""

    def __init__(self, url: str) -> None:
        self._seq, self._head = 0, base.GENESIS
        with self._translated():
            self._engine = sa.create_engine(url)
            if self._engine.dialect.name == "sqlite":
                sa.event.listen(self._engine, "connect", _quick)
            _metadata.create_all(self._engine)
            if self._engine.dialect.name == "sqlite":
                with self._engine.begin() as connection:
                    for statement in _APPEND_ONLY:
                        connection.execute(sa.text(statement))
        for entry in self.read():
            self._seq, self._head = entry.seq, entry.hash

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self._head

    def append(self, *events: Event, time: str) -> None:
        """Adds events, all or none. Raises Conflict when another process appended first."""
        if not events:
            return
        seq, head = self._seq, self._head
        rows = []
        for event in events:
            entry = base.link(head, seq + 1, time, event, base.fresh_salt())
            seq, head = entry.seq, entry.hash
            rows.append(
                {
                    "seq": seq,
                    "time": time,
                    "kind": event.kind,
                    "salt": entry.salt,
                    "event": entry.text,
                    "previous": entry.previous,
                    "hash": head,
                }
            )
        with self._translated(), self._engine.begin() as connection:
            connection.execute(sa.insert(_entries), rows)
        self._seq, self._head = seq, head

    def read(self) -> Iterator[base.Entry]:
        """Yields every entry in order. Raises StoreFault at the first that does not continue the chain."""
        with self._translated(), self._engine.connect() as connection:
            rows = connection.execute(sa.select(_entries).order_by(_entries.c.seq)).all()
        previous = base.GENESIS
        for place, row in enumerate(rows, start=1):
            try:
                entry = base.relink(previous, row.seq, row.time, json.loads(row.event), row.salt)
            except (ValidationError, ValueError, TypeError, RecursionError) as error:
                raise StoreFault(f"ledger entry {place} is not an event of this version: {error}") from error
            same = row.event == entry.text and row.kind == entry.event.kind
            if not same or (row.seq, row.previous, row.hash) != (place, previous, entry.hash):
                raise StoreFault(f"ledger entry {place} does not continue the chain; the file was altered or damaged")
            previous = entry.hash
            yield entry

    def close(self) -> None:
        """Closes the connections."""
        self._engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except exc.IntegrityError as error:
            raise Conflict("another orchestrator appended to this ledger first; run one per round") from error
        except exc.SQLAlchemyError as error:
            raise StoreFault(f"the ledger cannot be used: {error}") from error


def _quick(connection: Any, _: object) -> None:
    """Lets SQLite write ahead: a killed process loses nothing, a power cut perhaps the last entries, never the chain.

    https://www.sqlite.org/pragma.html#pragma_synchronous
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


plugin = SqlLedger
