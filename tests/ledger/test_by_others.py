"""What others need to verify a ledger and a receipt: a library for RFC 8785, SHA-256 and Ed25519, nothing of ours.

The functions below are what docs/bundle.md says, in another programmer's words.
"""

import hashlib
import json
import sqlite3
from contextlib import closing

import pytest
import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from orchestrator.bundles.receipts import Receipt, encode_receipt
from orchestrator.domain import contest_events
from orchestrator.ledger.stores.sql import SqlLedger
from orchestrator.signatures import SigningKey

TIMES = ("2026-03-01T08:00:00.000+00:00", "2026-03-01T08:00:01.500+00:00", "2026-03-01T09:00:00.000+00:00")
CONTEST = {"title": "Cup ☠", "\ufb33": 1, "\U0001f600": [1.0, 0.1, 1e-7, 1e21, None, True], "nested": {"b": 2, "a": 1}}


@pytest.fixture
def rows(tmp_path) -> list[dict[str, object]]:
    """The rows of a ledger's table, as any program reads them."""
    ledger = SqlLedger(f"sqlite:///{tmp_path}/contest.sqlite")
    opened = contest_events.ContestOpened(actor="desk", contest=CONTEST, key_fingerprint="sha256:0", software="0.2.0")
    people = [contest_events.PersonRecord(id="a@x.org", name="Ä")]
    ledger.append(opened, time=TIMES[0])
    ledger.append(contest_events.TeamAdded(actor="desk", team="Corner Shop", people=people), time=TIMES[1])
    ledger.append(contest_events.RejudgementDropped(actor="desk", rules={"share": 0.25}, reason="no"), time=TIMES[2])
    ledger.close()
    with closing(sqlite3.connect(tmp_path / "contest.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM ledger ORDER BY seq")]


def sha256(data: bytes) -> str:
    """Returns a digest as bundles write it."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def head_of(rows: list[dict[str, object]]) -> str:
    """Returns the hash of the last of these entries, from their events, salts, numbers and times alone."""
    head = "sha256:" + 64 * "0"
    for row in rows:
        entry = {"event": json.loads(str(row["event"])), "salt": row["salt"], "seq": row["seq"], "time": row["time"]}
        leaf = sha256(rfc8785.dumps(entry))
        head = sha256(f"{head}\n{leaf}".encode())
    return head


def signed_by(document: dict[str, object]) -> bool:
    """Returns whether a receipt is signed by its key."""
    said = {name: value for name, value in document.items() if name != "signature"}
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(str(document["key"])))
    try:
        key.verify(bytes.fromhex(str(document["signature"])), rfc8785.dumps(said))
    except InvalidSignature:
        return False
    return True


def test_others_compute_the_chain(rows):
    """Every hash of a ledger follows from its entries, and a changed one has another."""
    assert len(rows) == len(TIMES)
    for count, row in enumerate(rows, start=1):
        assert head_of(rows[:count]) == row["hash"]
        assert rfc8785.dumps(json.loads(str(row["event"]))) == str(row["event"]).encode()
    rows[1]["time"] = TIMES[0]
    assert head_of(rows) != rows[-1]["hash"]


def test_others_verify_a_receipt():
    """The signature of a receipt is over the RFC 8785 form of its other fields, and over every one of them."""
    receipt = Receipt.create_signed(
        SigningKey(bytes(range(32))),
        contest="cup",
        submission="noise",
        team="Corner Shop ☠",
        task="digits",
        side="attack",
        digest="sha256:0",
        received=TIMES[0],
        entry=7,
        head="sha256:1",
        attempt=1,
        attempts_left=2,
        warnings=["licence: missing"],
    )
    document = json.loads(encode_receipt(receipt.document()))
    assert signed_by(document)
    assert document["sparring_receipt"] == 2
    for name in document.keys() - {"signature", "key"}:
        assert not signed_by(document | {name: "another"})
