"""A warm-up season from the contest file to a verified bundle, by the command line (B1 to B8, X2, X4)."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app
from tests import plain_player

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("warmup")]

ATTACKS = ("spatial", "spsa", "boundary", "corruptions")
EXAMPLES = Path(__file__).parents[2] / "examples" / "warmup"
UNISOLATED = ("--backend", "process", "--allow-unisolated")
CONTEST = """sparring: 1
contest: digits
title: Sixes and sevens
format: warmup
opens: 2020-01-01T00:00:00Z
task:
  name: digits
  dataset: {kind: digits, split: test, only: ["6", "7"], first: 40}
isolation: round
trial_pictures: 0
limits: {classify_batch: 64, memory: 1GiB}
replay: {power: 0.9, cheat: 0.1}
rules:
  submissions_per_team: 1
  throughput: 0.001
  transform: {kind: tensorflow, border: 0.125}
  spatial: {pictures: 40, limits: {dx: 1, dy: 1, angle: 30}, dx_steps: 3, dy_steps: 3, angle_steps: 3}
  spsa: {pictures: 20, epsilon: 76.5, steps: 4, samples: 8}
  boundary: {pictures: 10, distance: 2, iterations: 20}
  corruptions: {pictures: 15}
baselines:
  - {folder: ../honest}
"""
PLAYER = """
import random
import struct
from protocol import read, write

LEFT_BELOW = [8 * row + column for row in (5, 6, 7) for column in (1, 2, 3)]
ABOVE = [8 * row + column for row in (0, 1, 2) for column in (3, 4, 5, 6)]
chance = random.Random()

def bright(picture, places):
    return sum(picture[at] / 255 + NOISE * chance.gauss(0, 1) for at in places) / len(places)

def scores(picture):
    first = bright(picture, LEFT_BELOW) - bright(picture, ABOVE) + 0.18
    if NOISE:
        return [float(first >= 0), float(first < 0)]
    return [first, -first]

while True:
    asked, payload = read()
    if asked["type"] == "hello":
        write({"type": "ready", "id": asked["id"], "gives": ["label", "scores"]})
    elif asked["type"] == "bye":
        break
    else:
        found = [scores(payload[at : at + 64]) for at in range(0, len(payload), 64)]
        reply = {"type": "answers", "id": asked["id"], "labels": [each.index(max(each)) for each in found]}
        values = [value for each in found for value in each]
        write(dict(reply, dtype="f32", shape=[len(found), 2]), struct.pack(f"<{len(values)}f", *values))
"""
"""It imports no NumPy, because the rounds start it forty times."""


def sparring(*words: object, status: int = 0) -> str:
    """Runs a command and returns what it says."""
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == status, (words, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


def player(place: Path, name: str, noise: float) -> Path:
    """Returns the folder of a defence; one with noise gives scores of 0 and 1."""
    folder = place / name
    folder.mkdir()
    (folder / "submission.yaml").write_text(
        f"sparring: 1\nname: {name}\nside: defence\nimage: test/{name}\ncommand: [python, player.py]\n"
    )
    (folder / "player.py").write_text(PLAYER.strip().replace("NOISE", str(noise)))
    shutil.copy(plain_player.PROTOCOL, folder)
    return folder


@pytest.fixture(scope="module")
def season(tmp_path_factory) -> SimpleNamespace:
    """A season with a baseline, and then a defence that joins."""
    place = tmp_path_factory.mktemp("warmup")
    contest = place / "contest"
    contest.mkdir()
    (contest / "contest.yaml").write_text(CONTEST)
    player(place, "honest", 0)
    sparring("contest", "check", contest / "contest.yaml")
    sparring("contest", "open", contest)
    found = SimpleNamespace(path=contest, place=place, jobs=[])
    sparring("round", "run", contest, "board", *UNISOLATED)
    found.jobs.append({job["id"]: job for job in results(found)["jobs"]})
    sparring("team", "add", contest, "Smoke", "--member", "smoke@example.org:Smoke")
    sparring("submit", contest, player(place, "noisy", 0.3), "--team", "Smoke", "--task", "digits", *UNISOLATED)
    sparring("round", "run", contest, "board", *UNISOLATED)
    found.jobs.append({job["id"]: job for job in results(found)["jobs"]})
    return found


def results(season) -> dict:
    """Returns the round's results."""
    return json.loads((season.path / "rounds" / "board" / "digits" / "results.json").read_text("utf-8"))


def rows(season) -> dict:
    """Returns the board's rows by submission."""
    [board] = results(season)["boards"]
    return {row["submission"]: row for row in board["rows"]}


