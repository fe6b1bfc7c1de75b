"""`sparring round` as an operator meets it: logs, a round that is finished, and its state."""

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.cli import results_output, round_watch
from orchestrator.cli import rounds as commands
from orchestrator.cli.app import app
from orchestrator.errors import ClusterUnavailable, Problem, Rejected, UsageError
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.round_folder import RoundFolder

pytestmark = pytest.mark.xdist_group("rounds")  # its round is played once
CONTEST = {
    "sparring": 1,
    "contest": "tiny",
    "title": "A tiny contest " + "with a title that no terminal of eighty columns shows in one line " * 2,
    "format": "tournament",
    "task": {
        "name": "digits",
        "dataset": {"kind": "digits", "first": 6},
        "budget": {"norm": "linf", "epsilon": 51},
    },
    "replay": {"power": 0.5, "cheat": 0.2, "attacks": 0.5},
    "rules": {"clean_floor": None},
    "baselines": [{"folder": "noop"}, {"folder": "undefended"}],
}
ROOT = Path(__file__).resolve().parents[2]
PLAYER_FILES = [
    ROOT / "tests" / "bundles" / "players" / "player.py",
    ROOT / "images" / "templates" / "bare" / "protocol.py",
]
FORECAST = "replays of undefended on digits"
runner = CliRunner()


def sparring(*arguments: object):
    """Runs one command in this process."""
    return runner.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def contest(tmp_path_factory) -> Path:
    """A contest of two baselines on six digits. They are no networks: what they answer is all the same here."""
    path = tmp_path_factory.mktemp("contest") / "contest.yaml"
    for side, name, behaviour in (("attack", "noop", "noop"), ("defence", "undefended", "honest")):
        folder = path.with_name(name)
        folder.mkdir()
        for file in PLAYER_FILES:
            shutil.copy(file, folder)
        said = {"sparring": 1, "name": name, "side": side, "command": ["python", "player.py", side, behaviour]}
        (folder / "submission.yaml").write_text(json.dumps(said))
    path.write_text(json.dumps(CONTEST))
    return path


@pytest.fixture(scope="module")
def played(contest) -> tuple[Path, object]:
    """The folder of its round, and what playing it printed."""
    out = contest.parent / "out"
    done = sparring("round", "run", contest, "--out", out)
    assert done.exit_code == 0, done.output
    return out, done


@pytest.mark.slow
def test_the_forecast_of_replays_is_said_before_play(played) -> None:
    """Without --log-json it is a sentence on stderr."""
    assert FORECAST in played[1].stderr
    assert "replays of 1 attacks on digits: 50 % of their questions" in played[1].stderr


@pytest.mark.slow
def test_every_line_of_a_json_log_is_json(contest, played, tmp_path) -> None:
    """With --log-json nothing but log events comes on stderr, the forecast of replays among them."""
    done = sparring("round", "run", contest, "--out", tmp_path / "out", "--log-json")
    assert done.exit_code == 0, done.output
    events = [json.loads(line) for line in done.stderr.splitlines()]
    named = {event["event"]: event for event in events}
    assert list(named)[:2] == ["replays_forecast", "attack_replays_forecast"]
    forecast = named["replays_forecast"]
    assert (forecast["task"], forecast["submission"], forecast["questions"]) == ("digits", "undefended", 12)
    assert forecast["detection_power"]["mismatch"] >= 0.5
    assert forecast["drawn"] > 0
    assert "job_finished" in named
    assert FORECAST not in done.stderr


def test_a_round_that_is_finished_says_so(contest, played) -> None:
    """Running it again plays nothing and says that; the first run did not."""
    out, first = played
    again = sparring("round", "run", contest, "--out", out)
    assert again.exit_code == 0
    assert "complete, nothing was played" in again.stdout
    assert "complete, nothing was played" not in first.stdout
    assert json.loads(sparring("round", "run", contest, "--out", out, "--json").stdout)["complete"]


