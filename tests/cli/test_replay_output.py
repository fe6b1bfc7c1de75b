"""Replays on a terminal: what they will cost, what they covered, what they found; and stdout stays what it was."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from orchestrator import resources
from orchestrator.application.rounds import replay_cost
from orchestrator.cli import replay_output
from orchestrator.cli.app import app
from orchestrator.domain.plan import Cell
from orchestrator.domain.tasks import Isolation, Limits
from orchestrator.integrity import detection_power
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.scoring.results_file import Results

SAMPLE = Path(__file__).parents[1] / "reports" / "round.json"


@pytest.fixture
def wide(monkeypatch):
    """Terminals on which no table folds a name."""
    monkeypatch.setenv("COLUMNS", "250")


def setting(**changes):
    """Returns as much of a round's setting as a forecast reads: 200 pictures, one at a time, the default replays."""
    task = SimpleNamespace(name="digits", count=200)
    whole = {"replay": SamplingDesign(), "isolation": Isolation.ATTACK, "limits": Limits(), "task": task}
    return SimpleNamespace(**whole | changes)


def cells(defences: int, attacks: int) -> list[Cell]:
    """Returns every meeting of so many defences and attacks."""
    names = [None, *(f"a{n}" for n in range(attacks))]
    return [Cell(f"d{n}", attack) for n in range(defences) for attack in names]


def test_a_forecast_counts_every_cell_of_a_defence() -> None:
    """Ten cells of 200 pictures are 2000 questions; what they cost is the plan's own figure."""
    told = replay_cost.forecast_replays(setting(), cells(2, 9))
    assert told.costs == dict.fromkeys(("d0", "d1"), detection_power.replay_cost(2000, 200, SamplingDesign()))
    mixed = replay_cost.forecast_replays(
        setting(isolation=Isolation.ROUND, limits=replace(Limits(), classify_batch=8)), cells(1, 9)
    )
    assert mixed.costs == {"d0": detection_power.replay_cost(2000, 200, SamplingDesign(), batch=8, mixed=True)}
    assert mixed.attacks == 9


def test_no_replays_have_no_forecast() -> None:
    """Where the contest switched them off nothing is announced."""
    assert replay_cost.forecast_replays(setting(replay=SamplingDesign(power=0.0)), cells(2, 9)).costs == {}


def test_the_forecast_says_cost_and_power(wide, capsys) -> None:
    """Questions, drawn, companions, share, sandboxes and power are on stderr, once for all defences that are alike."""
    replay_output.print_forecast(replay_cost.forecast_replays(setting(replay=SamplingDesign(attacks=0.5)), cells(3, 9)))
    cost = detection_power.replay_cost(2000, 200, SamplingDesign())
    printed = capsys.readouterr()
    assert printed.out == ""
    said = " ".join(printed.err.split())
    assert f"replays of each of 3 defences on digits: {cost.drawn} of 2,000 questions are drawn" in said
    assert f"up to 200 clean pictures before them, and {cost.repeated + cost.same_order} others." in said
    assert f"adds {100 * cost.share:.1f} % to the questions of the play, in {cost.sandboxes} fresh sandboxes." in said
    assert "A defence that changes 1 % of its answers has a mismatch with a probability of 99.0%." in said
    assert "with a probability of 99.0% if a sequence of questions repeats the change, of 99.9% if it changes" in said
    assert "warning" not in printed.err
    assert "replays of 9 attacks on digits: 50 % of their questions" in printed.err


@pytest.mark.parametrize("cheat", [0.001, 0.002])
def test_what_a_contest_cannot_have_is_said_before_it_is_played(wide, capsys, cheat) -> None:
    """A cheat of 0.1 % of 2,000 answers disagrees too rarely to be told from a device: the forecast warns of it."""
    design = SamplingDesign(cheat=cheat)
    replay_output.print_forecast(replay_cost.forecast_replays(setting(replay=design), cells(1, 9)))
    told = capsys.readouterr().err
    told = " ".join(told.split())
    assert "warning: the least of these is below replay.power (99.0%)" in told
    assert "raise replay.cheat, lower replay.noise, or play more pictures" in told
    promise = detection_power.replay_cost(2000, 200, design).detection_power
    assert promise.mismatch >= 0.99
    assert promise.chance < 0.5


