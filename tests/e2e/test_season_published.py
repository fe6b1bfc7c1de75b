"""What the season of examples/tournament/ shows to the outside: receipts, results, bundles (A2, X2)."""

import json
import shutil
from pathlib import Path

import pytest
import rfc8785
from typer.testing import CliRunner

from orchestrator.application.rounds import round_record
from orchestrator.cli.app import app
from orchestrator.domain.season import Season
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.ledger.season_fold import fold_season
from orchestrator.signatures import fingerprint, verify_signature
from tests.blob_files import find_blob

pytestmark = [pytest.mark.xdist_group("season"), pytest.mark.timeout(900)]
WRITTEN = {".json", ".csv", ".html", ".md", ".parquet", ".txt", ".svg"}


def folded(cup: Path) -> Season:
    """Returns what the contest's ledger tells."""
    ledger = ContestFolder(cup).ledger()
    try:
        return fold_season(ledger.read())
    finally:
        ledger.close()


def test_every_receipt_verifies(season) -> None:
    """Each received submission has a receipt under the contest's key, and a changed one does not verify."""
    opened = folded(season).opening
    entries = folded(season).entries
    assert {path.stem for path in (season / "receipts").iterdir()} == set(entries)
    for name, entry in entries.items():
        receipt = json.loads((season / "receipts" / f"{name}.json").read_text("utf-8"))
        signature, key = bytes.fromhex(receipt.pop("signature")), bytes.fromhex(receipt["key"])
        assert fingerprint(key) == opened.key_fingerprint
        assert (receipt["digest"], receipt["received"]) == (entry.digest, entry.received_at)
        assert verify_signature(key, signature, canonical(receipt))
        assert not verify_signature(key, signature, canonical(receipt | {"attempt": receipt["attempt"] + 1}))


def canonical(document: dict) -> bytes:
    """Returns the bytes that are signed: JSON in the form of RFC 8785, as docs/seasons.md says."""
    return rfc8785.dumps(document)


def test_a2_nothing_that_an_attack_says_is_written_down(season) -> None:
    """A2: labels that an attack prints are in its log's blob, and in no result, report, receipt, board or bundle."""
    record, _ = round_record.read_round(season / "rounds" / "initial" / "digits")
    said = [record.round.sandboxes_of("aloud")]
    labels = record.samples.labels
    logs = [find_blob(season / "blobs", s.stderr).read() for sandboxes in said for s in sandboxes if s.stderr]
    assert b"".join(logs).count(b"the label is ") >= len(labels)

    written = [path for path in season.glob("rounds/**/*") if path.is_file() and path.suffix in WRITTEN]
    written += [*season.glob("receipts/*"), season.parent / "shown.txt", season.parent / "said.txt"]
    written += [path for name in ("sealed", "full") for path in (season.parent / name).rglob("*") if path.is_file()]
    assert {path.name for path in written} >= {"results.json", "cells.csv", "index.html", "shown.txt", "manifest.json"}
    for path in written:
        assert b"label is" not in path.read_bytes(), path


@pytest.mark.parametrize("bundle", ["sealed", "full"])
def test_x2_strangers_recompute_the_season(season, bundle) -> None:
    """X2: both bundles hold under the contest's key, with all eight rounds and both promotions of every task."""
    done = verify(season.parent / bundle, "--key", folded(season).opening.key_fingerprint)
    assert done.exit_code == 0, done.output
    assert "in 8 results files follow from them" in done.stdout
    assert "outcomes 4," in done.stdout
    assert "the key you gave" in done.stdout


def test_x2_a_bundle_of_another_season_is_not_believed(season, tmp_path) -> None:
    """X2: one byte of a published results file changed, and `verify` names the file; so it does with another key."""
    copy = tmp_path / "sealed"
    shutil.copytree(season.parent / "sealed", copy)
    changed = copy / "rounds" / "final" / "digits" / "results.json"
    changed.chmod(0o644)
    changed.write_bytes(
        changed.read_bytes().replace(b'"rank": 1', b'"rank": 2', 1).replace(b'"rank":1', b'"rank":2', 1)
    )
    done = verify(copy, "--key", folded(season).opening.key_fingerprint)
    assert done.exit_code == 1
    assert "rounds/final/digits/results.json" in done.output
    assert verify(season.parent / "sealed", "--key", "sha256:" + "0" * 64).exit_code == 1


def test_a2_the_sealed_bundle_has_no_labels_and_no_people(season) -> None:
    """A2: before the release neither a label's blob, nor an answer, nor a person's address is in what is published."""
    files = [path for path in (season.parent / "sealed").rglob("*") if path.is_file()]
    everything = b"".join(path.read_bytes() for path in files)
    assert b"example.org" in everything, "sources are public"
    for team in folded(season).teams.values():
        for person in team:
            assert person.id.encode() not in everything
    assert not any(path.suffix in {".npy", ".npz", ".sqlite"} for path in files)


def verify(bundle: Path, *options: str):
    """Runs `sparring verify`."""
    return CliRunner().invoke(app, ["verify", str(bundle), *options])


def test_report_writes_every_round_again(season) -> None:
    """For a contest folder `sparring report` folds every round of every task from its ledger, with the same results."""
    results = sorted(season.glob("rounds/*/*/results.json"))
    before = [path.read_bytes() for path in results]
    page = season / "rounds" / "final" / "digits" / "report" / "index.html"
    page.unlink()
    done = CliRunner().invoke(app, ["report", str(season)])
    assert done.exit_code == 0, done.output
    assert [path.read_bytes() for path in results] == before
    assert page.exists()
    assert len(results) == 8
