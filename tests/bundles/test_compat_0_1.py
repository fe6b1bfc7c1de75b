"""Bundles of earlier software, which did not count forfeits by reason nor know copies, hold all the same (X2)."""

import json

import pytest

from orchestrator.application.publishing import bundles
from orchestrator.bundles.reader import Bundle
from orchestrator.errors import NotGenuine

from .conftest import PICTURES, Forger

pytestmark = pytest.mark.xdist_group("publication")
ROUNDS = ("rounds/initial/quarters", "rounds/final/quarters")


def without_reasons(forged: Forger, *files: str) -> Forger:
    """Takes out of a bundle what earlier software did not write, and signs it."""

    def strip(document):
        for listed in ("submissions", "attacks", "replays", "work"):
            for part in document.get(listed, ()):
                for name in ("forfeit_reasons", "malformed", "fresh_copy"):
                    part.pop(name, None)

    for part in ROUNDS:
        for file in files:
            forged.document(f"{part}/{file}", strip)
    forged.sign()
    return forged


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


@pytest.mark.parametrize(("name", "files"), [("sealed-2", ("results.json", "round.json")), ("full", ("results.json",))])
def test_an_earlier_bundle_holds(cup, forge, name, files):
    """Without the counts of reasons everything else is counted again as before."""
    forged = without_reasons(forge(name), *files)
    found = bundles.verify_bundle_or_receipt(forged.folder, cup.key.fingerprint)
    assert found.pictures == 2 * PICTURES
    assert 100 < found.numbers < bundles.verify_bundle_or_receipt(cup.bundles[name], cup.key.fingerprint).numbers


def test_an_earlier_sealed_bundle_is_opened(cup, forge):
    """A full bundle of this software opens a sealed one of earlier software."""
    sealed = without_reasons(forge("sealed-2"), "results.json", "round.json").folder
    full = forge("full")
    published = Bundle.at(cup.bundles["sealed-2"]).digest

    def replace(entries):
        act = next(entry["event"] for entry in entries if entry.get("event", {}).get("digest") == published)
        act["digest"] = Bundle.at(sealed).digest

    full.contest(replace)
    assert bundles.verify_bundle_or_receipt(full.sign(), cup.key.fingerprint, sealed).opened == 2 * PICTURES


def test_an_earlier_bundle_of_somebody_disqualified_holds(forge):
    """Earlier software left the status of whom the organizers disqualified as it was; this software does not."""
    act = {"kind": "submission_disqualified", "by": "x", "id": "attack_tells", "reason": "y"}
    entry = {"seq": 0, "hash": "", "time": "2026-01-01T00:00:00Z", "salt": "0" * 32, "event": act}
    forged = forge("sealed-2")
    forged.contest(lambda entries: entries.append(entry))
    forged.recount()

    def before(document):
        part = next(part for part in document["submissions"] if part["id"] == "attack_tells")
        assert part["status"] == "disqualified"
        part["status"] = "played"

    for part in ROUNDS:
        forged.document(f"{part}/results.json", before)
    with pytest.raises(NotGenuine, match=r'status: is "played", and "disqualified" follows'):
        bundles.verify_bundle_or_receipt(forged.sign())
    assert bundles.verify_bundle_or_receipt(without_reasons(forged, "results.json", "round.json").folder)


def test_what_nothing_stands_behind_is_not_believed(forge):
    """Reasons in the results of a sealed bundle whose round.json does not count them are refused."""
    forged = without_reasons(forge("sealed-2"), "round.json")
    with pytest.raises(NotGenuine, match=r"tell why candidates do not count, and round\.json does not"):
        bundles.verify_bundle_or_receipt(forged.folder)


@pytest.mark.parametrize("file", ["results.json", "round.json"])
def test_some_of_it_is_no_earlier_form(forge, file):
    """Reasons that are left out in one place only are no bundle of any software."""
    forged = forge("sealed-2")
    listed, key = {"results.json": ("submissions", "forfeit_reasons"), "round.json": ("attacks", "malformed")}[file]
    forged.document(f"{ROUNDS[0]}/{file}", lambda document: document[listed][0].pop(key))
    forged.sign()
    with pytest.raises(NotGenuine, match=file):
        bundles.verify_bundle_or_receipt(forged.folder)
