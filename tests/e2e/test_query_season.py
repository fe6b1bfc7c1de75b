"""A tournament in which attacks query, from the contest file to a sealed and a full bundle (X2, X6)."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("query-season")]

SUBMISSIONS = Path(__file__).parents[2] / "examples" / "demo" / "submissions"
UNISOLATED = ("--backend", "process", "--allow-unisolated")
CONTEST = """sparring: 1
contest: queries
title: Attacks that query
format: tournament
task:
  name: digits
  dataset: {kind: digits, split: test, first: 12}
  budget: {norm: linf, epsilon: 51}
access: {kind: decision, queries: 10, transcript: full}
isolation: round
trial_pictures: 2
limits: {memory: 1GiB, perturb_batch: 6}
replay: {power: 0.5, cheat: 0.2}
rules: {clean_floor: null, initial: {classifier: neighbours, weights: {corners: 1}}, finalists: 1}
baselines:
  - {folder: ../corners}
  - {folder: ../neighbours}
"""
ATTACK = """
from sparring_player import Attack, BudgetSpent, serve
# isort: split
import numpy as np


class Corners(Attack):
    def load(self, task):
        self.task = task

    def perturb(self, pixels, labels):
        generator, best, left = np.random.default_rng(self.task.seed), pixels.copy(), np.arange(len(pixels))
        while len(left):
            corner = generator.choice([-51, 51], pixels[left].shape)
            tried = np.clip(pixels[left].astype(int) + corner, 0, 255).astype(np.uint8)
            try:
                found = self.task.ask(tried, positions=left)
            except BudgetSpent:
                break
            best[left], left = tried, left[found == labels[left]]
        return best


serve(Corners())
"""


def sparring(*words: object, status: int = 0) -> str:
    """Runs a command and returns what it says."""
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == status, (words, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


@pytest.fixture(scope="module")
def season(tmp_path_factory) -> SimpleNamespace:
    """A season whose first round was played and published sealed, and then both rounds in full."""
    place = tmp_path_factory.mktemp("queries")
    corners, path = place / "corners", place / "contest"
    corners.mkdir()
    (corners / "player.py").write_text(ATTACK.strip() + "\n")
    (corners / "submission.yaml").write_text(
        "sparring: 1\nname: corners\nside: attack\nimage: test/corners\ncommand: [python, player.py]\n"
    )
    shutil.copytree(SUBMISSIONS / "defence_neighbours", place / "neighbours")
    shutil.copytree(SUBMISSIONS / "defence_median", place / "median")
    path.mkdir()
    (path / "contest.yaml").write_text(CONTEST)
    sparring("contest", "open", path)
    sparring("team", "add", path, "Owls", "--member", "owl@example.org:Owl")
    sparring("submit", path, place / "median", "--team", "Owls", "--task", "digits", *UNISOLATED)
    sparring("round", "run", path, "initial", *UNISOLATED)
    sparring("publish", path, "--out", place / "sealed", "--sealed")
    sparring("round", "promote", path)
    sparring("round", "run", path, "final", *UNISOLATED)
    sparring("publish", path, "--out", place / "full", "--full", "--pictures")
    return SimpleNamespace(path=path, place=place)


def test_a_full_bundle_opens_the_sealed_one(season) -> None:
    """What a sealed bundle states of queries is what the full one's arrays give."""
    report = json.loads(sparring("verify", season.place / "full", "--sealed", season.place / "sealed", "--json"))
    assert report["commitments_opened"] == 12
    results = json.loads(next((season.place / "sealed").rglob("results.json")).read_text("utf-8"))
    assert {(part["attack"], part["defence"]) for part in results["queries"]} == {
        ("corners", "neighbours"),
        ("corners", "median"),
    }
    assert all(0 < part["queries"] <= 120 for part in results["queries"])


def test_other_numbers_of_queries_are_found(season, tmp_path) -> None:
    """A full bundle that states another number of queries is no genuine one."""
    forged = tmp_path / "forged"
    shutil.copytree(season.place / "full", forged)
    file = next(forged.rglob("attacks.jsonl"))
    file.write_text(file.read_text("utf-8").replace('"fooled_at":[', '"fooled_at":[1', 1))
    sparring("verify", forged, status=1)


def test_finished_queries_are_used_again(season) -> None:
    """The final round takes over what the initial one asked: attacks' seeds are the contest's (X4)."""
    folders = [season.path / "rounds" / name / "digits" / "results.json" for name in ("initial", "final")]
    jobs = [{job["id"] for job in json.loads(file.read_text())["jobs"] if job["stage"] == "query"} for file in folders]
    assert jobs[0] <= jobs[1]


def test_the_page_draws_the_curves(season) -> None:
    """The round's page has the table of queries and one curve for each defence."""
    page = (season.path / "rounds" / "final" / "digits" / "report" / "index.html").read_text("utf-8")
    assert page.count('class="curve"') == 2
    assert "Median queries" in page
