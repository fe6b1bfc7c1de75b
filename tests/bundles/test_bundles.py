"""What is in a bundle, that it holds, and that it tells no more than it may (X2, A2)."""

import hashlib
import hmac
import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from orchestrator.application.contests import seasons
from orchestrator.application.publishing import bundles
from orchestrator.application.rounds import round_record
from orchestrator.bundles import bundle_records, sealed_lists
from orchestrator.domain import contest_events, events
from orchestrator.errors import NotGenuine, StoreFault, UsageError
from orchestrator.ledger.contest_folder import ContestFolder
from orchestrator.scoring.fault_texts import FAULT_TEXTS, first_messages

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("publication")]  # a season is played and published first
ROUNDS = ("rounds/initial/quarters", "rounds/final/quarters")
SEALED = ("sealed-1", "sealed-2")
EVERY = (*SEALED, "full", "pictures")
PICTURES = 24


def lines(path):
    """Returns the values of a file of lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def files(folder):
    """Returns the bytes of every file of a bundle, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def happened(cup, part):
    """Returns the events of a round's own ledger."""
    ledger = ContestFolder(cup.path).round(*part.split("/")[1:]).ledger()
    try:
        return [entry.event for entry in ledger.read()]
    finally:
        ledger.close()


def every(value):
    """Yields a JSON value and everything in it."""
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from every(each)


@pytest.mark.parametrize("name", EVERY)
def test_a_bundle_holds(cup, name):
    """What was published holds for whoever has the fingerprint, and everything in it was counted again."""
    found = bundles.verify_bundle_or_receipt(cup.bundles[name], cup.key.fingerprint)
    assert found.kind == ("sealed" if name in SEALED else "full")
    assert len(found.rounds) == (1 if name == "sealed-1" else 2)
    assert found.pictures == PICTURES * len(found.rounds)
    assert found.cells > 5 * len(found.rounds)
    assert found.numbers > 100
    assert (found.replays > 0) == (found.kind == "full")
    assert found.outcomes == {"sealed-1": 0, "sealed-2": 1, "full": 2, "pictures": 2}[name]


@pytest.mark.parametrize("part", ROUNDS)
def test_a_sealed_bundle_has_the_same_boards(cup, part):
    """Boards, cells and counts counted from letters are those that the organizers see; findings have other ids."""
    sealed = json.loads((cup.bundles["sealed-2"] / part / "results.json").read_text("utf-8"))
    text = (cup.path / part / "results.json").read_text("utf-8")
    for number, finding in enumerate(json.loads(text)["findings"], start=1):
        text = text.replace(finding["id"], f"finding-{number}")
    ours = json.loads(text)
    assert sealed["boards"] == ours["boards"]
    assert sealed["cells"] == ours["cells"]
    assert len(sealed["boards"]) == 2
    counts = ("id", "status", "forfeits", "forfeit_reasons", "violations", "sandboxes", "endings")
    assert [[one[key] for key in counts] for one in sealed["submissions"]] == [
        [one[key] for key in counts] for one in ours["submissions"]
    ]


@pytest.mark.parametrize("part", ROUNDS)
def test_a_full_bundle_has_the_same_results(cup, part):
    """The results of a full bundle are those of the contest's folder, measured times included."""
    full = json.loads((cup.bundles["full"] / part / "results.json").read_text("utf-8"))
    assert full == json.loads((cup.path / part / "results.json").read_text("utf-8"))


@pytest.mark.parametrize("part", ROUNDS)
def test_letters_are_counted_by_hand(cup, part):
    """Whoever counts the letters of a cell gets the counts on its line in the results."""
    folder = cup.bundles["sealed-2"] / part
    results = json.loads((folder / "results.json").read_text("utf-8"))
    counted = {(cell["defence"], cell["attack"]): cell for cell in results["cells"]}
    cells = lines(folder / "cells.jsonl")
    assert len(cells) == len(counted)
    for cell in cells:
        row = counted[cell["defence"], cell["attack"]]
        found = [cell["calls"].count(letter) for letter in "hfax"]
        assert found == [row["held"], row["fooled"] - row["faults"], row["abstained"], row["faults"]]
        assert sum(found) == row["total"] == PICTURES
    assert sum(cell["calls"].count("x") for cell in cells) > 0