def test_the_progress_of_a_round_that_goes_on_begins_where_it_is(contest, played) -> None:
    """The bar knows how many jobs there are and how many were finished before, though no plan is made again."""
    bar = results_output.open_bar()
    watch = results_output.ProgressWatch(bar)
    options = play_rounds.RunOptions(allow_unisolated=True)
    play_rounds.play_round(Contest(contest), played[0], options, watch)
    [shown] = bar.tasks
    assert shown.completed == shown.total == len(round_record.read_round(played[0])[0].round.planned_jobs)
    assert watch.steps_played == 0


def test_the_bar_counts_nothing_while_jobs_are_planned() -> None:
    """Until the jobs are known it says that they are being planned, and shows no `0/?`."""
    text = io.StringIO()
    bar = results_output.open_bar()
    results_output.ProgressWatch(bar)
    Console(file=text, width=80).print(bar.get_renderable())
    assert "planning" in text.getvalue()
    assert "?" not in text.getvalue()


def test_the_state_is_not_wrapped(played, monkeypatch) -> None:
    """However narrow the terminal, what `round status` says of the round is one line, fit to be searched and copied."""
    monkeypatch.setenv("COLUMNS", "40")
    done = sparring("round", "status", played[0])
    [line] = [line for line in done.stdout.splitlines() if line.startswith("A tiny contest")]
    assert line.endswith(", digits, round-1: complete")


def test_a_round_that_is_not_finished_names_the_command(contest, monkeypatch, tmp_path) -> None:
    """The hint of a round that was interrupted is not broken in its command."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("orchestrator.execution.round_runner.RoundRunner.run", stop)
    assert sparring("round", "run", contest, "--out", tmp_path / "out").exit_code == 130
    monkeypatch.setenv("COLUMNS", "40")
    done = sparring("round", "status", tmp_path / "out")
    assert ": not finished, last entry at 20" in done.stdout
    assert "  nothing plays it on this machine: `sparring round run` goes on where it ended\n" in done.stdout
    assert not json.loads(sparring("round", "status", tmp_path / "out", "--json").stdout)["is_played"]
    with RoundFolder(tmp_path / "out").lock():
        running = sparring("round", "status", tmp_path / "out")
    assert ": being played, last entry at 20" in running.stdout
    assert "sparring round run" not in running.stdout


@pytest.mark.slow
def test_a_round_is_watched_until_it_is_complete(contest, monkeypatch, tmp_path) -> None:
    """`round watch` says how far a begun round is, waits while it is not complete, then ends."""
    out = tmp_path / "out"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("orchestrator.execution.round_runner.RoundRunner.run", stop)
        assert sparring("round", "run", contest, "--out", out).exit_code == 130
    changes = round_watch.watch_rounds([RoundFolder(out)], lambda: sparring("round", "run", contest, "--out", out))
    assert [change.state for change in changes] == ["0 of 0 jobs finished", "complete"]
    done = sparring("round", "watch", out)
    assert (done.exit_code, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.endswith(": complete\n")
    assert [each["state"] for each in json.loads(sparring("round", "watch", out, "--json").stdout)] == ["complete"]
    assert sparring("round", "watch", tmp_path / "none").exit_code == 2


def test_a_deployment_tries_a_refused_start_again(tmp_path, monkeypatch):
    """What refuses it is mended beside it, so it does not end, and says each reason once; a fault of ours ends it."""
    errors = [UsageError("never probed"), UsageError("never probed"), Rejected("noop", [Problem("image", "absent")])]
    errors.append(ClusterUnavailable("the API server is away"))
    seen = []

    def play(*_):
        seen.append(errors.pop(0))
        raise seen[-1]

    monkeypatch.setattr(commands, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(play_rounds, "play_round", play)
    demo = ROOT / "examples" / "demo" / "contest.yaml"
    words = ["round", "run", str(demo), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*words, "--stay"])
    assert (done.exit_code, len(seen)) == (3, 4)
    assert [done.stderr.count(each) for each in ("never probed", "absent", "is away")] == [1, 1, 1]
    errors.append(UsageError("never probed"))
    assert CliRunner().invoke(app, words).exit_code == 2
