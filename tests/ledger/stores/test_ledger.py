"""The append-only, hash-chained record (X2)."""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import rfc8785
from structlog.testing import capture_logs

from orchestrator.domain import contest_events
from orchestrator.domain.ids import canonical_json
from orchestrator.errors import Conflict, StoreFault
from orchestrator.ledger.stores import base
from orchestrator.ledger.stores.memory import MemoryLedger
from orchestrator.ledger.stores.sql import SqlLedger

COUNT = 5
EARLIER, LATER = "2026-03-01T07:00:00.000+00:00", "2026-03-01T09:00:00.000+00:00"


def sha256(text):
    """Returns a digest as the ledger writes it."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def chained(ledger, *them):
    """Returns the hash of the last of these events, in a few lines that share no code with the stores.

    The salts are the ledger's own.
    """
    head = "sha256:" + 64 * "0"
    for entry, (time, event) in zip(ledger.read(), them, strict=False):
        body = {"seq": entry.seq, "time": time, "salt": entry.salt, "event": json.loads(event.model_dump_json())}
        head = sha256(head + "\n" + sha256(rfc8785.dumps(body).decode()))
    return head


def test_an_empty_ledger_begins_at_zero(ledger):
    """Before the first entry the head is the hash of zeros, and there is nothing to read."""
    assert (ledger.head, list(ledger.read())) == (base.GENESIS, [])


def test_entries_come_back_in_order(ledger, event, time):
    """What was appended, in one go or several, is read as it was, numbered from 1."""
    ledger.append(event(0), event(1), time=time)
    ledger.append(event(2), time=LATER)
    entries = list(ledger.read())
    assert [(entry.seq, entry.event) for entry in entries] == [(n + 1, event(n)) for n in range(3)]
    assert [entry.time for entry in entries] == [time, time, LATER]
    assert [entry.previous for entry in entries] == [base.GENESIS, entries[0].hash, entries[1].hash]
    assert ledger.head == entries[2].hash


def test_the_hash_can_be_computed_by_anybody(ledger, event, time):
    """A leaf is the digest of the entry as canonical JSON; a hash is that of the hash before it, and the leaf (X2)."""
    ledger.append(event(0), time=time)
    ledger.append(event(1), event(2), time=LATER)
    assert ledger.head == chained(ledger, (time, event(0)), (LATER, event(1)), (LATER, event(2)))


def test_an_entry_can_be_withheld(ledger, event, time):
    """With an entry's leaf alone the chain still holds, and nobody can tell its event from another by the leaf."""
    ledger.append(event(0), event(0), time=time)
    first, second = ledger.read()
    assert first.leaf == sha256(
        canonical_json({"event": event(0).model_dump(mode="json"), "salt": first.salt, "seq": 1, "time": time})
    )
    assert sha256(sha256(base.GENESIS + "\n" + first.leaf) + "\n" + second.leaf) == ledger.head
    assert len({first.salt, second.salt}) == 2
    assert all(len(bytes.fromhex(entry.salt)) == 16 for entry in (first, second))


def test_every_store_has_the_same_chain(open_ledger, event, time, monkeypatch):
    """With the same salts the head does not depend on where a ledger is kept."""
    monkeypatch.setattr(base, "new_salt", lambda: "5a" * 16)
    ledgers = open_ledger(), MemoryLedger()
    for ledger in ledgers:
        ledger.append(event(1), event(2), time=time)
    assert ledgers[0].head == ledgers[1].head


def test_appending_nothing_is_nothing(ledger, event, time):
    """No events leave the ledger as it was."""
    ledger.append(event(0), time=time)
    head = ledger.head
    ledger.append(time=time)
    assert (ledger.head, len(list(ledger.read()))) == (head, 1)


def test_a_ledger_goes_on_where_it_ended(filled, open_ledger, event, time):
    """Opened again, it has its head and its entries, and takes the next."""
    ledger = open_ledger()
    assert ledger.head == chained(ledger, *((time, event(n)) for n in range(COUNT)))
    ledger.append(event(COUNT), time=time)
    assert [entry.event for entry in open_ledger().read()] == [event(n) for n in range(COUNT + 1)]