@pytest.mark.parametrize("part", ROUNDS)
def test_commitments_open_by_hand(cup, labels, part):
    """With the secret alone anybody finds each picture's id, and that its commitment was to label and answers (X2)."""
    full, sealed = (cup.bundles[name] / part for name in ("full", "sealed-2"))
    secret = bytes.fromhex((full / "secret").read_text("ascii"))
    opened = json.loads((full / "ledger.jsonl").read_text("utf-8").splitlines()[0])["event"]
    assert opened["commitment"] == "sha256:" + hashlib.sha256(secret).hexdigest()
    answers = {(cell["defence"], cell["attack"]): cell["answers"] for cell in lines(full / "cells.jsonl")}
    calls = lines(sealed / "cells.jsonl")
    committed = lines(sealed / "pictures.jsonl")

    def mac(use, picture):
        return hmac.new(secret, f'["bundle","{use}",{picture}]'.encode(), hashlib.sha256).digest()

    places = {mac("picture", picture).hex()[:16]: picture for picture in range(PICTURES)}
    assert [line["id"] for line in committed] == sorted(places)
    for position, line in enumerate(committed):
        picture = places[line["id"]]
        said = [answers[cell["defence"], cell["attack"]][picture] for cell in calls]
        row = np.array([picture, labels[picture], *said], "<i4").tobytes()
        assert line["commitment"] == "sha256:" + hashlib.sha256(mac("salt", picture) + row).hexdigest()
        held = [cell["calls"][position] == "h" for cell in calls]
        assert held == [answer in {labels[picture], -3} for answer in said]


@pytest.mark.parametrize("name", SEALED)
def test_a_sealed_bundle_tells_no_label(cup, labels, name):
    """An attack that tells everybody the labels, on standard error and in its fault, is not heard in a sealed bundle.

    Nor is there any list that equals the labels, a batch of them, or the answers of any cell.
    """
    told = [",".join(map(str, labels[start : start + 8])) for start in range(0, PICTURES, 8)]
    heard = b"".join(path.read_bytes() for path in (cup.path / "blobs").rglob("*") if path.is_file())
    assert f"LABELS {told[0]}".encode() in heard  # it did say so, and we have it
    answers = [cell["answers"] for part in ROUNDS for cell in lines(cup.bundles["full"] / part / "cells.jsonl")]
    hidden = [labels, *(labels[start : start + 8] for start in range(0, PICTURES, 8)), *answers]
    for file, data in files(cup.bundles[name]).items():
        assert b"LABELS" not in data, file
        for text in told:
            for separator in (",", ", ", " ", ""):
                assert text.replace(",", separator).encode() not in data, file
        if file.endswith((".json", ".jsonl")):
            for value in every([json.loads(line) for line in data.splitlines()]):
                assert value not in hidden, file


@pytest.mark.parametrize("name", SEALED)
def test_a_sealed_bundle_tells_nothing_that_can_be_guessed(cup, name):
    """No digest of labels, pictures or answers, no job's id, no salt, no secret: trying all labels finds nothing."""
    text = b"".join(files(cup.bundles[name]).values()).decode("utf-8")
    seen = 0
    for part in ROUNDS:
        secret = (cup.path / part / "secret").read_bytes()
        withheld = {secret.hex()}
        for event in happened(cup, part):
            match event:
                case events.RoundOpened():
                    withheld |= {event.task.digest, event.task.pixels, event.task.labels}
                case events.StepFinished():
                    withheld |= {event.job, *event.blobs.values(), *(s.stderr for s in event.sandboxes if s.stderr)}
                case events.PlanMade():
                    withheld |= {key for job in event.jobs for key in (job.id, *job.keys)}
                case events.PlayClosed():
                    withheld.add(event.answers_digest)
                case events.FindingMade():
                    withheld |= {event.id, event.summary}
        seen += len(withheld)
        assert not [each for each in withheld if each.removeprefix("sha256:") in text]
    assert seen > 100


