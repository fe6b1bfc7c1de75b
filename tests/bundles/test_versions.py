"""A bundle and a receipt say of which version they are, and another version gets one clear error (X2)."""

import json
import re
from pathlib import Path

import pytest

from orchestrator.application.publishing import bundles
from orchestrator.bundles.encoding import encode
from orchestrator.bundles.layout import MANIFEST
from orchestrator.domain.ids import canonical_json
from orchestrator.errors import NotGenuine

from .conftest import PICTURES, Forger

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("publication")]  # a season is played and published first
BUNDLE_PAGE = Path(__file__).parents[2] / "docs" / "bundle.md"
ROUNDS = ("rounds/initial/quarters", "rounds/final/quarters")
REMEDY = "of version 1, made by version 0.1 of this software, which this version cannot read: play again"


def manifest_of(forged: Forger, **changes: object) -> None:
    """Changes the manifest of a bundle, also to what no manifest of this version holds."""
    body = json.loads((forged.folder / MANIFEST).read_bytes()) | changes
    (forged.folder / MANIFEST).write_bytes(encode(body))


def test_reasons_are_counted_in_both_kinds(cup):
    """What is sent over the wire and is no picture is told apart, sealed and full alike (A8, A14)."""
    for part in ROUNDS:
        results = [
            json.loads((cup.bundles[name] / part / "results.json").read_bytes()) for name in ("sealed-2", "full")
        ]
        for result in results:
            found = {one["id"]: one for one in result["submissions"]}
            reasons = found["attack_far"]["forfeit_reasons"]
            assert reasons["budget"] == reasons["shape"] == reasons["type"] + reasons["not_finite"] == 8
            assert min(reasons.values()) > 0
            assert sum(reasons.values()) == found["attack_far"]["forfeits"] == PICTURES
            assert found["attack_far"]["status"] == "played"
            assert found["attack_noop"]["forfeit_reasons"] == found["defence_honest"]["forfeit_reasons"] == {}


def test_a_bundle_says_its_version(cup):
    """The manifest, the contest's ledger and every round's ledger say that they are of version 2."""
    for name in ("sealed-2", "full"):
        folder = cup.bundles[name]
        assert json.loads((folder / MANIFEST).read_bytes())["sparring_bundle"] == 2
        ledgers = [folder / "contest.jsonl", *(folder / part / "ledger.jsonl" for part in ROUNDS if name == "full")]
        firsts = [json.loads(ledger.read_text("utf-8").splitlines()[0])["event"] for ledger in ledgers]
        assert [first["ledger_version"] for first in firsts] == [2] * len(ledgers)
        assert {first["software"] for first in firsts} == {json.loads((folder / MANIFEST).read_bytes())["software"]}


@pytest.mark.parametrize("kind", ["sealed-2", "full"])
@pytest.mark.parametrize(
    ("version", "said"), [(1, REMEDY), (3, "of version 3; this software reads version 2"), ("x", "of version x")]
)
def test_a_bundle_of_another_version_is_named(forge, kind, version, said):
    """Whatever else it holds, and whatever its signature is over, one error says which version made it."""
    forged = forge(kind)
    manifest_of(forged, sparring_bundle=version)
    with pytest.raises(NotGenuine, match=rf"^manifest\.json: is a bundle {said}"):
        bundles.verify_bundle_or_receipt(forged.folder)


def test_a_receipt_of_another_version_is_named(cup, tmp_path):
    """A receipt of version 1 had no version and other names; it gets the same error, not one about a field."""
    receipt = cup.path / "receipts" / "attack_tells.json"
    body = json.loads(receipt.read_text("utf-8"))
    assert body["sparring_receipt"] == 2
    first = {name: value for name, value in body.items() if name not in {"sparring_receipt", "attempts_left"}}
    for document, said in ((first | {"left": 2}, REMEDY), (body | {"sparring_receipt": 3}, "of version 3; this")):
        (tmp_path / "receipt.json").write_text(canonical_json(document), "utf-8")
        with pytest.raises(NotGenuine, match=rf"receipt\.json: is a receipt {said}"):
            bundles.verify_bundle_or_receipt(tmp_path / "receipt.json")


@pytest.mark.parametrize(
    ("file", "listed", "key"),
    [
        ("results.json", "submissions", "forfeit_reasons"),
        ("round.json", "attacks", "malformed"),
        ("round.json", "work", "fresh_copy"),
        ("results.json", "replays", "fresh_copy"),
    ],
)
def test_what_version_1_did_not_tell_is_required(forge, file, listed, key):
    """A field that is left out everywhere, as the first software did, is no form of a bundle any more."""
    forged = forge("sealed-2")
    for part in ROUNDS:
        forged.document(f"{part}/{file}", lambda document: [each.pop(key) for each in document[listed]])
    with pytest.raises(NotGenuine, match=rf"{file} {listed} 0 .*{key}"):
        bundles.verify_bundle_or_receipt(forged.sign())


def test_the_program_of_the_documentation_checks_a_chain(cup, copy, monkeypatch):
    """What docs/bundle.md gives for checking a chain by hand accepts every ledger and finds a changed entry."""
    [program] = re.findall(r"^```python\n(.+?)^```$", BUNDLE_PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for name in ("sealed-2", "full"):
        for ledger in ("contest.jsonl", *(f"{part}/ledger.jsonl" for part in ROUNDS)):
            monkeypatch.chdir(cup.bundles[name])
            exec(program.replace("contest.jsonl", ledger), {})  # noqa: S102  it is ours
    forged = copy("full") / "contest.jsonl"
    forged.write_text(forged.read_text("utf-8").replace('"attempt":1', '"attempt":2', 1), "utf-8")
    monkeypatch.chdir(forged.parent)
    with pytest.raises(AssertionError):
        exec(program, {})  # noqa: S102  as above
