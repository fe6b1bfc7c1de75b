"""FGSM, BIM and PGD crafted on each defence itself (A12), in a whole round with real players."""

import json
import shutil
from fractions import Fraction

import numpy as np
import pytest

from orchestrator.application.baselines.training import load_digits
from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.bundles import array_checks
from orchestrator.domain.ids import derive_seed
from orchestrator.domain.plan import Cell
from orchestrator.errors import Rejected, UsageError
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.round_folder import RoundFolder

pytestmark = pytest.mark.slow

PICTURES, EPSILON = 20, 40
STEPS = {"fgsm": (1, EPSILON), "bim": (10, EPSILON // 4), "pgd": (20, EPSILON // 4)}
WEIGHTS = {"fgsm": "0.2", "bim": "0.4", "pgd": "0.4"}
FLAT = """
from sparring_player import Defence, serve
# isort: split
from pathlib import Path
import numpy as np

class Player(Defence):
    def load(self, task):
        self.weights = np.load(Path(__file__).with_name("weights.npy"))

    def powers(self, pixels):
        values = pixels.reshape(len(pixels), -1) / 255 @ self.weights[:-1] + self.weights[-1]
        return np.exp(values - values.max(axis=1, keepdims=True))

    def classify(self, pixels):
        return self.powers(pixels).argmax(axis=1)
"""
SLOPED = """
    def gradient(self, pixels, labels):
        powers = self.powers(pixels)
        wrong = powers / powers.sum(axis=1, keepdims=True) - np.eye(10)[labels]
        return (wrong @ self.weights[:-1].T).reshape(pixels.shape).astype(np.float32)
"""
SERVE = "\nserve(Player())\n"


def weights():
    """Returns a linear classifier of digits, f64 [65, 10]: the class with the nearest mean."""
    train = load_digits("train")
    means = np.stack([train.pixels[train.labels == c].reshape(-1, 64).mean(axis=0) / 255 for c in range(10)])
    return np.vstack([means.T, -(means**2).sum(axis=1) / 2]) * 4


def defence(folder, name, code):
    """Writes the folder of a defence."""
    folder.mkdir()
    manifest = {
        "sparring": 1,
        "name": name,
        "side": "defence",
        "image": f"t/{name}",
        "command": ["python", "player.py"],
    }
    (folder / "submission.yaml").write_text(json.dumps(manifest))
    (folder / "player.py").write_text((code + SERVE).strip())
    np.save(folder / "weights.npy", weights())
    return {"folder": str(folder), "team": name}


@pytest.fixture(scope="module")
def contest(tmp_path_factory):
    """A contest of a defence that gives gradients and one that gives none."""
    place = tmp_path_factory.mktemp("contest")
    file = {
        "sparring": 1,
        "contest": "own-gradients",
        "title": "Own gradients",
        "format": "tournament",
        "task": {
            "name": "digits",
            "dataset": {"kind": "digits", "split": "test", "first": PICTURES},
            "budget": {"norm": "linf", "epsilon": EPSILON},
        },
        "isolation": "round",
        "limits": {"memory": "1GiB", "classify_batch": 8, "restarts": 1, "ready_seconds": 60},
        "replay": {"power": 0.9, "cheat": 0.1},
        "rules": {"clean_floor": None, "initial": {"crafted_on": "self"}},
        "submissions": [
            defence(place / "sloped", "sloped", FLAT + SLOPED),
            defence(place / "flat", "flat", FLAT),
        ],
    }
    path = place / "contest.yaml"
    path.write_text(json.dumps(file))
    return Contest(path)


@pytest.fixture(scope="module")
def played(contest, tmp_path_factory):
    """The folder of a round, and its results."""
    out = tmp_path_factory.mktemp("round") / "out"
    options = play_rounds.RunOptions(slots=2, allow_unisolated=True)
    return out, play_rounds.play_round(contest, out, options, lambda _: None).results


def logits(pixels):
    """Returns the classifier's scores for pixels [k, 1, 8, 8]."""
    return pixels.reshape(len(pixels), -1) / 255 @ weights()[:-1] + weights()[-1]


def crafted(name, clean, labels, secret):
    """Returns the pictures after an attack, by the papers' formulas on the same weights."""
    steps, size = STEPS[name]
    low, high = np.maximum(clean - EPSILON, 0), np.minimum(clean + EPSILON, 255)
    made = clean.copy()
    if name == "pgd":
        seeds = [derive_seed(secret, "query", name, str(picture)) for picture in range(len(clean))]
        starts = [np.random.default_rng(s).integers(-EPSILON, EPSILON + 1, clean.shape[1:]) for s in seeds]
        made = np.clip(clean + np.stack(starts), low, high)
    for _ in range(steps):
        values = logits(made)
        powers = np.exp(values - values.max(axis=1, keepdims=True))
        slope = (powers / powers.sum(axis=1, keepdims=True) - np.eye(10)[labels]) @ weights()[:-1].T
        made = np.clip(made + size * np.sign(slope.reshape(made.shape)).astype(int), low, high)
    return made


@pytest.mark.parametrize("name", STEPS)
def test_pictures_are_those_of_plain_numpy(contest, played, name):
    """Each value of each picture, and so what held; it takes as many gradients as steps, and stays in the budget."""
    out, results = played
    samples = contest.load_samples()
    made = crafted(name, samples.pixels.astype(int), samples.labels, RoundFolder(out).secret())
    record, _ = round_record.read_round(out)
    cell = Cell("sloped", name)
    assert np.array_equal(record.cell_examples(cell).pixels, made)
    assert (record.query_record(cell).queries == STEPS[name][0]).all()
    assert np.abs(made - samples.pixels).max() == EPSILON
    held = {(each.defence, each.attack): each.held for each in results.cells}
    assert held["sloped", name] == (logits(made).argmax(axis=1) == samples.labels).sum()
    assert held["sloped", None] == (logits(samples.pixels).argmax(axis=1) == samples.labels).sum()
    assert held["sloped", name] <= held["sloped", None] - 5


def test_the_record_holds_with_the_rules(contest, played):
    """What a full bundle is checked for: arrays of the right sizes, counts that agree, and no picture out of place."""
    record, _ = round_record.read_round(played[0])
    array_checks.check_arrays(record, "round", contest.format.play_rules())
    array_checks.check_pictures(record, "round")


def test_the_loss_of_a_defence_is_weighted(played):
    """0.2 of its decrease under FGSM and 0.4 of each of the others, in points (A12)."""
    _, results = played
    held = {(each.defence, each.attack): each.held for each in results.cells}
    board = next(board for board in results.boards if board.name == "defences_initial")
    row = next(row for row in board.rows if row.submission == "sloped")
    loss = sum(
        Fraction(weight) * (held["sloped", None] - held["sloped", name]) / PICTURES for name, weight in WEIGHTS.items()
    )
    assert row.rank == 1
    assert float(row.score) == pytest.approx(float(100 * loss), abs=0.01)
    assert board.measure.endswith("crafted on each defence itself")


def test_who_gives_no_gradients_does_not_play(played):
    """It is asked nothing, has no rank, and its fault says why: one mode for all (A12)."""
    _, results = played
    board = next(board for board in results.boards if board.name == "defences_initial")
    row = next(row for row in board.rows if row.submission == "flat")
    assert row.rank is None
    assert "were not played" in row.reason
    assert not any(each.held for each in results.cells if each.defence == "flat")
    part = next(part for part in results.submissions if part.id == "flat")
    assert "no-gradients" in {fault.code for fault in part.faults}
    assert {fault.code for fault in part.faults} <= {"no-gradients", "gave-up"}


def test_kubernetes_refuses_gradients_that_it_cannot_carry(contest, tmp_path, monkeypatch):
    """A pod has one player, and after a fault on a gradient the next one needs all gradients of the step."""
    options = play_rounds.RunOptions(executor="kubernetes")
    monkeypatch.setattr(play_rounds, "MAX_TRANSCRIPT_BYTES", 1024)
    with pytest.raises(UsageError, match="gradients from pod to pod"):
        play_rounds.choose_target(contest, tmp_path, options)


def test_an_attack_of_the_same_name_is_refused(contest, tmp_path):
    """The three attacks are the format's, so no baseline can have their names."""
    shutil.copytree(contest.folder, tmp_path / "copy")
    file = json.loads((tmp_path / "copy" / "contest.yaml").read_text())
    file["submissions"][0]["name"] = "pgd"
    (tmp_path / "copy" / "contest.yaml").write_text(json.dumps(file))
    options = play_rounds.RunOptions(allow_unisolated=True)
    with pytest.raises(Rejected, match="'pgd' is an attack that the format brings"):
        play_rounds.play_round(Contest(tmp_path / "copy" / "contest.yaml"), tmp_path / "out", options, lambda _: None)
