"""Receipts follow from the ledger: a lost one is written again, and the same bytes are received once. And their key."""

import shutil

import pytest

from orchestrator.application.contests import contest_receipts, seasons
from orchestrator.application.publishing import bundles
from orchestrator.bundles import receipts
from orchestrator.domain import contest_events
from orchestrator.errors import Rejected, StoreFault

from .conftest import Cup


def lose(cup: Cup) -> dict[str, bytes]:
    """Removes all receipts; returns what they were."""
    folder = cup.folder.path / "receipts"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(folder)
    return before


def kept(cup: Cup) -> dict[str, bytes]:
    """Returns the receipts that lie in the contest's folder."""
    return {path.name: path.read_bytes() for path in (cup.folder.path / "receipts").glob("*")}


def full(*_: object) -> None:
    """Stands for a disk without space."""
    raise StoreFault("cannot be written: No space left on device")


@pytest.mark.slow
def test_a_lost_receipt_is_written_again(cup) -> None:
    """Whatever command comes next writes the same bytes, from the ledger alone, after a correction too."""
    cup.submit("One", cup.player("attack_honest", licence="", source=""))
    cup.wait(hours=1)
    cup.submit("Two", cup.player("defence_honest"))
    with cup.desk() as desk:
        desk.correct_release("attack_honest", "late", licence="MIT", source=None)
        desk.withdraw("defence_honest", "a bug")
    before = lose(cup)
    with cup.desk():
        assert kept(cup) == before
    assert set(before) == {"attack_honest.json", "defence_honest.json"}
    (opened,) = cup.acts(contest_events.ContestOpened)
    for name in before:
        assert receipts.verify_receipt(cup.folder.path / "receipts" / name, opened.key_fingerprint)


@pytest.mark.slow
def test_a_receipt_that_a_full_disk_kept_back_costs_no_try(cup, monkeypatch) -> None:
    """The same command again, which the message asks for, gives the receipt of what was received (A4)."""
    with monkeypatch.context() as patch:
        patch.setattr(contest_receipts, "write_whole", full)
        with pytest.raises(StoreFault, match="No space left"):
            cup.submit("One", cup.player("attack_honest"))
    (received,) = cup.acts(contest_events.SubmissionReceived)
    assert kept(cup) == {}
    cup.wait(hours=1)
    receipt = cup.submit("One", cup.player("attack_honest"))
    assert (receipt.submission, receipt.attempt, receipt.attempts_left) == (received.id, 1, 2)
    assert receipt.received == "2026-03-01T12:00:00.000+00:00"
    assert cup.acts(contest_events.SubmissionReceived) == [received]
    assert set(kept(cup)) == {"attack_honest.json"}


@pytest.mark.slow
def test_a_receipt_that_cannot_be_written_keeps_nobody_from_working(cup, monkeypatch) -> None:
    """A full disk or a lost key leaves receipts to the next command; this one does what it was asked."""
    cup.submit("One", cup.player("attack_honest"))
    before = lose(cup)
    with monkeypatch.context() as patch:
        patch.setattr(contest_receipts, "write_whole", full)
        with cup.desk() as desk:
            assert list(desk.season.entries) == ["attack_honest"]
    (cup.folder.path / "key").rename(cup.path / "key")
    with cup.desk() as desk:
        desk.withdraw("attack_honest", "a bug")
    assert kept(cup) == {}
    (cup.path / "key").rename(cup.folder.path / "key")
    with cup.desk():
        assert kept(cup) == before


def test_the_same_bytes_are_received_once(cup) -> None:
    """Of the same team on the same task they are no second try, even after the last one, or after the close (A4)."""
    cup.write(submissions_per_team=1)
    first = cup.submit("One", cup.player("attack_honest"))
    cup.more = {"closes": "2026-03-01T12:30:00+00:00"}
    cup.write(submissions_per_team=1)
    cup.wait(hours=1)
    assert cup.submit("One", cup.player("attack_honest")) == first
    assert len(cup.acts(contest_events.SubmissionReceived)) == 1
    assert cup.acts(contest_events.SubmissionRefused) == []
    with pytest.raises(Rejected, match="submissions closed"):
        cup.submit("Two", cup.player("attack_honest"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("team", "task", "kind", "more"),
    [
        ("Two", "quarters", "attack_honest", {}),
        ("One", "halves", "attack_honest", {}),
        ("One", "quarters", "attack_noop", {}),
        ("One", "quarters", "attack_honest", {"licence": "Apache-2.0"}),
    ],
    ids=["team", "task", "command", "licence"],
)
def test_what_differs_is_received(cup, team, task, kind, more) -> None:
    """Another team, task, command or manifest is another submission."""
    cup.submit("One", cup.player("attack_honest", "first"))
    receipt = cup.submit(team, cup.player(kind, "first", **more), task)
    assert receipt.submission == "first-2"


@pytest.mark.slow
def test_what_was_withdrawn_can_be_handed_in_again(cup) -> None:
    """A team that takes it back and thinks better of it uses its next try (A4)."""
    cup.submit("One", cup.player("attack_honest"))
    with cup.desk() as desk:
        desk.withdraw("attack_honest", "a bug")
    assert cup.submit("One", cup.player("attack_honest")).attempt == 2


@pytest.mark.slow
def test_a_lost_key_is_not_drawn_again(cup) -> None:
    """Without it nothing is received or published, the fault is ours, and no command leaves another in its place."""
    cup.submit("One", cup.player("attack_honest"))
    cup.submit("Two", cup.player("defence_honest"))
    cup.play("initial")
    key = cup.folder.path / "key"
    key.unlink()
    with pytest.raises(StoreFault, match=r"key is missing: put it back from a copy of the folder"):
        cup.submit("Three", cup.player("defence_constant"))
    with cup.desk() as desk, pytest.raises(StoreFault, match="key is missing"):
        bundles.publish_bundle(desk, cup.path / "bundle", "sealed")
    assert not key.exists()
    assert not (cup.path / "bundle").exists()


@pytest.mark.slow
def test_a_bundle_is_signed_with_the_contests_key(cup) -> None:
    """Another key in its place is named before anything is written, as our fault and not the bundle's."""
    cup.submit("One", cup.player("attack_honest"))
    cup.submit("Two", cup.player("defence_honest"))
    cup.play("initial")
    (cup.folder.path / "key").write_bytes(b"x" * 32)
    with cup.desk() as desk, pytest.raises(StoreFault, match="the contest was opened with sha256:"):
        bundles.publish_bundle(desk, cup.path / "bundle", "sealed")
    assert [path.name for path in cup.path.iterdir() if "bundle" in path.name] == []


def test_an_opening_that_was_killed_keeps_its_key(empty) -> None:
    """A key that was drawn for a ledger without its first act is the contest's once it is opened."""
    empty.write()
    drawn = empty.folder.create_key()
    seasons.open_contest(empty.folder.path, "desk")
    (opened,) = empty.acts(contest_events.ContestOpened)
    assert opened.key_fingerprint == drawn.fingerprint
