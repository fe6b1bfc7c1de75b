"""`sparring publish` and `sparring verify` as they are typed, and receipts."""

import json
import random
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.bundles import receipts
from orchestrator.cli.app import app
from orchestrator.errors import NotGenuine
from orchestrator.signatures import SigningKey

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("publication")]  # a season is played and published first
OTHER = "sha256:" + "0" * 64


def run(*arguments):
    """Runs a command; returns its exit code, what it printed, and what it printed to standard error."""
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def receipt(cup) -> Path:
    """A team's receipt."""
    return cup.path / "receipts" / "attack_tells.json"


def test_a_bundle_is_published_and_checked(cup, tmp_path):
    """What `publish` prints is the command that checks it, for any path; with --json it is one document."""
    copied = shutil.copytree(cup.path, tmp_path / "cup")
    code, out, err = run("publish", copied, "--sealed", "--out", tmp_path / "my bundle")
    assert (code, err) == (0, "")
    assert f"sparring verify '{tmp_path / 'my bundle'}' --key {cup.key.fingerprint}" in out.replace("\n", "")
    code, out, _ = run("publish", copied, "--full", "--out", tmp_path / "full", "--json")
    document = json.loads(out)
    assert (code, document["kind"], document["bundle"]) == (0, "full", str(tmp_path / "full"))
    code, out, _ = run("verify", tmp_path / "full", "--sealed", tmp_path / "my bundle", "--key", cup.key.fingerprint)
    assert code == 0
    assert "opened   48 commitments of the sealed bundle" in out
    assert run("publish", copied, "--sealed", "--full", "--out", tmp_path / "more")[0] == 2
    assert run("publish", copied, "--out", tmp_path / "full")[0] == 2


def test_without_a_key_it_says_so(cup):
    """'integrity only' is said clearly and is no failure; with the key it is not said."""
    code, out, _ = run("verify", cup.bundles["sealed-2"])
    assert code == 0
    assert "integrity only" in out
    code, out, _ = run("verify", cup.bundles["sealed-2"], "--key", cup.key.fingerprint)
    assert code == 0
    assert "the key you gave" in out
    assert "integrity only" not in out
    assert json.loads(run("verify", cup.bundles["full"], "--json")[1])["trust"] == "integrity only"
    document = json.loads(run("verify", cup.bundles["full"], "--json", "--key", cup.key.fingerprint)[1])
    assert (document["ok"], document["trust"], document["kind"]) == (True, "key", "full")


def test_what_does_not_hold_exits_with_1(copy, cup):
    """The first thing that does not hold is printed with its place, as text and as JSON, and the exit code is 1."""
    folder = copy("sealed-2")
    code, _, err = run("verify", folder, "--key", OTHER)
    assert code == 1
    assert f"manifest.sig: signed by {cup.key.fingerprint}, not by {OTHER}" in err.replace("\n", "")
    (folder / "contest.jsonl").unlink()
    code, out, _ = run("verify", folder, "--json")
    [problem] = json.loads(out)["error"]["problems"]
    assert (code, problem["place"], problem["what"]) == (1, "contest.jsonl", "is missing")


@pytest.mark.parametrize("key", ["", "sha256:", "sha256:" + "0" * 63, "0" * 64, "SHA256:" + "0" * 64, OTHER + "0"])
def test_a_mistyped_fingerprint_is_no_forgery(cup, key):
    """What is no fingerprint is the operator's mistake, with exit code 2."""
    assert run("verify", cup.bundles["sealed-2"], "--key", key)[0] == 2
    assert run("verify", cup.path / "nothing")[0] == 2


def test_a_receipt_is_genuine(cup, receipt):
    """A receipt is checked by the organizers' fingerprint: what was received, when, and how many attempts are left."""
    found = receipts.verify_receipt(receipt, cup.key.fingerprint)
    assert (found.receipt.submission, found.receipt.team, found.receipt.attempt) == ("attack_tells", "Corner Shop", 1)
    code, out, _ = run("verify", receipt, "--key", cup.key.fingerprint)
    assert code == 0
    assert "genuine" in out
    assert "attack_tells of Corner Shop" in out
    code, out, _ = run("verify", receipt)
    assert code == 0
    assert "integrity only" in out
    code, _, err = run("verify", receipt, "--key", OTHER)
    assert code == 1
    assert "signed by" in err
    assert run("verify", receipt, "--sealed", cup.bundles["sealed-2"])[0] == 2


def test_every_changed_byte_of_a_receipt_is_found(cup, receipt, tmp_path):
    """No single byte of a receipt can be another: words, numbers, spaces and the signature."""
    data = receipt.read_bytes()
    path = tmp_path / "receipt.json"
    chance = random.Random(1)
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ chance.randrange(1, 256)]) + data[at + 1 :])
        with pytest.raises(NotGenuine):
            receipts.verify_receipt(path, cup.key.fingerprint)
    path.write_bytes(data)
    assert receipts.verify_receipt(path, cup.key.fingerprint)


def test_a_receipt_has_one_form(cup, receipt, tmp_path):
    """A doubled key, another order, a manifest's signature, another's key: none is a receipt."""
    text = receipt.read_text("utf-8")
    body = json.loads(text)
    path = tmp_path / "receipt.json"
    other = SigningKey.read_or_generate(tmp_path / "other")
    for forged in (
        text.replace('"attempt": 1,', '"attempt": 3,\n  "attempt": 1,'),
        json.dumps(dict(reversed(body.items())), indent=2, ensure_ascii=False) + "\n",
        json.dumps(body | {"key": other.public_key.hex()}, indent=2, ensure_ascii=False) + "\n",
        json.dumps(body | {"attempts_left": 2.0}, indent=2, ensure_ascii=False) + "\n",
        json.dumps(body, ensure_ascii=False) + "\n",
        text * 2,
        "[]\n",
        "",
        "[" * 50_000,
        "x" * 100_000,
    ):
        path.write_text(forged, "utf-8")
        with pytest.raises(NotGenuine):
            receipts.verify_receipt(path, cup.key.fingerprint)