def test_somebody_else_was_faster(open_ledger, event, time):
    """Of two that append to one ledger the second gets a Conflict, and nothing of its events is kept."""
    first, second = open_ledger(), open_ledger()
    first.append(event(0), time=time)
    head = second.head
    with pytest.raises(Conflict, match=r"another process appended to .* first"):
        second.append(event(1), event(2), time=time)
    assert second.head == head
    assert [entry.event for entry in open_ledger().read()] == [event(0)]


def test_what_others_appended_is_learnt(open_ledger, event, time):
    """After a Conflict the new entries are read once, and the next append follows them."""
    first, second = open_ledger(), open_ledger()
    first.append(event(0), event(1), time=time)
    with pytest.raises(Conflict):
        second.append(event(2), time=time)
    assert [entry.event for entry in second.read_new()] == [event(0), event(1)]
    assert list(second.read_new()) == []
    second.append(event(2), time=time)
    assert second.head == list(open_ledger().read())[-1].hash
    assert [entry.event for entry in first.read_new()] == [event(2)]


def test_what_others_append_before_it_is_read_is_learnt_once(open_ledger, event, time):
    """Who reads a ledger and then what is new has each entry once, whenever others appended."""
    first, second = open_ledger(), open_ledger()
    first.append(event(0), time=time)
    assert list(second.read()) == []
    assert [entry.event for entry in (*second.read(), *second.read_new(), *second.read_new())] == [event(0)]
    reading = second.read()
    first.append(event(1), time=time)
    assert [entry.event for entry in (*reading, *second.read_new())] == [event(0), event(1)]


def test_what_others_altered_is_not_learnt(open_ledger, event, time, tamper):
    """New entries that do not continue the chain are refused by the number of the first."""
    first, second = open_ledger(), open_ledger()
    first.append(event(0), event(1), time=time)
    tamper("UPDATE ledger SET previous = 'x' WHERE seq = 2")
    with pytest.raises(StoreFault, match="ledger entry 2 does not continue the chain"):
        list(second.read_new())