def test_a_finding_is_a_code(cup):
    """A sealed bundle says who was found out and of what kind, and no question, answer or picture of the evidence."""
    [finding] = json.loads((cup.bundles["sealed-1"] / ROUNDS[0] / "results.json").read_text("utf-8"))["findings"]
    assert (finding["submission"], finding["id"]) == ("defence_chance", "finding-1")
    assert finding["rules"]
    assert finding["compared"] > 0
    for empty in ("disagreements", "sequence", "steps", "seeds"):
        assert finding[empty] == []
    assert finding["answer_alone"] is None
    assert not any(character.isdigit() for character in finding["summary"])


def test_faults_are_codes(cup):
    """A fault's own words, which come from a submission, stay at home (A2)."""
    results = json.loads((cup.bundles["sealed-2"] / ROUNDS[0] / "results.json").read_text("utf-8"))
    faults = [fault for submission in results["submissions"] for fault in submission["faults"]]
    assert {fault["code"] for fault in faults} >= {"reported", "died"}
    assert {fault["message"] for fault in faults} <= set(FAULT_TEXTS.values())
    record, _ = round_record.read_round(cup.path / ROUNDS[0])
    assert any("LABELS" in text for text in first_messages(record.round).values())


@pytest.mark.parametrize("name", SEALED)
def test_measured_amounts_have_two_figures(cup, name):
    """What a submission can choose finely, its time and its bytes, is told roughly: labels could be written into it."""
    results = json.loads((cup.bundles[name] / ROUNDS[0] / "results.json").read_text("utf-8"))
    amounts = [
        submission[key]
        for submission in results["submissions"]
        for key in ("cpu_seconds", "peak_bytes", "bytes_in", "bytes_out")
        if submission[key]
    ]
    amounts += [job["seconds"] for job in results["jobs"] if job["seconds"]]
    assert len(amounts) > 20
    assert all(float(f"{amount:.1e}") == amount for amount in amounts)
    assert {submission["largest"] for submission in results["submissions"]} == {None}


@pytest.mark.parametrize("name", EVERY)
def test_nobody_is_named(cup, name):
    """People's addresses and names stay at home, also those in the reasons of a refusal; teams are shown."""
    text = b"".join(files(cup.bundles[name]).values()).decode("utf-8", "replace")
    for person in ("example.org", "institute.example", "Ada", "Eve", "bob"):
        assert person not in text
    contest = lines(cup.bundles[name] / "contest.jsonl")
    assert [line["public"] for line in contest if "public" in line] == [
        {"kind": "team_added", "organizers": 0, "people": 1, "team": "Corner Shop"},
        {"kind": "team_added", "organizers": 1, "people": 2, "team": "House"},
        {"kind": "submission_refused", "side": "attack", "task": "quarters", "team": "House", "arrival": ""},
    ]


def test_the_full_bundle_holds_no_words(cup, labels):
    """What players wrote to standard error is in no bundle, with pictures or without; labels are in the full ones."""
    for name in ("full", "pictures"):
        data = files(cup.bundles[name])
        assert b"LABELS" not in data["blobs.bin"]
        pictures = lines(cup.bundles[name] / ROUNDS[0] / "pictures.jsonl")
        assert [line["label"] for line in pictures] == labels


def test_pictures_are_there_when_asked_for(cup):
    """Only a bundle that was made with pictures holds them, and what the attacks made of them."""
    opened = next(event for event in happened(cup, ROUNDS[0]) if isinstance(event, events.RoundOpened))
    made = [
        event.blobs["candidates"] for event in happened(cup, ROUNDS[0]) if "candidates" in getattr(event, "blobs", {})
    ]
    assert made
    listed = {
        name: {line["digest"] for line in lines(cup.bundles[name] / "blobs.jsonl")} for name in ("full", "pictures")
    }
    wanted = {opened.task.pixels, *made}
    assert wanted <= listed["pictures"]
    assert not wanted & listed["full"]


def test_a_full_bundle_opens_sealed_ones(cup):
    """Every commitment of both sealed bundles opens to the labels and answers of the full one (X2)."""
    assert (
        bundles.verify_bundle_or_receipt(
            cup.bundles["full"], cup.key.fingerprint, cup.bundles["sealed-1"]
        ).commitments_opened
        == PICTURES
    )
    assert (
        bundles.verify_bundle_or_receipt(
            cup.bundles["full"], cup.key.fingerprint, cup.bundles["sealed-2"]
        ).commitments_opened
        == 2 * PICTURES
    )
    with pytest.raises(UsageError, match="only a full bundle opens a sealed one"):
        bundles.verify_bundle_or_receipt(cup.bundles["sealed-2"], None, cup.bundles["sealed-1"])


