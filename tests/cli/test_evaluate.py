"""`sparring evaluate` on the process backend: the row, JSON, exit codes and remedies."""

import json
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app

pytestmark = pytest.mark.xdist_group("evaluate")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CONTEST = """sparring: 1
contest: digits
title: Sixes and sevens
format: warmup
task:
  name: digits
  dataset: {kind: npz, path: hidden.npz}
  sample: {kind: digits, split: test, only: ["6", "7"], first: 10}
isolation: round
limits: {classify_batch: 64, memory: 1GiB, restarts: 2}
replay: {power: 0}
rules:
  throughput: 0.001
  transform: {kind: tensorflow, border: 0.125}
  spatial: {pictures: 10, limits: {dx: 1, dy: 1, angle: 30}, dx_steps: 1, dy_steps: 1, angle_steps: 3}
  spsa: null
  boundary: {pictures: 4, distance: 2, iterations: 2}
"""
PLAYER = """
from sparring_player import Defence, serve
# isort: split
import numpy as np

class Player(Defence):
    scores = True

    def classify(self, pixels):
        low = pixels[:, 0, 5:, 1:4].mean(axis=(1, 2)) - pixels[:, 0, :3, 3:7].mean(axis=(1, 2)) + 46.0
        return (low < 0).astype(np.int64), np.stack([low, -low], 1).astype(np.float32)

serve(Player())
"""


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with a defence and a contest file, where temporary folders are made too."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "submission.yaml").write_text("sparring: 1\nname: mine\nside: defence\ncommand: [python, player.py]\n")
    (folder / "player.py").write_text(PLAYER.strip())
    (tmp_path / "contest.yaml").write_text(CONTEST)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


def evaluate(*words: object):
    """Runs the command."""
    return CliRunner().invoke(app, ["evaluate", *map(str, words)])


@pytest.mark.slow
def test_the_row_is_printed_and_nothing_is_left(place) -> None:
    """Every column of the board has its line, with intervals; without --out no folder stays."""
    done = evaluate(place / "mine", "--contest", place / "contest.yaml", "--pictures", 8)
    assert done.exit_code == 0, done.output
    assert "mine on 8 public pictures of digits: accuracy at 80 % coverage" in done.stdout
    for name in ("clean", "spatial", "boundary", "score: the worst"):
        [line] = [line for line in done.stdout.splitlines() if line.strip().startswith(name)]
        assert " to " in line
    assert "spsa" not in done.stdout
    for text in ("throughput: ", "distinct scores: ", "given up: ", "Played on the first 8 of 10 public pictures"):
        assert text in done.stdout
    assert list((place / "temporary").iterdir()) == []
    assert "runs with your rights" in done.stderr


@pytest.mark.slow
def test_out_keeps_the_round(place) -> None:
    """With --out the results lie there; the same command again plays nothing, and another defence is refused."""
    words = (place / "mine", "--contest", place / "contest.yaml", "--out", place / "kept")
    first = evaluate(*words, "--json")
    assert first.exit_code == 0, first.output
    document = json.loads(first.stdout)
    assert document["out"] == str(place / "kept")
    stored = json.loads((place / "kept" / "results.json").read_text("utf-8"))
    assert [document["row"]] == stored["boards"][0]["rows"]
    again = evaluate(*words)
    assert again.exit_code == 0
    assert "nothing was left to play" in again.stdout
    assert "kept/report/index.html" in again.stdout.replace("\n", "")
    (place / "mine" / "player.py").write_text(PLAYER.strip() + "\n# changed\n")
    changed = evaluate(*words)
    assert changed.exit_code == 2
    assert "the submissions" in changed.stderr


@pytest.mark.slow
def test_json_is_one_document(place) -> None:
    """It has the row, both readings, faults, findings and notes."""
    done = evaluate(place / "mine", "--contest", place / "contest.yaml", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["pictures"] == {"played": 10, "available": 10, "public": True}
    assert (document["submission"], document["task"], document["coverage"]) == ("mine", "digits", "exact")
    assert document["readings"].keys() == {"exact", "reference"}
    assert document["readings"]["exact"]["values"]["clean"] == document["row"]["values"]["clean"]
    assert document["readings"]["exact"]["values"].keys() == {"clean", "spatial", "boundary"}
    assert (document["faults"], document["findings"], document["out"]) == ([], [], None)
    assert document["notes"]


@pytest.mark.slow
def test_a_fault_ends_with_1(place) -> None:
    """A defence that fails is told how often and why, in its own words, and that `check` shows more."""
    (place / "mine" / "player.py").write_text(
        PLAYER.strip().replace("low = ", "raise ValueError('mine alone')\n        low = ")
    )
    words = (place / "mine", "--contest", place / "contest.yaml", "--pictures", 1, "--out", place / "kept")
    done = evaluate(*words)
    assert done.exit_code == 1, done.output
    assert "fault: " in done.stdout
    assert "sparring submission check" in done.stdout
    assert "score: the worst" in done.stdout
    document = json.loads(evaluate(*words, "--json").stdout)
    assert document["faults"][0]["pictures"] > 0
    assert "mine alone" in document["faults"][0]["message"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["nowhere"], 2, "nowhere is not there; give the folder of a defence"),
        (["contest.yaml"], 2, "contest.yaml is no folder; give the folder of a defence"),
        (["temporary"], 2, "temporary holds no submission.yaml; `sparring submission init defence NAME`"),
        (["mine", "--contest", "other.yaml"], 2, "there is no other.yaml; give a contest file"),
        (["mine", "--contest", str(EXAMPLES / "demo" / "contest.yaml")], 2, "of the format 'tournament'"),
        (["mine", "--out", "contest.yaml"], 2, "a file lies there"),
        (["mine", "--contest", "contest.yaml", "--task", "birds"], 2, "--task may be digits"),
        (["mine", "--pictures", "0"], 2, "--pictures"),
        (["mine", "--contest", "contest.yaml", "--backend", "abacus"], 2, "abacus"),
        (
            [str(EXAMPLES / "demo" / "submissions" / "attack_corners")],
            1,
            "it is an attack, and the warm-up has its own",
        ),
    ],
)
def test_what_cannot_be_played_is_said(place, monkeypatch, words, status, said) -> None:
    """It ends with 2, or with 1 where it is the submission's fault, and the remedy."""
    monkeypatch.chdir(place)
    done = evaluate(*words)
    assert done.exit_code == status, done.output
    assert said in " ".join(done.stderr.split())
    assert list((place / "temporary").iterdir()) == []


def test_an_end_without_a_folder_names_the_option(place, monkeypatch) -> None:
    """Ended by Ctrl-C, it exits with 130, keeps nothing, and says that --out would have."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("orchestrator.application.submissions.evaluate.evaluate", interrupted)
    done = evaluate(place / "mine", "--contest", place / "contest.yaml")
    assert done.exit_code == 130
    assert "with --out DIR the same command would continue" in " ".join(done.stderr.split())
    assert list((place / "temporary").iterdir()) == []
