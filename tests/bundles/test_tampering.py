"""Whatever is changed in a bundle is found, and its place is named (X2)."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from orchestrator.application.publishing import bundles
from orchestrator.domain.text import printable
from orchestrator.errors import NotGenuine
from orchestrator.signatures import SigningKey

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("publication")]  # a season is played and published first
FINAL = "rounds/final/quarters"
INITIAL = "rounds/initial/quarters"
CHANGES = 60
"""Of single bytes, in each kind of bundle."""
PLAYER = Path(__file__).parent / "players" / "player.py"
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the group in which Ed25519 signs."""


def place_of(folder, *, key=None, against=None):
    """Returns what does not hold in a bundle, and where."""
    with pytest.raises(NotGenuine) as found:
        bundles.verify_bundle_or_receipt(folder, key, against)
    [problem] = found.value.problems
    return problem.place, problem.what


def names_of(folder):
    """Returns the names of a bundle's files."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["sealed-2", pytest.param("full", marks=pytest.mark.slow)])
def test_every_changed_byte_is_found(cup, copy, name):
    """Whatever single byte of whatever file is changed to whatever else, verification fails and names the file."""
    folder = copy(name)
    chance = random.Random(2026)
    names = names_of(folder)
    sizes = [(folder / each).stat().st_size for each in names]
    drawn = [*names * 2, *chance.choices(names, sizes, k=CHANGES - 2 * len(names))]
    key = cup.key.fingerprint
    for file in drawn:
        path = folder / file
        data = path.read_bytes()
        at, by = chance.randrange(len(data)), chance.randrange(1, 256)
        path.write_bytes(data[:at] + bytes([data[at] ^ by]) + data[at + 1 :])
        place, what = place_of(folder, key=key)
        assert place.startswith(file), (file, at, by, place, what)
        path.write_bytes(data)
    assert bundles.verify_bundle_or_receipt(folder, key).kind == name.partition("-")[0]


@pytest.mark.parametrize(
    ("file", "old", "new", "inside"),
    [
        ("contest.jsonl", "Laboratory", "laboratory", "contest.jsonl entry 1"),
        ("contest.jsonl", "Corner Shop", "Corner Shoe", "contest.jsonl"),
        (f"{FINAL}/ledger.jsonl", '"round":"final"', '"round":"fanil"', f"{FINAL}/ledger.jsonl entry 1"),
        (f"{FINAL}/pictures.jsonl", '"index":4', '"index":5', f"{FINAL}/pictures.jsonl line 5 index"),
        (f"{FINAL}/cells.jsonl", '"answers":[0', '"answers":[1', f"{FINAL}/cells.jsonl line"),
        (f"{FINAL}/results.json", '"rank":1', '"rank":2', f"{FINAL}/results.json boards [0] rows [0] rank"),
    ],
)
def test_the_place_inside_a_file_is_named(copy, file, old, new, inside):
    """Where what is in a file shows its change, the entry, the line or the number is named, not only the file."""
    path = copy("full") / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    place, what = place_of(path.parents[file.count("/")])
    assert place.startswith(inside)
    assert "signed" in what


DAMAGES = {
    "missing": lambda path: path.unlink(),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "renamed": lambda path: path.rename(path.with_name(path.name.upper())),
    "linked": lambda path: (path.unlink(), path.symlink_to(PLAYER)),
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["sealed-2", "full"])
def test_no_file_may_be_missing_or_another(copy, tmp_path, name, damage):
    """A file that is missing, cut, longer, renamed, a link, a folder or a pipe is found by its name."""
    original = copy(name)
    for file in names_of(original):
        folder = Path(shutil.copytree(original, tmp_path / "damaged"))
        path = folder / file
        DAMAGES[damage](path)
        place, _ = place_of(folder)
        assert place.lower() == file, (file, place)
        shutil.rmtree(folder)


def test_nothing_may_be_added(copy):
    """A file that is not listed, an empty folder, a pipe: each is found by its name."""
    folder = copy("full")
    for extra in ("extra", "blobs.bin.old", ".hidden", f"{FINAL}/answers.json", f"{FINAL}/\udcff"):
        path = folder / extra
        path.write_text("x")
        assert place_of(folder) == (
            printable(extra),
            "is not listed in manifest.json; nothing else may lie in a bundle",
        )
        path.unlink()
    for make in (Path.mkdir, os.mkfifo):
        make(folder / "rounds" / "more")
        assert place_of(folder)[0] == "rounds/more"
        (folder / "rounds" / "more").rmdir() if make is Path.mkdir else (folder / "rounds" / "more").unlink()


def test_another_key_is_found(cup, forge, tmp_path):
    """A bundle that was altered, chained again, counted again and signed with another key fails for that alone.

    Without a fingerprint it holds: that is what 'integrity only' means.
    """
    other = SigningKey.read_or_generate(tmp_path / "other")
    forged = forge("sealed-2", other)

    def flatter(cells):
        for cell in cells:
            if cell["defence"] == "defence_honest":
                cell["calls"] = "h" * len(cell["calls"])

    forged.lines(f"{FINAL}/cells.jsonl", flatter)
    forged.contest(lambda entries: entries[0]["event"].update(key_fingerprint=other.fingerprint))
    forged.recount()
    folder = forged.sign()
    assert bundles.verify_bundle_or_receipt(folder).key == other.fingerprint
    before, after = (
        json.loads((each / FINAL / "results.json").read_bytes())["boards"] for each in (cup.bundles["sealed-2"], folder)
    )
    assert before != after
    assert place_of(folder, key=cup.key.fingerprint) == (
        "manifest.sig",
        f"signed by {other.fingerprint}, not by {cup.key.fingerprint}",
    )
    assert bundles.verify_bundle_or_receipt(folder, other.fingerprint).contest == "lab"


def test_the_key_is_the_contests(forge, tmp_path):
    """A bundle that somebody else signed does not hold while the contest's ledger names the organizers' key."""
    folder = forge("sealed-2", SigningKey.read_or_generate(tmp_path / "other")).sign()
    assert place_of(folder) == ("manifest.json key", "is not what contest.jsonl says")


@pytest.mark.parametrize(
    "change",
    [
        lambda key, named, signature: f"{key}\n{named}\n{signature.upper()}\n",
        lambda key, named, signature: f"{key}\n{named}\n{signature}",
        lambda key, named, signature: f"{key}\n{named}\n{signature}\n\n",
        lambda key, named, signature: f"{key}\r\n{named}\r\n{signature}\r\n",
        lambda key, named, signature: f"{key}\n{named[7:]}\n{signature}\n",
        lambda key, named, signature: f"{key}\n{named}\n{larger(signature)}\n",
        lambda key, named, signature: f"{'00' * 32}\n{named}\n{signature}\n",
        lambda key, named, signature: f"{'ff' * 32}\n{named}\n{signature}\n",
        lambda _key, named, _signature: f"{'01' + '00' * 31}\n{named}\n{'01' + '00' * 63}\n",
        lambda key, named, signature: f"{signature[:64]}\n{named}\n{signature[64:]}{key}\n",
        lambda *_: "",
        lambda *_: "\n\n\n",
        lambda *_: "é" * 100,
    ],
)
def test_a_signature_has_one_form(cup, copy, change):
    """There is one text for a signature: no capitals, no other line ends, no second number that would also fit."""
    path = copy("sealed-2") / "manifest.sig"
    path.write_text(change(*path.read_text("ascii").split()), "utf-8", newline="")
    assert place_of(path.parent, key=cup.key.fingerprint)[0].startswith("manifest.sig")


def larger(signature):
    """Returns the same signature with its number made larger by the order of the group."""
    number = int.from_bytes(bytes.fromhex(signature[64:]), "little") + ORDER
    return signature[:64] + number.to_bytes(32, "little").hex()