def test_the_board_has_a_column_for_each_attack(season) -> None:
    """Accuracies at 80 % coverage with intervals, throughput, distinct scores and pictures given up (B3 to B5)."""
    [board] = results(season)["boards"]
    names = [column["name"] for column in board["columns"]]
    assert names == ["clean", *ATTACKS, "throughput", "distinct_scores", "given_up"]
    row = rows(season)["honest"]
    for name, covered in (("clean", 32), ("spatial", 32), ("spsa", 16), ("boundary", 8), ("corruptions", 12)):
        value = row["values"][name]
        assert value["interval"][0] <= value["value"] <= value["interval"][1]
        assert round(value["value"] * covered / 100, 6).is_integer()
    assert row["score"] == min(row["values"][name]["value"] for name in ATTACKS)
    assert row["values"]["clean"]["value"] > row["score"]
    assert row["values"]["throughput"]["value"] > 0


def test_sizes_are_those_of_the_rules(season) -> None:
    """Cells have as many pictures as their attack plays."""
    totals = {cell["attack"]: cell["total"] for cell in results(season)["cells"] if cell["defence"] == "honest"}
    assert totals == {None: 40, "spatial": 40, "spsa": 20, "boundary": 10, "corruptions": 15}
    (note,) = [note for note in results(season)["notes"] if note.startswith("The attacks are smaller than by default")]
    assert "spsa.pictures 20 of 1,000, spsa.steps 4 of 200, spsa.samples 8 of 64, boundary" in note


def test_noise_and_one_hot_scores_are_shown_for_what_they_are(season) -> None:
    """The determinism check finds the noise, and the board says that scores are withheld; the row stays (B8)."""
    row = rows(season)["noisy"]
    assert row["rank"] is not None
    assert "finding" in row["remark"]
    assert "scores withheld: 1 distinct value" in row["remark"]
    assert rows(season)["honest"]["remark"] == ""
    assert any(note.startswith("noisy withholds its scores") for note in results(season)["notes"])


def test_who_was_played_is_not_played_again(season) -> None:
    """The second run queries and classifies the newcomer only (X4)."""
    before, after = season.jobs
    kept = {name: job["seconds"] for name, job in before.items() if job["stage"] != "replay"}
    assert kept == {name: after[name]["seconds"] for name in kept}


def test_the_page_has_pictures_of_every_attack(season) -> None:
    """The organizers' page shows pictures of each attack."""
    page = (season.path / "rounds" / "board" / "digits" / "report" / "index.html").read_text("utf-8")
    for attack in ATTACKS:
        assert attack in page
    assert page.count("data:image/png") >= 2 * 2 * len(ATTACKS)


def test_a_full_bundle_verifies_and_a_sealed_one_is_refused(season) -> None:
    """Scores are in no sealed bundle, so the boards could not be counted again."""
    refused = sparring("publish", season.path, "--out", season.place / "sealed", "--sealed", status=2)
    assert "scores" in refused
    sparring("report", season.path)
    sparring("publish", season.path, "--out", season.place / "full", "--full")
    assert json.loads(sparring("verify", season.place / "full", "--json"))["rounds"]
    first = season.place / "forged"
    shutil.copytree(season.place / "full", first)
    attacks = next(first.rglob("attacks.jsonl"))
    text = attacks.read_text("utf-8")
    assert '"queries":' in text
    attacks.write_text(text.replace('"queries":[', '"queries":[1,', 1))
    sparring("verify", first, status=1)


def test_a_team_hands_in_as_many_as_it_may(season) -> None:
    """The second submission of a team that may make one is refused, with how many it made."""
    words = ("--team", "Smoke", "--task", "digits", *UNISOLATED)
    said = sparring("submit", season.path, player(season.place, "again", 0.1), *words, status=1)
    assert "has used its submissions on digits, 1 of 1" in said


def test_an_attack_is_refused(season) -> None:
    """Nobody submits attacks: the warm-up has its own (B2)."""
    attack = EXAMPLES.parent / "demo" / "submissions" / "attack_corners"
    said = sparring("submit", season.path, attack, "--team", "Smoke", "--task", "digits", *UNISOLATED, status=1)
    assert "attack" in said


def test_ten_classes_are_refused(tmp_path) -> None:
    """The warm-up has two, and the remedy says how to choose them (B1)."""
    file = tmp_path / "contest.yaml"
    player(tmp_path.parent, "honest", 0)
    file.write_text(CONTEST.replace('only: ["6", "7"], ', ""))
    said = sparring("contest", "check", file, status=1)
    assert "two" in said
    assert "only" in said
