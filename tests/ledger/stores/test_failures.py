"""What power cuts, full disks and other programs do to the stores: nothing worse than losing the last entries."""

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from orchestrator.errors import StoreFault
from orchestrator.ledger.stores.folder import FolderBlobs
from orchestrator.ledger.stores.sql import LOCK_TIMEOUT_SECONDS, SqlLedger

PLACES = 400 if os.environ.get("SPARRING_SOAK") else 40
ENTRIES = 12
SEED = 3


@pytest.fixture(scope="session")
def cut_off(tmp_path_factory, event, time) -> tuple[bytes, bytes]:
    """A ledger and its write-ahead log as a kill leaves them: one entry in the file, the others in the log alone."""
    path = tmp_path_factory.mktemp("cut") / "ledger.sqlite"
    first = SqlLedger(f"sqlite:///{path}")
    first.append(event(0), time=time)
    first.close()
    ledger = SqlLedger(f"sqlite:///{path}")
    for number in range(1, ENTRIES):
        ledger.append(event(number), time=time)
    left = path.read_bytes(), path.with_name("ledger.sqlite-wal").read_bytes()
    ledger.close()
    return left


@pytest.fixture
def put(tmp_path) -> Callable[[bytes, bytes], Path]:
    """Puts a ledger and its write-ahead log into a new folder."""
    numbers = iter(range(10_000))

    def laid(file: bytes, log: bytes) -> Path:
        path = tmp_path / str(next(numbers)) / "ledger.sqlite"
        path.parent.mkdir()
        path.write_bytes(file)
        path.with_name("ledger.sqlite-wal").write_bytes(log)
        return path

    return laid


@contextmanager
def opened(path: Path, **how: float) -> Iterator[SqlLedger]:
    """Opens a ledger and closes it."""
    ledger = SqlLedger(f"sqlite:///{path}", **how)
    try:
        yield ledger
    finally:
        ledger.close()


def goes_on(path: Path, event, time) -> int:
    """Asserts that a ledger holds its first entries and takes the next one; returns how many it held."""
    with opened(path) as ledger:
        found = [entry.event for entry in ledger.read()]
        assert found == [event(number) for number in range(len(found))]
        ledger.append(event(len(found)), time=time)
    with opened(path) as again:
        assert [entry.event for entry in again.read()] == [*found, event(len(found))]
    return len(found)


@pytest.mark.slow
def test_a_write_ahead_log_that_was_cut_loses_its_last_entries(cut_off, put, event, time):
    """Cut anywhere, the ledger goes on after one of its entries, never with half of one; whole, it has them all."""
    file, log = cut_off
    chance = random.Random(SEED)
    assert goes_on(put(file, log), event, time) == ENTRIES
    places = sorted(chance.randrange(len(log)) for _ in range(PLACES))
    held = [goes_on(put(file, log[:place]), event, time) for place in places]
    assert held == sorted(held)
    assert min(held) >= 1
    assert len(set(held)) > ENTRIES / 2


def test_garbage_after_the_write_ahead_log_changes_nothing(cut_off, put, event, time):
    """Bytes that a power cut left behind the last entry are not read."""
    file, log = cut_off
    chance = random.Random(SEED)
    for size in (1, 24, 4096, 4120, 50_000):
        assert goes_on(put(file, log + chance.randbytes(size)), event, time) == ENTRIES


@pytest.mark.slow
def test_garbage_in_the_write_ahead_log_never_makes_an_entry(cut_off, put, event, time):
    """Where a page of it was not written through, the ledger goes on before it."""
    file, log = cut_off
    chance = random.Random(SEED)
    for _ in range(PLACES):
        place = chance.randrange(len(log) - 512)
        damaged = log[:place] + bytes(512) + log[place + 512 :]
        assert goes_on(put(file, damaged), event, time) <= ENTRIES


