"""A bundle may come from anybody: what is wrong with it is said, nothing of it is run, and it takes no memory."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from orchestrator import plugins
from orchestrator.application.publishing import bundles
from orchestrator.bundles import encoding, packed_blobs, reader
from orchestrator.bundles.chain import read_chain
from orchestrator.bundles.encoding import encode
from orchestrator.bundles.layout import MANIFEST, MAX_REHASHED_BYTES, SIGNATURE
from orchestrator.bundles.packed_blobs import PackedBlobs
from orchestrator.bundles.reader import encode_signature
from orchestrator.bundles.round_checks import resolve_checked_rules
from orchestrator.domain import events
from orchestrator.domain.ids import digest
from orchestrator.errors import NotGenuine, StoreFault
from orchestrator.ledger.stores.base import get_array, put_array
from orchestrator.ledger.stores.memory import MemoryBlobs
from orchestrator.redaction import redact_full_event

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("publication")]  # a season is played and published first
FINAL = "rounds/final/quarters"
MEMORY = 3 * 1024**3
"""Bytes of address space that a verification may take."""


def place_of(folder):
    """Returns what does not hold in a bundle, and where."""
    with pytest.raises(NotGenuine) as found:
        bundles.verify_bundle_or_receipt(folder)
    [problem] = found.value.problems
    return problem.place, problem.what


def header(text):
    """Returns the beginning of an array in NumPy's format, with this header, as NumPy writes it."""
    line = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line


def pickled():
    """Returns an array that runs code when it is unpickled."""
    buffer = io.BytesIO()
    np.save(buffer, np.array([Path("run")], dtype=object), allow_pickle=True)
    return buffer.getvalue()


ARRAYS = {
    "pickled": pickled(),
    "huge": header("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }"),
    "overflowing": header("{'descr': '<i8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"),
    "negative": header("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }") + bytes(8),
    "short": header("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }") + bytes(15),
    "long": header("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }") + bytes(17),
    "truth": header("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }") + b"\x01\x02",
    "text": header("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }") + bytes(16),
    "structured": header("{'descr': [('a', 'O')], 'fortran_order': False, 'shape': (1,), }") + bytes(8),
    "code": header("__import__('os').getcwd()"),
    "nested": header("(" * 110),
    "nothing": b"",
    "version": b"\x93NUMPY\x03\x00" + bytes(100),
    "other": b"PK\x03\x04" + bytes(100),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_only_plain_arrays_are_read(name):
    """Pickles, headers that lie about sizes, and anything that is no array of numbers are refused, unread."""
    data = ARRAYS[name]
    index = encoding.encode({"digest": digest(data), "size": len(data)})
    blobs = PackedBlobs(io.BytesIO(data), len(data), io.BytesIO(index))
    with pytest.raises(NotGenuine, match=r"^blobs\.bin byte 0: (is no array|is not as long|holds a truth)"):
        blobs.get(digest(data))


def test_arrays_come_back(tmp_path):
    """Blobs that were packed are found by their digests; another is not there, and none can be added."""
    kept = MemoryBlobs()
    shapes = [(0,), (3,), (4, 3), (2, 1, 3, 3), ()]
    chance = np.random.default_rng(3)
    kinds = (np.int64, np.int32, np.uint8, np.float64, np.float32, np.bool_)
    arrays = [chance.integers(0, 2, shape).astype(kind) for shape in shapes for kind in kinds]
    arrays.append(np.asfortranarray(arrays[12]))
    names = [put_array(kept, array) for array in arrays]
    packed_blobs.write_blobs(kept, names, tmp_path)
    with (tmp_path / "blobs.bin").open("rb") as packed, (tmp_path / "blobs.jsonl").open("rb") as index:
        blobs = PackedBlobs(packed, (tmp_path / "blobs.bin").stat().st_size, index)
        for name, array in zip(names, arrays, strict=True):
            assert np.array_equal(get_array(blobs, name), array)
        assert list(blobs) == sorted(set(names))
        assert len(set(names)) > 20
        with pytest.raises(StoreFault, match="has no blob"):
            blobs.get("sha256:" + "0" * 64)
        with pytest.raises(StoreFault, match="only read"):
            blobs.put(b"")


@pytest.mark.parametrize(
    "index",
    [
        [("b", 1), ("a", 1)],
        [("a", 1), ("a", 1)],
        [("a", 1)],
        [("a", 3)],
        [("a", -1), ("b", 3)],
        [("a", 1 << 50)],
    ],
)
def test_an_index_fits_its_file(index):
    """Blobs are listed in the order of their digests, each once, and together they are the file."""
    lines = encoding.encode_lines({"digest": "sha256:" + name * 64, "size": size} for name, size in index)
    with pytest.raises(NotGenuine, match=r"^blobs\."):
        PackedBlobs(io.BytesIO(b"xx"), 2, io.BytesIO(lines))


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1, "b":2}\n',
        b'{"b":2,"a":1}\n',
        b'{"a":1,"a":1}\n',
        b'{"a":1}',
        b'{"a":1}\n\n',
        b'\xef\xbb\xbf{"a":1}\n',
        b'{"a":1.0e0}\n',
        b'{"a":1.0}\n',
        b'{"a":-0}\n',
        b'{"a":9007199254740993}\n',
        b'{"a":01}\n',
        b'{"a":NaN}\n',
        b'{"a":1e999}\n',
        b'{"a":"\\u0041"}\n',
        b'{"a":"\\ud800"}\n',
        b'{"a":"\xff"}\n',
        b'{"a":' + b"9" * 5000 + b"}\n",
        b"[" * 200_000 + b"\n",
        b"\n",
        b"",
    ],
)
def test_a_value_has_one_text(text):
    """What can be written in another way, or cannot be read, is refused."""
    with pytest.raises(NotGenuine, match=r"^here: is no canonical JSON"):
        encoding.decode(text, "here")