def results(**changes) -> Results:
    """Returns the sample round."""
    return Results.model_validate(json.loads(SAMPLE.read_text("utf-8")) | changes)


def test_findings_say_how_they_show_again(wide, capsys) -> None:
    """Kind, plain words, sequence with its gap, and the command with the round's folder, fit to be pasted."""
    replay_output.print_findings(results(), Path("my rounds/one"))
    text = " ".join(capsys.readouterr().out.split())
    assert "finding F1 against moody, state: What was asked before changes the decision." in text
    assert "1: square 3 -> zero, 2: clean 4 -> one" in text
    assert "4: square 6 -> zero after 0.7 s, 4 more questions, 9: square 9 -> one" in text
    assert "by itself: abstained" in text
    assert "see it again: sparring replay F1 --dir 'my rounds/one'" in text


def test_what_replays_covered_is_a_table(wide, capsys) -> None:
    """Every defence has its line, with the power that was planned above."""
    replay_output.print_coverage(results())
    text = capsys.readouterr().out
    assert "a defence that changes 1% of its answers has a mismatch with a probability of 99.0%" in text
    assert re.search(
        r"madry +2000 +410 +300 +96.5% +96.5% / 99.7% / 99.7% +3 +1 +109 +a fresh copy +not cleared: less", text
    )
    row = "undefended +2000 +410 +410 +99.0% +99.0% / 99.9% / 99.9% +0 +0 +0 +its image +not cleared: 2"
    assert re.search(row, text)
    assert text.count("its image: no copy is made of the organizers' own players.") == 1
    replay_output.print_coverage(results(replays=[]))
    assert capsys.readouterr().out == ""


def test_a_defence_with_two_checks_is_explained(wide, capsys) -> None:
    """Where a defence has two lines in the table they are told apart, and a sentence below says why."""
    once = results()
    replay_output.print_coverage(once)
    assert "a line for each check" not in capsys.readouterr().out
    replay_output.print_coverage(once.model_copy(update={"replays": [*once.replays, once.replays[0]]}))
    text = capsys.readouterr().out
    assert text.count("a line for each check") == 1
    assert [text.count(f"madry, {number} of 2") for number in (1, 2)] == [1, 1]


def test_hostile_text_stays_text(wide, capsys) -> None:
    """Names, cells and class names of strangers move no cursor and are no markup."""
    sample = json.loads(SAMPLE.read_text("utf-8"))
    [finding] = sample["findings"]
    evil = "\x1b[2J[bold red]x[/]"
    sequence = [{**one, "attack": evil} for one in finding["sequence"]]
    told = results(
        findings=[{**finding, "submission": evil, "summary": evil, "sequence": sequence}],
        replays=[{**sample["replays"][0], "submission": evil}],
        task={**sample["task"], "classes": [evil, evil, evil]},
    )
    replay_output.print_findings(told, None)
    replay_output.print_coverage(told)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert text.count(r"\x1b[2J[bold red]x[/]") >= 4


@pytest.mark.slow
def test_json_stays_alone_on_stdout(tmp_path) -> None:
    """`round run --json` prints one document on stdout, and the forecast before it on stderr."""
    submission = resources.resource_path("examples", "demo", "submissions", "defence_neighbours")
    body = {
        "sparring": 1,
        "contest": "small",
        "title": "Small",
        "format": "tournament",
        "task": {"name": "digits", "dataset": {"kind": "digits", "first": 20}, "budget": {"epsilon": 51}},
        "replay": {"power": 0.5, "cheat": 0.1},
        "rules": {"clean_floor": None},
        "baselines": [{"folder": str(resources.resource_path("images", "attack_noop"))}],
        "submissions": [{"folder": str(submission), "team": "T"}],
    }
    (tmp_path / "contest.yaml").write_text(json.dumps(body))
    arguments = ["round", "run", tmp_path / "contest.yaml", "--out", tmp_path / "out", "--allow-unisolated", "--json"]
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["replays"][0]["achieved"] >= 0.5
    assert "replays of neighbours on digits: 7 of 40 questions" in done.stderr
    assert done.stderr.index("replays of") < done.stderr.index("round_started")