def test_a_ledger_that_was_cut_never_tells_something_else(cut_off, put, event, time):
    """A file that was cut is refused with its name and the remedy, or holds its first entries and goes on."""
    whole = put(*cut_off)
    with opened(whole) as ledger:
        ledger.append(event(ENTRIES), time=time)
    assert not whole.with_name("ledger.sqlite-wal").exists()
    file = whole.read_bytes()
    chance = random.Random(SEED)
    refusals = []
    for place in [0, 1, *(chance.randrange(len(file)) for _ in range(PLACES)), *range(4096, len(file), 4096)]:
        path = put(file[:place], b"")
        path.with_name("ledger.sqlite-wal").unlink()
        try:
            assert goes_on(path, event, time) <= ENTRIES
        except StoreFault as fault:
            refusals.append((path, str(fault)))
    assert len(refusals) > PLACES / 2
    for path, said in refusals:
        assert re.search(rf"{path}.*put it back from a copy of the folder", said)


def test_a_lock_is_waited_for(database, event, time):
    """A ledger that another program holds for a moment takes its entry when that one lets go."""
    with (
        opened(database, lock_timeout=20) as ledger,
        closing(sqlite3.connect(database, check_same_thread=False)) as other,
    ):
        other.execute("BEGIN EXCLUSIVE")
        release = threading.Timer(0.5, other.rollback)
        release.start()
        ledger.append(event(0), time=time)
        release.join()
        assert [entry.event for entry in ledger.read()] == [event(0)]


@pytest.mark.parametrize("statements", [["BEGIN EXCLUSIVE"], ["PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"]])
def test_a_lock_that_stays_is_named(filled, database, event, time, statements):
    """After its patience a StoreFault says which file is held, for how long, and what to do; nothing is kept."""
    assert LOCK_TIMEOUT_SECONDS == 10
    began = _clock()
    with closing(sqlite3.connect(database)) as other:
        for statement in statements:
            other.execute(statement)
        with (
            pytest.raises(StoreFault, match=rf"another program has held {database} for more than 0\.3 s .*end it"),
            opened(database, lock_timeout=0.3) as ledger,
        ):
            ledger.append(event(filled), time=time)
        assert 0.3 <= _clock() - began < 10
    assert goes_on(database, event, time) == filled


def _clock() -> float:
    return time.monotonic()


@pytest.mark.parametrize("leave", [0, 16384, 65536, 262_144])
def test_a_ledger_on_a_full_disk_keeps_what_it_has(small_disk, fill, event, time, leave):
    """The entry that does not fit is a StoreFault that names the file; the others stay, and with space it goes on."""
    path = small_disk / "ledger.sqlite"
    with opened(path) as ledger:
        ledger.append(event(0), time=time)
        ballast = fill(small_disk, leave)
        kept = 1
        with pytest.raises(StoreFault, match=rf"{path}: database or disk is full; see that its folder has space"):  # noqa: PT012  how many fit is not known
            while kept < 1000:
                ledger.append(event(kept), event(kept + 1), time=time)
                kept += 2
        head = ledger.head
        ballast.unlink()
        assert [entry.event for entry in ledger.read()] == [event(number) for number in range(kept)]
        assert ledger.head == head
    assert goes_on(path, event, time) == kept


def test_a_ledger_that_is_made_on_a_full_disk_is_made_later(small_disk, fill, event, time):
    """A ledger for which there is no space is a StoreFault; with space it is made where it was begun."""
    path = small_disk / "ledger.sqlite"
    ballast = fill(small_disk, 8192)
    with pytest.raises(StoreFault, match=rf"{path}: .*see that its folder has space"), opened(path):
        pass
    ballast.unlink()
    assert goes_on(path, event, time) == 0


