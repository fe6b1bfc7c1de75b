"""Organizers close submissions and open them again: one act, and everybody who receives something agrees."""

import json
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from orchestrator.application.contests import seasons, submission_closing
from orchestrator.application.contests.closing_preview import UploadUnderWay, closing_preview
from orchestrator.application.contests.submission_window import submission_window
from orchestrator.application.submissions import trial_match_setup
from orchestrator.cli.app import app
from orchestrator.domain import contest_events
from orchestrator.domain.season import Closing
from orchestrator.errors import Rejected, UsageError
from orchestrator.formats.tournament.events import FinalistsPromoted

from .conftest import NOON
from .test_arrivals import admit, arrive, close_at, upload

SAID = r"the organizers closed submissions at 2026-03-01T13:00:00.000\+00:00 \(enough\), and this was not here by then"


def close(cup, reason: str = "enough") -> Closing:
    """Closes submissions in the organizers' name."""
    with cup.desk() as desk:
        return submission_closing.close_submissions(desk, reason)


def reopen(cup, reason: str = "a day more"):
    """Opens them again."""
    with cup.desk() as desk:
        return submission_closing.reopen_submissions(desk, reason)


def close_at_one(cup) -> None:
    """Closes submissions at one o'clock."""
    cup.wait(hours=1)
    close(cup)


def test_closing_is_an_act_with_its_actor_and_reason(cup) -> None:
    """The ledger has who, when and why."""
    close_at_one(cup)
    [event] = cup.acts(contest_events.SubmissionsClosed)
    assert (event.actor, event.reason, cup.entries()[-1].time) == ("desk", "enough", "2026-03-01T13:00:00.000+00:00")
    with cup.desk() as desk:
        assert desk.season.closing == Closing("desk", "enough", "2026-03-01T13:00:00.000+00:00")


def test_nothing_is_received_after_the_close(cup) -> None:
    """An upload and the desk are refused with one sentence that says when and how; no arrival is noted."""
    close_at_one(cup)
    cup.wait(days=1)
    with pytest.raises(Rejected, match=SAID):
        arrive(cup, upload(cup))
    with pytest.raises(Rejected, match=SAID):
        cup.submit("One", cup.player("attack_honest"))
    assert cup.acts(contest_events.SubmissionArrived) == cup.acts(contest_events.SubmissionReceived) == []


@pytest.mark.parametrize("after", [timedelta(), timedelta(days=3)], ids=str)
def test_what_arrived_before_the_close_is_admitted_after_it(cup, after) -> None:
    """An arrival counts that stands before the close in the ledger, also one of the same millisecond."""
    arrival = arrive(cup, upload(cup))
    close(cup)
    cup.wait(seconds=after.total_seconds())
    assert admit(cup, arrival.id).outcome == "received"


@pytest.mark.parametrize(("seconds", "counts"), [(0.001, True), (0, False)])
def test_a_file_that_was_whole_before_the_close_counts(cup, seconds, counts) -> None:
    """Its digest takes a while, and the organizers close meanwhile: the moment of its last byte decides."""
    close_at_one(cup)
    last_byte = cup.clock() - timedelta(seconds=seconds)
    cup.wait(seconds=1)
    if counts:
        arrival = arrive(cup, upload(cup), now=last_byte)
        assert admit(cup, arrival.id).outcome == "received"
    else:
        with pytest.raises(Rejected, match=SAID):
            arrive(cup, upload(cup), now=last_byte)


def test_what_is_tried_while_submissions_close_is_refused(cup, monkeypatch) -> None:
    """What is submitted at the desk is received when its trial match is over: the close comes before that."""

    def match_and_close(*_):
        with seasons.open_ledger(cup.folder.path, "other", cup.clock) as other:
            submission_closing.close_submissions(other)
        return [], []

    monkeypatch.setattr(trial_match_setup, "play_trial_match", match_and_close)
    with pytest.raises(Rejected, match="the organizers closed submissions at"):
        cup.submit("One", cup.player("attack_honest"))
    assert cup.acts(contest_events.SubmissionReceived) == []


def test_an_earlier_clock_receives_nothing_after_the_close(cup) -> None:
    """A clock that is set back opens nothing: the ledger's order decides."""
    close_at_one(cup)
    cup.wait(hours=-1)
    with pytest.raises(Rejected, match=SAID):
        arrive(cup, upload(cup))