def test_publishing_is_an_act(cup):
    """Each bundle is on record with its kind and its manifest's digest, in the order in which they left."""
    ledger = ContestFolder(cup.path).ledger()
    try:
        noted = [entry.event for entry in ledger.read() if isinstance(entry.event, contest_events.BundlePublished)]
    finally:
        ledger.close()
    kinds = {"sealed-1": "sealed", "sealed-2": "sealed", "full": "full", "pictures": "full"}
    assert [(event.actor, event.bundle, event.digest) for event in noted] == [
        ("tester", kind, "sha256:" + hashlib.sha256((cup.bundles[name] / "manifest.json").read_bytes()).hexdigest())
        for name, kind in kinds.items()
    ]


def test_ids_are_in_another_order_in_every_round(cup):
    """A picture has another opaque id in each round, and its place among them tells nothing of its place."""
    names = [[line["id"] for line in lines(cup.bundles["sealed-2"] / part / "pictures.jsonl")] for part in ROUNDS]
    assert not set(names[0]) & set(names[1])
    assert all(one < other for each in names for one, other in pairwise(each))
    for part in ROUNDS:
        order = {line["id"]: line["index"] for line in lines(cup.bundles["full"] / part / "pictures.jsonl")}
        assert [order[name] for name in sorted(order)] != sorted(order.values())


def test_nothing_is_published_too_early(opened_cup, tmp_path):
    """Without a round there is no bundle, and none in full while a round with the same labels is to come."""
    cup = opened_cup()
    with seasons.administer(cup.path, "tester") as desk:
        with pytest.raises(UsageError, match="nothing to publish"):
            bundles.publish_bundle(desk, tmp_path / "out", "sealed")
        desk.append_event(
            contest_events.RoundPlayed(actor="tester", round="initial", task="quarters", head="sha256:" + "0" * 64)
        )
        with pytest.raises(UsageError, match="the final round of quarters was not played"):
            bundles.publish_bundle(desk, tmp_path / "out", "full")
        with pytest.raises(UsageError, match="holds no pictures"):
            bundles.publish_bundle(desk, tmp_path / "out", "sealed", pictures=True)
        with pytest.raises(UsageError, match="is there already"):
            bundles.publish_bundle(desk, tmp_path, "sealed")
    assert not list(tmp_path.iterdir())


def test_a_damaged_record_is_not_published(cup, tmp_path):
    """Without the secret that a round committed to nothing leaves the house, nothing is noted, nothing is left over."""
    copied = Path(shutil.copytree(cup.path, tmp_path / "cup"))
    (copied / ROUNDS[0] / "secret").write_bytes(bytes(32))
    with seasons.administer(copied, "tester") as desk:
        head = desk.head
        with pytest.raises(StoreFault, match="is not the secret that the round committed to"):
            bundles.publish_bundle(desk, tmp_path / "out", "sealed")
        assert desk.head == head
    assert [path.name for path in tmp_path.iterdir()] == ["cup"]


def test_what_does_not_hold_is_not_published(cup, tmp_path, monkeypatch):
    """A bundle is checked as anybody would before it leaves: a mistake of ours is found before it is public."""
    copied = Path(shutil.copytree(cup.path, tmp_path / "cup"))
    honest = bundle_records.encode_outcomes
    monkeypatch.setattr(sealed_lists, "encode_outcomes", lambda labels, answers: honest(labels, answers)[:-1] + "!")
    with seasons.administer(copied, "tester") as desk, pytest.raises(KeyError):
        bundles.publish_bundle(desk, tmp_path / "out", "sealed")
    monkeypatch.undo()
    monkeypatch.setattr(sealed_lists, "commitments", lambda _veil, labels, _cells: ["sha256:0"] * len(labels))
    with seasons.administer(copied, "tester") as desk, pytest.raises(NotGenuine, match=r"pictures\.jsonl line 1"):
        bundles.publish_bundle(desk, tmp_path / "out", "sealed")
    assert [path.name for path in tmp_path.iterdir()] == ["cup"]