def test_an_entry_holds_no_number_that_no_ledger_writes():
    """A whole number beyond 2^53 is read as a float, fits a field of integers, and cannot be written again."""
    event = {"kind": "submission_received", "actor": "a", "id": "x", "name": "n", "team": "t", "task": "k"}
    event |= {"side": "attack", "digest": "d", "image": "i", "attempt": 2.0**53 + 2, "attempts_left": 0}
    line = {"seq": 1, "hash": "sha256:" + "0" * 64, "time": "2026-01-01T00:00:00.000+00:00", "salt": "0" * 32}
    with pytest.raises(NotGenuine, match=r"ledger\.jsonl entry 1: is no entry"):
        list(read_chain(io.BytesIO(encode(line | {"event": event})), "ledger.jsonl", redact_full_event))


def test_long_lines_end_the_reading(monkeypatch):
    """A line without an end is not read to its end."""
    monkeypatch.setattr(encoding, "MAX_LINE_BYTES", 1000)
    lines = encoding.decode_lines(io.BytesIO(encoding.encode(1) + b'"' + b"x" * 10_000), "f")
    assert next(lines) == ("f line 1", 1)
    with pytest.raises(NotGenuine, match="f line 2: is longer than 1000 bytes"):
        next(lines)


NAMES = ["../../escape", "/etc/passwd", "rounds/../../x", "rounds//x", "", ".", "contest.jsonl\x00", "C:\\x"]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_out(forge, name):
    """A manifest can list the files that a bundle has and no others, whatever their names."""
    forged = forge("sealed-2")

    def rename(manifest):
        manifest["files"][3]["name"] = name

    forged.document("manifest.json", rename)
    signed(forged)
    assert place_of(forged.folder)[0].startswith("manifest.json files")