def test_events_are_appended_all_or_none(filled, open_ledger, event, time, tamper):
    """When the second of three events meets a row that is there already, the first is not kept either."""
    ledger = open_ledger()
    tamper("INSERT INTO ledger VALUES (7, 'x', 'x', 'x', 'x', 'x', 'x')")
    with pytest.raises(Conflict):
        ledger.append(event(6), event(7), event(8), time=time)
    tamper("DELETE FROM ledger WHERE seq = 7")
    assert len(list(open_ledger().read())) == COUNT


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger SET time = 'x'",
        "UPDATE ledger SET event = event WHERE seq = 2",
        "DELETE FROM ledger",
        "DELETE FROM ledger WHERE seq = 5",
        "INSERT OR REPLACE INTO ledger VALUES (2, 'x', 'x', 'x', 'x', 'x', 'x')",
        "REPLACE INTO ledger SELECT seq, time, kind, salt, event, previous, 'x' FROM ledger WHERE seq = 5",
    ],
)
def test_the_database_refuses_to_change_a_row(filled, database, statement, open_ledger):
    """UPDATE, DELETE and REPLACE are refused by the database itself."""
    with (
        closing(sqlite3.connect(database)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"),
    ):
        connection.execute(statement)
    assert len(list(open_ledger().read())) == COUNT


def test_older_ledgers_get_the_triggers_too(filled, database, open_ledger, tamper):
    """Opening a ledger whose triggers were dropped puts them back."""
    tamper("SELECT 1")
    open_ledger()
    with closing(sqlite3.connect(database)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("DELETE FROM ledger")


ALTERED = {
    "time": ["2026-03-01T08:00:00.001+00:00", "", 5, b"\xff"],
    "kind": ["round_closed", ""],
    "salt": ["00" * 16, "", 5],
    "previous": ["", "sha256:" + "f" * 64],
    "hash": ["sha256:" + "f" * 64, "", 0],
    "seq": [0, -1, 100],
    "event": [
        '{"kind":"round_closed"}',
        '{"kind":"unknown"}',
        "",
        "null",
        "5",
        "[]",
        "{",
        "NaN",
        "[" * 100_000,
        b"\xff",
        "{}",
    ],
}


@pytest.mark.parametrize("row", [1, 3, 5])
@pytest.mark.parametrize(("column", "value"), [(column, value) for column, them in ALTERED.items() for value in them])
def test_a_changed_row_is_found(filled, open_ledger, tamper, row, column, value):
    """Whatever is written into any column of any row, reading ends with a StoreFault that names an entry (X2)."""
    ledger = open_ledger()
    tamper(f"UPDATE ledger SET {column} = ? WHERE seq = ?", value, row)  # noqa: S608  the columns are listed above
    # A row that was given another number is missed at its place, except where it now comes first.
    named = 1 if column == "seq" and value < 1 else row
    with pytest.raises(StoreFault, match=f"ledger entry {named} "):
        list(ledger.read())


@pytest.mark.parametrize("row", [1, 5])
@pytest.mark.parametrize("change", ["spaces", "order", "twice", "added", "number", "text"])
def test_a_changed_letter_is_found(filled, open_ledger, tamper, database, row, change):
    """An event must be its one canonical text: spaces, order, doubled keys and any changed value are found."""
    with closing(sqlite3.connect(database)) as connection:
        [(text,)] = connection.execute("SELECT event FROM ledger WHERE seq = ?", (row,)).fetchall()
    body = json.loads(text)
    changed = {
        "spaces": json.dumps(body, sort_keys=True, ensure_ascii=False),
        "order": json.dumps(dict(reversed(body.items())), separators=(",", ":"), ensure_ascii=False),
        "twice": text.replace('"job":', '"job":"other","job":', 1),
        "added": json.dumps(body | {"later": 1}, sort_keys=True, separators=(",", ":"), ensure_ascii=False),
        "number": json.dumps(body | {"step": row + 10}, sort_keys=True, separators=(",", ":"), ensure_ascii=False),
        "text": text.replace("☠", "x"),
    }[change]
    assert changed != text
    ledger = open_ledger()
    tamper("UPDATE ledger SET event = ? WHERE seq = ?", changed, row)
    with pytest.raises(StoreFault, match=f"ledger entry {row} "):
        list(ledger.read())


def test_a_changed_row_with_a_new_hash_is_found_at_the_next(filled, open_ledger, tamper, event, time):
    """Whoever computes the hash of a forged entry again breaks the chain behind it."""
    [first, second] = [entry for entry in open_ledger().read() if entry.seq <= 2]
    forged = base.make_entry(first.hash, 2, time, event(99), second.salt)
    body = canonical_json(event(99).model_dump(mode="json"))
    tamper("UPDATE ledger SET event = ?, hash = ? WHERE seq = 2", body, forged.hash)
    with pytest.raises(StoreFault, match="ledger entry 3 does not continue the chain"):
        list(open_ledger().read())


@pytest.mark.parametrize("row", range(1, COUNT))
def test_a_removed_row_is_found(filled, open_ledger, tamper, row):
    """A hole in the chain is found at its place."""
    tamper("DELETE FROM ledger WHERE seq = ?", row)
    with pytest.raises(StoreFault, match=f"ledger entry {row} "):
        list(open_ledger().read())


def test_a_cut_end_shows_in_the_head(filled, open_ledger, tamper, event, time):
    """The chain alone cannot tell that its end was cut off; its head, which the results record, can."""
    tamper("DELETE FROM ledger WHERE seq = ?", COUNT)
    cut = open_ledger()
    assert cut.head == chained(cut, *((time, event(n)) for n in range(COUNT - 1)))


def test_swapped_rows_are_found(filled, open_ledger, tamper):
    """Two entries in each other's place break the chain at the first."""
    tamper("UPDATE ledger SET seq = CASE seq WHEN 2 THEN -3 ELSE -2 END WHERE seq IN (2, 3)")
    tamper("UPDATE ledger SET seq = -seq WHERE seq < 0")
    with pytest.raises(StoreFault, match="ledger entry 2 "):
        list(open_ledger().read())


def test_an_added_row_is_found(filled, open_ledger, tamper):
    """A row that nobody chained is found."""
    tamper("INSERT INTO ledger SELECT 6, time, kind, salt, event, hash, 'x' FROM ledger WHERE seq = 5")
    with pytest.raises(StoreFault, match="ledger entry 6 "):
        list(open_ledger().read())


@pytest.mark.parametrize(
    "statement", ["UPDATE ledger SET time = 'x' WHERE seq = 2", "DELETE FROM ledger WHERE seq = 2"]
)
@pytest.mark.parametrize("use", ["append", "read_new"])
def test_a_broken_chain_is_found_by_who_does_not_read_it(filled, open_ledger, tamper, event, time, statement, use):
    """Who appends to a ledger or follows it, and did not read it first, is refused too, as often as it tries."""
    tamper(statement)
    ledger = open_ledger()
    for _ in range(2):
        with pytest.raises(StoreFault, match="ledger entry 2 does not continue the chain"):
            _ = ledger.append(event(COUNT), time=time) if use == "append" else list(ledger.read_new())
    assert ledger.head == open_ledger().head


def test_a_ledger_that_lost_its_end_since_it_was_opened_is_refused(filled, open_ledger, tamper):
    """What leads to another head than the one that was there when the ledger was opened is not the same ledger."""
    ledger = open_ledger()
    tamper("DELETE FROM ledger WHERE seq = ?", COUNT)
    with pytest.raises(StoreFault, match=f"ledger entry {COUNT} does not continue the chain"):
        list(ledger.read())


def test_what_was_read_before_the_damage_stays_good(filled, open_ledger, tamper, event):
    """Entries before the altered one are yielded; the fault comes at the altered one."""
    ledger = open_ledger()
    tamper("UPDATE ledger SET time = 'x' WHERE seq = 4")
    entries = ledger.read()
    assert [next(entries).event for _ in range(3)] == [event(n) for n in range(3)]
    with pytest.raises(StoreFault, match="ledger entry 4 does not continue the chain"):
        next(entries)


def test_times_never_run_backwards(ledger, event, time):
    """Where the clock is behind the last entry, the next one bears that entry's time, and the caller learns which."""
    assert ledger.append(event(0), time=time) == time
    assert ledger.append(event(1), event(2), time=EARLIER) == time
    assert ledger.append(event(3), time=LATER) == LATER
    assert [entry.time for entry in ledger.read()] == [time, time, time, LATER]


def test_times_never_run_backwards_between_processes(open_ledger, event, time):
    """What others appended counts, read with the ledger or learnt later; the operator is told once a process."""
    first = open_ledger()
    first.append(event(0), time=time)
    second = open_ledger()
    first.append(event(1), time=LATER)
    list(second.read_new())
    with capture_logs() as logs:
        assert second.append(event(2), time=EARLIER) == LATER
        assert second.append(event(3), time=EARLIER) == LATER
    assert [(line["event"], line["clock"], line["recorded"]) for line in logs] == [
        ("clock_behind_ledger", EARLIER, LATER)
    ]


@pytest.mark.parametrize(
    "written", ["later", "2026-03-01T08:00:00Z", "2026-03-01T08:00:00.000+01:00", "", f"{LATER}\n"]
)
def test_a_time_has_one_form(ledger, event, written):
    """Only times in UTC to the millisecond are taken, which sort as they follow each other; nothing is kept."""
    with pytest.raises(ValueError, match="is not a time of a ledger"):
        ledger.append(event(0), time=written)
    assert list(ledger.read()) == []


def test_a_chain_whose_times_run_backwards_is_refused(filled, open_ledger, tamper, event):
    """Whoever chains an entry anew with a time before that of the entry in front of it is found."""
    last = list(open_ledger().read())[-1]
    forged = base.make_entry(last.previous, COUNT, EARLIER, event(COUNT - 1), last.salt)
    tamper("UPDATE ledger SET time = ?, hash = ? WHERE seq = ?", EARLIER, forged.hash, COUNT)
    with pytest.raises(StoreFault, match=f"ledger entry {COUNT} does not continue the chain"):
        list(open_ledger().read())


OPENED = contest_events.ContestOpened(actor="x", contest={"title": "Cup"}, key_fingerprint="sha256:0", software="0.1.0")
REMEDY = "of version 1, made by version 0.1 of this software, which this version cannot read: play again"


def test_the_first_event_says_the_version(ledger, time):
    """A ledger of this software says in its first event, under every hash, that it is of version 2."""
    ledger.append(OPENED, time=time)
    [entry] = ledger.read()
    assert json.loads(entry.text)["ledger_version"] == 2


@pytest.mark.parametrize(("version", "said"), [(None, REMEDY), (1, REMEDY), (3, "of version 3; this software reads")])
def test_a_ledger_of_another_version_is_named(open_ledger, tamper, time, version, said):
    """One error says of which version a ledger is and what to do; that its chain holds changes nothing."""
    open_ledger().append(OPENED, time=time)
    [entry] = open_ledger().read()
    body = json.loads(entry.text) | {"ledger_version": version}
    text = canonical_json({key: value for key, value in body.items() if value is not None})
    leaf = base.leaf_hash(1, time, entry.salt, text)
    tamper("UPDATE ledger SET event = ?, hash = ?", text, base.entry_hash(base.GENESIS, leaf))
    with pytest.raises(StoreFault, match=rf"ledger\.sqlite is a ledger {said}"):
        list(open_ledger().read())


def test_a_ledger_of_the_first_release_is_named(database, open_ledger):
    """The table of 0.1.0, whose entries had no salt, gets the same error, and not one row is changed."""
    with closing(sqlite3.connect(database)) as connection:
        columns = "seq INTEGER PRIMARY KEY, time TEXT, kind TEXT, event TEXT, previous TEXT, hash TEXT"
        connection.execute(f"CREATE TABLE ledger ({columns})")
        connection.execute("INSERT INTO ledger VALUES (1, 't', 'round_closed', '{}', 'p', 'h')")
        connection.commit()
    with pytest.raises(StoreFault, match=rf"ledger\.sqlite is a ledger {REMEDY}"):
        open_ledger()
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT * FROM ledger").fetchall() == [(1, "t", "round_closed", "{}", "p", "h")]


def test_a_number_beyond_the_exact_integers_comes_back(ledger, time):
    """A contest file may hold a large double: it is written by RFC 8785 and read as the same number."""
    large = OPENED.model_copy(update={"contest": {"x": 1e20, "y": 2.0**53, "z": 1.0}})
    ledger.append(large, time=time)
    [entry] = ledger.read()
    assert entry.event == large
    assert '"contest":{"x":100000000000000000000,"y":9007199254740992,"z":1}' in entry.text


def test_a_file_that_is_no_database_is_named(database):
    """A file of something else is a StoreFault and is left alone."""
    database.write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreFault, match="file is not a database"):
        SqlLedger(f"sqlite:///{database}")
    assert database.read_bytes() == b"this is no database" * 100


def test_any_name_of_a_folder_is_a_name(tmp_path, event, time):
    """What means something in a URL, as `?`, `#` and `%`, means nothing in the path of a file."""
    folder = tmp_path / "round?mode=ro #1 100%25"
    folder.mkdir()
    ledger = SqlLedger(f"sqlite:///{folder}/ledger.sqlite")
    ledger.append(event(0), time=time)
    ledger.close()
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.sqlite")] == [Path(folder.name, "ledger.sqlite")]


def test_a_ledger_that_cannot_be_opened_is_a_fault_of_ours():
    """A folder that is missing is a StoreFault with its reason."""
    with pytest.raises(StoreFault, match="the ledger cannot be used: "):
        SqlLedger("sqlite:////no/such/folder/ledger.sqlite")
