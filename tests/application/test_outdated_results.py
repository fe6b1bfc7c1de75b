"""Files that are made of a contest's ledgers follow every act that changes them, and are never older than it."""

import json
from pathlib import Path

import pytest

from orchestrator.application.contests import report_writer
from orchestrator.domain import contest_events
from orchestrator.errors import Cancelled, UsageError

from .conftest import Cup

ROW = {"attack_honest": 0, "defence_honest": 1}


def results(cup: Cup) -> Path:
    """Returns where the results of the initial round lie."""
    return cup.folder.round("initial", "quarters").results_path


def row(cup: Cup, who: str) -> dict:
    """Returns a submission's row in the file."""
    board = json.loads(results(cup).read_text())["boards"][ROW[who]]
    return next(row for row in board["rows"] if row["submission"] == who)


def organize(desk) -> None:
    """Says that the one person of team One is of the organizing institution."""
    desk.add_team("One", [contest_events.PersonRecord(id="one", name="P. One", organizer=True)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "who", "key", "value"),
    [
        (lambda desk: desk.withdraw("attack_honest", "a bug"), "attack_honest", "reason", "withdrawn: a bug"),
        (lambda desk: desk.disqualify("defence_honest", "two"), "defence_honest", "reason", "disqualified: two"),
        (organize, "attack_honest", "no_prize", "a member is of the organizing institution (A5)"),
    ],
    ids=["withdraw", "disqualify", "organizer"],
)
def test_results_follow_an_act(played, act, who, key, value) -> None:
    """After the command that notes the act the folder's results, page and site say what the board says."""
    with played.desk() as desk:
        report_writer.write_contest_report(desk)
    assert row(played, who)[key] == ""
    with played.desk() as desk:
        act(desk)
    assert row(played, who)[key] == value
    page = (results(played).parent / "report" / "index.html").read_text()
    site = "".join(each.read_text() for each in (played.folder.path / report_writer.SITE).glob("*.html"))
    if key == "reason":
        assert value in page
        assert value in site


@pytest.mark.slow
def test_a_killed_command_leaves_no_results_that_are_wrong(played, monkeypatch) -> None:
    """Between the act and the new results there are none; the next command, whichever, writes them."""

    def killed(_: object) -> None:
        raise Cancelled("cancelled")

    def withdrawn() -> None:
        with monkeypatch.context() as patch, played.desk() as desk:
            patch.setattr(report_writer, "update_reports", killed)
            desk.withdraw("attack_honest", "a bug")

    with pytest.raises(Cancelled):
        withdrawn()
    assert not results(played).exists()
    with played.desk():
        assert row(played, "attack_honest")["reason"] == "withdrawn: a bug"


@pytest.mark.slow
def test_what_is_refused_changes_no_file(played) -> None:
    """An act about a submission that there is not leaves the results as they are."""
    before = results(played).read_bytes(), results(played).stat().st_mtime_ns
    with pytest.raises(UsageError, match="no submission 'nobody'"), played.desk() as desk:
        desk.withdraw("nobody", "a bug")
    assert (results(played).read_bytes(), results(played).stat().st_mtime_ns) == before


@pytest.mark.slow
def test_an_act_is_not_made_twice(played) -> None:
    """Who was withdrawn or disqualified is so already: a second reason would stand in place of the first."""
    with played.desk() as desk:
        desk.withdraw("attack_honest", "a bug")
        desk.disqualify("defence_honest", "two people, one team")
        with pytest.raises(UsageError, match="attack_honest was withdrawn already: a bug"):
            desk.withdraw("attack_honest", "another bug")
        with pytest.raises(UsageError, match="defence_honest was disqualified already: two people"):
            desk.disqualify("defence_honest", "three people")
        desk.disqualify("attack_honest", "found later")
    assert row(played, "attack_honest")["reason"] == "disqualified: found later"
    assert len(played.acts(contest_events.SubmissionWithdrawn)) == 1
