"""What the unrestricted contest plays: its rounds, and who is asked about which pictures in them."""

import json
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestrator import resources
from orchestrator.application.contests import seasons
from orchestrator.cli.app import app
from orchestrator.domain.contest_events import SubmissionReceived
from orchestrator.domain.contest_format import Observations
from orchestrator.domain.outcomes import ABSTAINED, FAULTED, NOT_PLAYED
from orchestrator.domain.plan import Cell
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Roster
from orchestrator.errors import Rejected
from orchestrator.formats.unrestricted import events
from orchestrator.formats.unrestricted.format import Unrestricted
from orchestrator.formats.unrestricted.rounds import ContestFold
from orchestrator.formats.unrestricted.rules import UnrestrictedRules
from orchestrator.formats.unrestricted.week_calendar import local_day
from orchestrator.intake import admission
from orchestrator.intake.contest_file import Contest

from .simulated_contest import small_contest

TEMPLATE = resources.resource_path("examples", "templates", "unrestricted.yaml")


def test_the_template_is_a_contest_that_can_be_opened(tmp_path: Path) -> None:
    """`sparring contest init --template unrestricted` opens a contest of 40 pictures, which has no round yet."""
    seasons.create_contest(tmp_path / "league", "unrestricted")
    contest, season = seasons.read_contest(tmp_path / "league")
    [task], _ = admission.check_contest(contest)
    shown = CliRunner().invoke(app, ["contest", "show", str(tmp_path / "league")]).stdout
    assert "opens     at once, each week closes by itself (U5)" in shown
    assert (task.classes, task.count) == (("six", "seven"), 40)
    assert contest.format.rounds(season, task.name) == []


@pytest.mark.parametrize(("closed", "follows"), [("refused", "is refused when it is tested"), ("allowed", "no prize")])
def test_a_defence_without_an_address_of_its_code_is_warned_of(closed, follows) -> None:
    """Its team hears of it at the receipt, not after the board's vote and the test (U3); with an address, nothing."""
    contest = Unrestricted(UnrestrictedRules.model_validate({"closed": closed}))

    def warnings(source: str) -> list[str]:
        fields = {
            "id": "owl",
            "name": "owl",
            "team": "Owls",
            "task": "t",
            "side": "defence",
            "digest": "d",
            "image": "",
        }
        counts = {"attempt": 1, "attempts_left": 0, "actor": "organizer", "source": source}
        return contest.submission_warnings(Season(), SubmissionReceived(**fields, **counts))

    (warning,) = warnings("")
    assert "source missing (U3)" in warning
    assert follows in warning
    assert warnings("https://example.org/owl") == []


@pytest.mark.slow
def test_the_standing_of_an_empty_contest_is_none_yet(tmp_path: Path) -> None:
    """It is of no round, so that it stands from the first day: now, and when that day is over, as on the site."""
    path = tmp_path / "league"
    seasons.create_contest(path, "unrestricted")
    today = local_day(seasons.now(), ZoneInfo("Europe/Berlin")).isoformat()
    for words in ((), ("--as-of", today)):
        done = CliRunner().invoke(app, ["board", str(path), *words])
        assert done.exit_code == 0, done.stderr
        assert done.stdout.startswith("Defences\nnone yet\nAttackers\nnone yet\n")
        document = json.loads(CliRunner().invoke(app, ["board", str(path), *words, "--json"]).stdout)
        assert [(each["name"], each["rows"]) for each in document] == [("defences", []), ("attackers", [])]


@pytest.mark.slow
def test_a_contest_without_a_round_says_so(tmp_path: Path) -> None:
    """Commands name no round where there is none yet."""
    path = tmp_path / "league"
    seasons.create_contest(path, "unrestricted")
    for words, said in (
        (("report", path), "it has no round yet"),
        (("round", "run", path, "initial", "--allow-unisolated"), "it has none yet"),
        (("round", "request", path, "initial"), "there is none yet"),
    ):
        done = CliRunner().invoke(app, [str(word) for word in words])
        text = " ".join(done.stderr.split())
        assert (done.exit_code, said in text) == (2, True), text
        assert "round run" not in text