@pytest.mark.parametrize("part", ["..", "../x", "/x", "a/b", "", "A", "x" * 65])
def test_no_round_leads_out(forge, part):
    """A round or a task whose name could be a path is none."""
    forged = forge("sealed-2")
    forged.document("manifest.json", lambda manifest: manifest["rounds"][0].update(task=part))
    signed(forged)
    assert place_of(forged.folder)[0].startswith("manifest.json rounds 0 task")


def signed(forged):
    """Signs a manifest as it stands, whatever it says."""
    data = (forged.folder / "manifest.json").read_bytes()
    (forged.folder / "manifest.sig").write_bytes(encode_signature(data, forged.key))


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("contest.jsonl", lambda entry: entry["event"].update(kind="no_such_kind")),
        ("contest.jsonl", lambda entry: entry["event"].update(kind="round_closed")),
        ("contest.jsonl", lambda entry: entry["event"].pop("contest")),
        ("contest.jsonl", lambda entry: entry.update(seq=-1)),
        ("contest.jsonl", lambda entry: entry.update(more=1)),
        ("contest.jsonl", lambda entry: entry.update(event=[])),
        ("contest.jsonl", lambda entry: entry.pop("event")),
        (f"{FINAL}/ledger.jsonl", lambda entry: entry.update(leaf=1)),
        (f"{FINAL}/ledger.jsonl", lambda entry: entry.update(event={"kind": "round_closed"})),
        (f"{FINAL}/cells.jsonl", lambda line: line.update(attack=[])),
        (f"{FINAL}/cells.jsonl", lambda line: line.update(calls="h" * 10_000)),
        (f"{FINAL}/cells.jsonl", lambda line: line.update(calls="\uff48" * 24)),
        (f"{FINAL}/pictures.jsonl", lambda line: line.update(id="../../../../etc")),
        (f"{FINAL}/results.json", lambda results: results.update(boards={})),
        (f"{FINAL}/results.json", lambda results: results["submissions"].clear()),
        (f"{FINAL}/results.json", lambda results: results["submissions"][0].update(id="\x1b[31m")),
        (f"{FINAL}/round.json", lambda round_: round_["opened"]["task"].update(count=10**12)),
        (f"{FINAL}/round.json", lambda round_: round_["opened"]["contest"].update(format="../base")),
        (f"{FINAL}/round.json", lambda round_: round_["opened"]["contest"].pop("limits")),
        (f"{FINAL}/round.json", lambda round_: round_["opened"]["contest"].update(rules={"clean_floor": "no"})),
        (f"{FINAL}/round.json", lambda round_: round_["opened"]["contest"].update(isolation="none")),
        (f"{FINAL}/round.json", lambda round_: round_["work"][0].update(submission="nobody")),
        (f"{FINAL}/round.json", lambda round_: round_["work"].clear()),
        (f"{FINAL}/round.json", lambda round_: round_["attacks"].clear()),
        (f"{FINAL}/round.json", lambda round_: round_["attacks"].append(round_["attacks"][0])),
        (f"{FINAL}/round.json", lambda round_: round_["attacks"][0].update(forfeits=10**9)),
        (f"{FINAL}/round.json", lambda round_: round_.update(replays=[{}])),
    ],
)
def test_nonsense_is_named(forge, file, change):
    """A bundle of nonsense that is signed properly ends in one clear sentence that names a place in it."""
    forged = forge("sealed-2")
    if file.endswith("jsonl"):
        forged.lines(file, lambda lines: change(lines[0]))
    else:
        forged.document(file, change)
    place, what = place_of(forged.sign())
    assert place.startswith(file.rpartition("/")[0] or "contest.jsonl"), (place, what)
    assert what.isprintable()


@pytest.mark.parametrize("number", ["1e-1000000000", "0." + "0" * 100 + "1", "0.1" + "0" * 100])
def test_numbers_of_rules_are_short(number):
    """A weight whose fraction would take all memory is refused before anything is counted with it."""
    opened = events.RoundOpened.model_construct(contest={})
    tournament = plugins.load_plugin("formats", "tournament")
    rules = tournament.rules_type.model_validate({"initial": {"weights": {"fgsm": number}}})
    with pytest.raises(NotGenuine, match="hold the number"):
        resolve_checked_rules(lambda *_: (tournament(rules), {}), None, opened)