@pytest.mark.parametrize("size", [5000, 60_000])
def test_a_pack_on_a_full_disk_keeps_what_it_has(small_disk, fill, size):
    """A blob that does not fit is a StoreFault, and leaves nothing in the pack; with space it is kept there."""
    blobs = FolderBlobs(small_disk / "blobs", pack=True)
    first = blobs.put(b"first")
    ballast = fill(small_disk, 4096 if size > 4096 * 4 else 0)
    [pack] = (small_disk / "blobs" / "packs").iterdir()
    before, data = pack.read_bytes(), random.Random(SEED).randbytes(size)
    with pytest.raises(StoreFault, match=rf"cannot keep a blob under {small_disk}/blobs: .*No space.*make space there"):
        blobs.put(data)
    assert pack.read_bytes() == before
    ballast.unlink()
    assert blobs.get(blobs.put(data)) == data
    assert blobs.get(first) == FolderBlobs(small_disk / "blobs").get(first) == b"first"


@pytest.mark.parametrize("size", [10, 5000, 2_000_000])
def test_blobs_on_a_full_disk_are_whole_or_not_there(small_disk, fill, size):
    """A blob that does not fit is a StoreFault that names the folder, and leaves nothing; with space it is kept."""
    blobs = FolderBlobs(small_disk / "blobs")
    first = blobs.put(b"first")
    ballast = fill(small_disk, 4096 if size > 4096 else 0)
    data = random.Random(SEED).randbytes(size)
    with pytest.raises(StoreFault, match=rf"cannot keep a blob under {small_disk}/blobs: .*No space.*make space there"):
        blobs.put(data)
    assert [path for path in small_disk.rglob("*") if path.is_file()] == [
        ballast,
        small_disk / "blobs" / first[7:9] / first[9:],
    ]
    ballast.unlink()
    assert blobs.get(blobs.put(data)) == data


_TRIAL = """
import resource, sys
from orchestrator.domain.events import RoundClosed
from orchestrator.errors import StoreFault
from orchestrator.ledger.stores.folder import FolderBlobs
from orchestrator.ledger.stores.sql import SqlLedger
from pathlib import Path
folder = Path(sys.argv[1])
ledger = SqlLedger(f"sqlite:///{folder}/ledger.sqlite")
ledger.append(RoundClosed(), time="2026-03-01T08:00:00.000+00:00")
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))
kept = 1
try:
    while kept < 1000:
        ledger.append(RoundClosed(), time="2026-03-01T08:00:00.000+00:00")
        kept += 1
except StoreFault as fault:
    print(fault)
try:
    FolderBlobs(folder / "blobs").put(bytes(100_000))
except StoreFault as fault:
    print(fault)
print(kept)
"""


@pytest.mark.slow
def test_a_file_that_may_not_grow_is_like_a_full_disk(tmp_path):
    """At a limit on the size of files both stores say so, keep what they have, and leave nothing half-written."""
    done = subprocess.run(
        [sys.executable, "-c", _TRIAL, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    ledger, blob, kept = done.stdout.splitlines()
    assert f"{tmp_path}/ledger.sqlite: disk I/O error; see that its folder has space" in ledger
    assert f"cannot keep a blob under {tmp_path}/blobs: [Errno 27] File too large" in blob
    assert 1 < int(kept) < 1000
    assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []
    with opened(tmp_path / "ledger.sqlite") as again:
        assert len(list(again.read())) == int(kept)


def test_a_blob_has_its_name_only_when_it_is_whole(tmp_path):
    """Killed the moment a blob gets its name, or before, a writer leaves it whole or not there."""
    trial = (
        "import os, signal, sys; from pathlib import Path; from orchestrator.ledger.stores.folder import FolderBlobs\n"
        "real = os.replace\n"
        "def die(source, target):\n"
        "    real(source, target); os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.replace = die\n"
        "FolderBlobs(Path(sys.argv[1])).put(b'0123456789' * 100)\n"
    )
    done = subprocess.run([sys.executable, "-c", trial, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    [left] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left.read_bytes() == b"0123456789" * 100
