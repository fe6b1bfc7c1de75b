"""What somebody kept from before: heads of ledgers and receipts, which a later bundle has to have."""

import json
from pathlib import Path

import pytest

from orchestrator.application.publishing import bundles
from orchestrator.bundles import receipts
from orchestrator.bundles.prior_evidence import PriorEvidence
from orchestrator.domain import contest_events
from orchestrator.errors import NotGenuine, UsageError

from .conftest import Forger

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("publication")]  # a season is played and published first
BUNDLES = ("sealed-2", "full")


def lines(bundle: Path, name: str = "contest.jsonl") -> list[dict]:
    """Returns the entries of a bundle's ledger."""
    return [json.loads(line) for line in (bundle / name).read_text("utf-8").splitlines()]


def receipt(cup, name: str = "attack_tells") -> Path:
    """Returns a team's receipt."""
    return cup.path / "receipts" / f"{name}.json"


def cut(forged: Forger) -> Path:
    """Takes the last entry out of the contest's ledger and signs the bundle anew, as its organizers could."""
    forged.contest(lambda entries: entries.pop())
    return forged.sign()


@pytest.mark.parametrize("name", BUNDLES)
def test_what_was_kept_is_found(cup, name):
    """Heads of the contest's ledger and of a round's, and receipts, are told with their entries."""
    bundle = cup.bundles[name]
    heads = [lines(bundle)[3]["hash"], lines(bundle, "rounds/initial/quarters/ledger.jsonl")[-1]["hash"]]
    found = bundles.verify_bundle_or_receipt(bundle, cup.key.fingerprint, evidence=PriorEvidence(heads, [receipt(cup)]))
    number = json.loads(receipt(cup).read_text("utf-8"))["entry"]
    last = len(lines(bundle, "rounds/initial/quarters/ledger.jsonl"))
    assert found.evidence_found == [
        "contest.jsonl entry 4",
        f"rounds/initial/quarters/ledger.jsonl entry {last}",
        f"contest.jsonl entry {number}",
    ]


def test_a_ledger_that_was_cut_is_found_by_a_head(cup, forge):
    """A bundle of a shorter ledger holds by itself; who kept the head that was there knows better."""
    kept = lines(cup.bundles["full"])[-1]["hash"]
    bundle = cut(forge("full"))
    assert bundles.verify_bundle_or_receipt(bundle, cup.key.fingerprint)
    with pytest.raises(NotGenuine, match=r"head: .* is the hash of no entry of a ledger here: it was cut or changed"):
        bundles.verify_bundle_or_receipt(bundle, cup.key.fingerprint, evidence=PriorEvidence([kept]))


def test_a_changed_ledger_is_found_by_a_receipt(cup, forge):
    """An act that was changed before the receipt's entry changes every hash after it, and the receipt has the old."""

    def change(entries):
        next(e for e in entries if e.get("event", {}).get("kind") == "contest_opened")["event"]["actor"] = "somebody"

    forged = forge("full")
    forged.contest(change)
    with pytest.raises(
        NotGenuine, match=r"receipt attack_tells\.json: is for contest\.jsonl entry \d+, which is another"
    ):
        bundles.verify_bundle_or_receipt(
            forged.sign(), cup.key.fingerprint, evidence=PriorEvidence(receipts=[receipt(cup)])
        )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attempt": 3}, "says something else than contest.jsonl entry"),
        ({"received": "2026-01-01T00:00:00.000+00:00"}, "says something else"),
        ({"entry": 10_000}, "is another here or is not there"),
        ({"contest": "other"}, "is of the contest other"),
    ],
)
def test_a_receipt_has_to_say_what_the_ledger_says(cup, tmp_path, changes, said):
    """What the organizers signed for a team and what they show to everybody are one thing."""
    body = json.loads(receipt(cup).read_text("utf-8")) | changes
    body = {name: value for name, value in body.items() if name not in {"key", "signature"}}
    path = tmp_path / "receipt.json"
    path.write_bytes(receipts.encode_receipt(receipts.Receipt.create_signed(cup.key, **body).document()))
    assert bundles.verify_bundle_or_receipt(path, cup.key.fingerprint)
    with pytest.raises(NotGenuine, match=said):
        bundles.verify_bundle_or_receipt(
            cup.bundles["full"], cup.key.fingerprint, evidence=PriorEvidence(receipts=[path])
        )


def test_what_cannot_be_held_is_usage(cup):
    """A head that is no hash, a receipt that is not there, and anything held against a receipt."""
    for held, said in (
        (PriorEvidence(["sha256:1"]), "is no hash of an entry"),
        (PriorEvidence(receipts=[Path("/no")]), "there is no"),
    ):
        with pytest.raises(UsageError, match=said):
            bundles.verify_bundle_or_receipt(cup.bundles["full"], evidence=held)
    with pytest.raises(UsageError, match="a receipt is checked alone"):
        bundles.verify_bundle_or_receipt(receipt(cup), evidence=PriorEvidence([lines(cup.bundles["full"])[0]["hash"]]))


@pytest.mark.parametrize("name", BUNDLES)
def test_times_that_run_backwards_are_refused(cup, forge, name):
    """No ledger has a time before that of an entry in front of it, so a bundle that has one is refused (A16)."""

    def set_back(entries):
        act = next(
            e
            for e in entries
            if e.get("event", {}).get("kind") == contest_events.RoundPlayed.model_fields["kind"].default
        )
        act["time"] = "2020-01-01T00:00:00.000+00:00"

    forged = forge(name)
    forged.contest(set_back)
    with pytest.raises(NotGenuine, match=r"contest\.jsonl entry \d+: is of 2020-01-01T.* times never run backwards"):
        bundles.verify_bundle_or_receipt(forged.sign(), cup.key.fingerprint)


@pytest.mark.parametrize(("name", "kind"), [("full", "step_finished"), ("sealed-2", "round_closed")])
def test_times_of_a_round_that_run_backwards_are_refused(forge, name, kind):
    """The same holds in a round's ledger, as far as its entries are shown."""
    part = "rounds/initial/quarters"

    def set_back(entries):
        act = [each for each in entries if each.get("event", {}).get("kind") == kind][-1]
        act["time"] = "2020-01-01T00:00:00.000+00:00"

    forged = forge(name)
    forged.round(part, set_back)
    with pytest.raises(NotGenuine, match=rf"{part}/ledger\.jsonl entry \d+: is of 2020-01-01T.* never run backwards"):
        bundles.verify_bundle_or_receipt(forged.sign())