OFFLINE = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('docker', 'torch', 'sklearn', 'kubernetes', 'requests', 'urllib3'):
            raise ImportError(name + ' is not there')
sys.meta_path.insert(0, Refused())
def refuse(*_, **__):
    raise OSError('no network')
socket.socket.connect = socket.create_connection = refuse
from orchestrator.cli.commands import main
sys.argv = ['sparring', 'verify', *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    "name",
    ["sealed-2", pytest.param("full", marks=pytest.mark.slow), pytest.param("pictures", marks=pytest.mark.slow)],
)
def test_nothing_but_the_bundle_is_needed(cup, copy, tmp_path, name):
    """Without docker, torch and network, in an empty folder, with little memory, a bundle is checked all the same."""
    folder = copy(name)
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE.format(memory=MEMORY), str(folder), "--key", cup.key.fingerprint],
        cwd=empty,
        env={"PATH": "/usr/bin", "HOME": str(empty), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the key you gave" in done.stdout
    assert "integrity only" not in done.stdout
    assert not list(empty.iterdir())


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("full", "blobs.bin"),
        ("full", "blobs.jsonl"),
        ("full", "contest.jsonl"),
        ("full", "rounds/initial/quarters/secret"),
        ("full", "rounds/initial/quarters/ledger.jsonl"),
        pytest.param("full", "rounds/initial/quarters/cells.jsonl", marks=pytest.mark.slow),
        pytest.param("full", "rounds/initial/quarters/attacks.jsonl", marks=pytest.mark.slow),
        pytest.param("full", "rounds/final/quarters/results.json", marks=pytest.mark.slow),
        pytest.param("sealed-2", "rounds/initial/quarters/round.json", marks=pytest.mark.slow),
        ("sealed-2", "rounds/initial/quarters/pictures.jsonl"),
        ("sealed-2", "rounds/final/quarters/results.json"),
    ],
)
def test_a_listed_file_of_any_size_is_not_read_whole(cup, forge, monkeypatch, name, file):
    """Twenty gibibytes of nothing, listed with their size, are refused by what belongs there; nobody hashes them."""
    forged = forge(name)
    size = 20 * 1024**3
    os.truncate(forged.folder / file, size)
    body = json.loads((forged.folder / MANIFEST).read_bytes())
    next(part for part in body["files"] if part["name"] == file)["size"] = size
    data = encode(body)
    (forged.folder / MANIFEST).write_bytes(data)
    (forged.folder / SIGNATURE).write_bytes(encode_signature(data, cup.key))
    hashed = []
    monkeypatch.setattr(reader, "file_digest", lambda opened: hashed.append(os.fstat(opened.fileno()).st_size) or "")
    with pytest.raises(NotGenuine):
        bundles.verify_bundle_or_receipt(forged.folder, cup.key.fingerprint)
    assert sum(hashed) <= MAX_REHASHED_BYTES


def test_a_blob_is_read_only_where_its_header_fits(tmp_path):
    """A stretch of nothing that is listed as an array of four gibibytes is refused by its first bytes."""
    packed = tmp_path / "blobs.bin"
    packed.touch()
    os.truncate(packed, packed_blobs.MAX_BLOB_BYTES)
    index = io.BytesIO(encode({"digest": "sha256:" + "1" * 64, "size": packed_blobs.MAX_BLOB_BYTES}))
    most = []

    class Reader(io.FileIO):
        def read(self, size=-1):
            most.append(size)
            return super().read(size)

    with Reader(packed) as file:
        blobs = packed_blobs.PackedBlobs(file, packed_blobs.MAX_BLOB_BYTES, index)
        with pytest.raises(NotGenuine, match="is no array of numbers"):
            blobs.get("sha256:" + "1" * 64)
    assert 0 < max(most) <= 1 << 17