def test_a_task_of_other_classes_than_raters_are_asked_about_is_refused(tmp_path: Path) -> None:
    """A defence answers with the classes of the task, which have to be those of the questionnaire (U1)."""
    path = tmp_path / "contest.yaml"
    path.write_text(TEMPLATE.read_text("utf-8").replace("only: [six, seven]", "only: [six, nine]"), "utf-8")
    with pytest.raises(Rejected, match="has the classes six, nine, and raters are asked about six and seven"):
        admission.check_contest(Contest(path))


def test_a_baseline_is_refused(tmp_path: Path) -> None:
    """Nobody received a baseline, so that no week would ask it anything."""
    path = tmp_path / "contest.yaml"
    path.write_text(TEMPLATE.read_text("utf-8") + "baselines: [{builtin: defence_undefended}]\n", "utf-8")
    with pytest.raises(Rejected, match="submit it as the organizers' team"):
        admission.check_contest(Contest(path))


def test_labels_are_revealed_once_the_last_week_has_closed() -> None:
    """The eligibility set is held out for later defences as long as a week is open."""
    contest, season = Contest(TEMPLATE).format, Season()
    body = {"opens": "2027-01-18T09:00:00Z", "closes": "2027-01-22T23:00:00Z", "tzdata": "2026a"}
    season.apply(events.WeekOpened(actor="desk", week="2027-W03", **body), "2027-01-18T09:00:00Z")
    vote = {"eligible": [], "recused": {}, "in_favour": [], "against": []}
    readable = events.ReadabilityDecided(actor="desk", defence="d1", readable=True, vote=vote, reason="It is plain.")
    season.apply(readable, "2027-01-19T09:00:00Z")
    assert [(each.name, each.reveals_labels) for each in contest.rounds(season, "digits")] == [
        ("eligibility-d1", False)
    ]
    season.apply(events.WeekClosed(actor="desk", week="2027-W03", pictures=["0" * 16]), "2027-01-22T23:00:00Z")
    found = [(each.name, each.reveals_labels) for each in contest.rounds(season, "digits")]
    assert found == [("eligibility-d1", True), ("week-2027-w03", True)]


def test_pictures_that_the_board_withheld_are_in_no_bundle() -> None:
    """Once one is withheld `--pictures` is refused. A dismissed report withholds nothing."""
    contest, season = Contest(TEMPLATE).format, Season()
    vote = {"eligible": [], "recused": {}, "in_favour": [], "against": []}
    for number, withhold in enumerate((False, True)):
        assert contest.publish_problems(season, full=True, pictures=True) == []
        body = {"picture": f"{number:016x}", "withhold": withhold, "vote": vote, "reason": "We looked at it."}
        season.apply(events.ReportDecided(actor="desk", **body), "2027-01-19T09:00:00Z")
    assert contest.publish_problems(season, full=True, pictures=False) == []
    [problem] = contest.publish_problems(season, full=True, pictures=True)
    assert "withheld 1 picture" in problem.what


@pytest.mark.parametrize(("played", "timed"), [([0, 1, ABSTAINED, FAULTED], 4), ([], 1)])
def test_u2_a_picture_that_was_not_played_has_no_time(played, timed) -> None:
    """The mean time for a picture is over the pictures that the defence was asked about, a fault among them."""
    contest = small_contest()
    contest.receive_defence("d2", "owls")
    contest.find_readable("d2", "b1", "b2")
    fold = ContestFold(contest.state.rules)
    for event, at in contest.ledger:
        fold.apply(event, at)
    answers = np.array([*played, *[NOT_PLAYED] * (9 - len(played))], np.int32)
    observed = Observations(
        Roster(()),
        {},
        labels=np.zeros(9, np.int64),
        answers_of=lambda _: {Cell("d2"): answers},
        classes=("bird", "bicycle"),
        seconds_of=lambda _: 250.0,
    )
    [event] = fold.round_events("eligibility-d2", observed, "desk")
    assert (event.timed_pictures, event.seconds) == (timed, 250.0)
    assert event.right + event.wrong + event.abstained + event.faults == 9
    contest.must(contest.propose(event))
    assert "more than a minute for a picture" in contest.state.defences["d2"].why