def test_a_later_date_in_the_file_opens_nothing(cup) -> None:
    """Only the organizers' act takes back their act."""
    close_at_one(cup)
    close_at(cup, NOON + timedelta(days=9))
    with pytest.raises(Rejected, match=SAID):
        arrive(cup, upload(cup))


def test_after_the_reopening_the_dates_decide(cup) -> None:
    """Until `closes` submissions are received again, and not longer."""
    close_at(cup, NOON + timedelta(hours=2))
    close_at_one(cup)
    assert reopen(cup).state == "open"
    assert arrive(cup, upload(cup)).id
    cup.wait(hours=1)
    with pytest.raises(Rejected, match=r"submissions closed at 2026-03-01T14:00:00"):
        arrive(cup, upload(cup, name="attack_other"))
    [event] = cup.acts(contest_events.SubmissionsReopened)
    assert (event.actor, event.reason) == ("desk", "a day more")


def test_submissions_are_closed_once_and_while_they_are_open(cup) -> None:
    """Closed by the act, closed by a date and not yet open: each is refused with its reason, and nothing is noted."""
    cup.more = {"opens": "2026-03-01T13:00:00+00:00", "closes": "2026-03-01T15:00:00+00:00"}
    cup.write()
    with pytest.raises(UsageError, match="not open yet: they open at 2026-03-01T13:00:00"):
        close(cup)
    with pytest.raises(UsageError, match=r"did not close submissions; dates are changed in contest.yaml"):
        reopen(cup)
    close_at_one(cup)
    with pytest.raises(UsageError, match=r"closed submissions at 2026-03-01T13:00:00.000\+00:00 already"):
        close(cup)
    reopen(cup)
    cup.wait(hours=2)
    with pytest.raises(UsageError, match=r"closed at 2026-03-01T15:00:00.* by `closes`"):
        close(cup)
    assert len(cup.acts(contest_events.SubmissionsClosed)) == 1


def test_reopening_needs_a_reason(cup) -> None:
    """Teams that stopped at the close are told why others did not have to."""
    close(cup)
    with pytest.raises(UsageError, match="reason"):
        reopen(cup, "")


def test_nobody_reopens_what_was_decided_by_the_submissions_there_were(cup) -> None:
    """Once finalists are named, or the labels are published, whoever came later would know it."""
    close(cup)
    with cup.desk() as desk:
        desk.append_event(FinalistsPromoted(actor="desk", task="quarters", attacks=[], defences=[]))
    with pytest.raises(UsageError, match="cannot be opened again: the finalists of quarters are named"):
        reopen(cup)
    with cup.desk() as desk:
        desk.append_event(contest_events.BundlePublished(actor="desk", bundle="sealed", digest="d"))
        assert "finalists" in submission_closing.reopening_obstacle(desk.contest, desk.season)
        desk.append_event(contest_events.BundlePublished(actor="desk", bundle="full", digest="d"))
    with pytest.raises(UsageError, match="a full bundle is published"):
        reopen(cup)
    assert cup.acts(contest_events.SubmissionsReopened) == []


def test_the_window_says_who_closed_it(cup) -> None:
    """By a date there is no act; by the act its time stands in the place of the date."""
    close_at(cup, NOON + timedelta(hours=2))
    with cup.desk() as desk:
        file = desk.contest.file
    states = [submission_window(file, None, NOON + timedelta(hours=hours)).state for hours in (1, 2)]
    assert states == ["open", "closed"]
    closing = Closing("desk", "line\nbreak", "2026-03-01T12:30:00.000+00:00")
    window = submission_window(file, closing, NOON)
    assert (window.state, window.closes) == ("closed", NOON + timedelta(minutes=30))
    assert "\n" not in window.reason


def test_the_commands_close_show_and_reopen(cup) -> None:
    """Exit codes are 0, and 2 for what cannot be done; `contest show` says the state; --json is one document."""

    def run(*words: str):
        return CliRunner().invoke(app, ["contest", *words])

    folder = str(cup.folder.path)
    arrive(cup, upload(cup))
    closed = run("close", folder, "--reason", "enough", "--json")
    assert closed.exit_code == 0
    assert json.loads(closed.stdout).items() >= {"reason": "enough", "waiting": 1}.items()
    assert run("close", folder).exit_code == 2
    shown = run("show", folder)
    assert "by the organizers: enough" in shown.stdout
    document = json.loads(run("show", folder, "--json").stdout)
    assert (document["submissions"], document["closing"]["reason"]) == ("closed", "enough")
    assert run("reopen", folder).exit_code == 2
    opened = run("reopen", folder, "--reason", "too early")
    assert (opened.exit_code, opened.stdout) == (0, "open       until the organizers close them\n")
    assert run("reopen", folder, "--reason", "again").exit_code == 2


def test_the_preview_counts_what_the_next_round_would_play(cup) -> None:
    """Who plays, who waits, who has nothing, who is not ranked and why; what is left of the cells; nothing is noted."""
    cup.submit("One", cup.player("attack_honest", licence=""))
    cup.submit("Two", cup.player("defence_honest"))
    with cup.desk() as desk:
        desk.add_team("Four", [contest_events.PersonRecord(id="four", name="Four", organizer=True)])
    waiting = arrive(cup, upload(cup, "attack_noop"))
    before = len(cup.entries())
    with cup.desk() as desk:
        late = UploadUnderWay(5, 9, "late.zip", "Three", "quarters")
        found = closing_preview(cup.folder, desk.contest, desk.season, cup.time, [late])
        desk.withdraw("defence_honest", "too weak")
        left = closing_preview(cup.folder, desk.contest, desk.season, cup.time, []).teams_without
    quarters, halves = found.rounds
    assert (quarters.task, quarters.round, quarters.blocked, quarters.problems) == ("quarters", "initial", "", ())
    assert (quarters.submissions, quarters.teams, quarters.baselines) == ({"attack": 1, "defence": 1}, 2, 2)
    # each defence on clean pictures; attack and defence against the baseline of the other side, and the baselines
    assert (quarters.cells, quarters.left) == (5, 5)
    assert [(each.submission, each.reason) for each in quarters.ineligible] == [
        ("attack_honest", "licence missing (A6)")
    ]
    assert (halves.submissions, halves.teams, halves.cells) == ({"attack": 0, "defence": 0}, 0, 2)
    assert [(each.name, each.team, each.arrived) for each in found.waiting] == [("mine.tar", "One", waiting.time)]
    assert (found.obstacle, found.uploads, found.teams_without) == ("", (late,), ("Four", "Three"))
    assert left == ("Four", "Three", "Two")
    assert len(cup.entries()) == before + 1  # the withdrawal


def test_the_dry_run_says_it_and_notes_nothing(cup) -> None:
    """Text and --json have the preview, with the files that are here in part; where it cannot be done the code is 2."""
    folder = cup.folder.path
    (folder / "web" / "uploads").mkdir(parents=True)
    (folder / "web" / "uploads" / ".creating").touch()
    (folder / "web" / "uploads" / ("a" * 32)).write_bytes(bytes(2048))
    arrive(cup, upload(cup))
    before = cup.entries()
    said = CliRunner().invoke(app, ["contest", "close", str(folder), "--dry-run"])
    assert said.exit_code == 0, said.output
    for words in (
        "initial round of quarters: 0 attacks, 0 defences of 0 teams, and 2 baselines",
        "mine.tar of One on quarters, since 2026-03-01T12:00:00.000+00:00: counts",
        "1 upload under way, 2 KiB here so far",
        "of Three, Two",
        "It can be undone",
        "nothing is recorded",
    ):
        assert words in said.stdout
    document = json.loads(CliRunner().invoke(app, ["contest", "close", str(folder), "--dry-run", "--json"]).stdout)
    assert [each["round"] for each in document["rounds"]] == ["initial", "initial"]
    assert document["uploads"] == [{"received": 2048, "size": None, "file_name": "", "team": "", "task": ""}]
    assert cup.entries() == before
    close(cup, "")
    assert CliRunner().invoke(app, ["contest", "close", str(folder), "--dry-run"]).exit_code == 2


def test_a_format_whose_weeks_close_refuses_in_one_line(tmp_path) -> None:
    """An unrestricted contest is closed by nobody (U5)."""
    folder = tmp_path / "weeks"
    seasons.create_contest(folder, "unrestricted")
    refused = CliRunner().invoke(app, ["contest", "close", str(folder)])
    assert refused.exit_code == 2
    assert "closes submissions of the format unrestricted: each week closes by itself (U5)" in " ".join(
        refused.stderr.split()
    )
