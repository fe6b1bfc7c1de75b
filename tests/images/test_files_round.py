"""Submissions of the NIPS 2017 layout play beside native ones, and beside native twins that do the same."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from orchestrator.application.rounds import play_rounds
from orchestrator.domain.submissions import Side
from orchestrator.intake import adopt_nips2017, nips2017_layout
from orchestrator.intake.contest_file import Contest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "nips2017"
PICTURES = 10
ATTACK, DEFENCE = "attack_noise_2017", "defence_means_2017"
TWINS = {ATTACK: "noise_native", DEFENCE: "means_native"}
PLAYERS = {
    ATTACK: """
from sparring_player import Attack, serve
import numpy as np
from attack_noise import noisy
class Twin(Attack):
    def load(self, task):
        self.task = task
    def perturb(self, pixels, labels):
        return np.stack([noisy(picture, int(self.task.epsilon)) for (picture,) in pixels])[:, None]
serve(Twin())
""",
    DEFENCE: """
from sparring_player import Defence, serve
import numpy as np
class Twin(Defence):
    def load(self, task):
        self.means = np.loadtxt("means.csv", delimiter=",")
    def classify(self, pixels):
        return [int(((self.means - each.ravel()) ** 2).sum(axis=1).argmin()) for each in pixels]
serve(Twin())
""",
}
RECIPE = 'FROM {base}\nCOPY . /opt/player/\nWORKDIR /opt/player\nCMD ["python", "player.py"]\n'


@pytest.fixture
def entries(tmp_path) -> dict[str, Path]:
    """The two examples, adopted, and a native twin of each, by name."""
    found = {}
    for name, twin in TWINS.items():
        found[name] = Path(shutil.copytree(EXAMPLES / name, tmp_path / name))
        adopt_nips2017.adopt_folder(found[name], adopt_nips2017.AdoptionRequest(licence="Apache-2.0"))
        found[twin] = Path(shutil.copytree(EXAMPLES / name, tmp_path / twin))
        (found[twin] / "player.py").write_text(PLAYERS[name])
        side = nips2017_layout.read_metadata(found[twin]).side
        said = {"sparring": 1, "name": twin, "side": side, "command": ["python", "player.py"]}
        (found[twin] / "submission.yaml").write_text(json.dumps(said))
    return found


def play(folder: Path, entries: list[dict], backend: str):
    """Plays a round on a few digits, with one of the organizers' attacks, and returns its results."""
    body = {
        "sparring": 1,
        "contest": "files",
        "title": "Files and streams",
        "format": "tournament",
        "isolation": "round",
        "task": {
            "name": "digits",
            "dataset": {"kind": "digits", "first": PICTURES},
            "budget": {"norm": "linf", "epsilon": 51},
        },
        "limits": {
            "memory": "1GiB",
            "perturb_seconds": 60,
            "perturb_batch": 8,
            "classify_batch": 5,  # a player of this layout starts its program for each question
            "ready_seconds": 60,
        },
        "replay": {"power": 0.5, "cheat": 0.1},
        "rules": {"clean_floor": None},
        "baselines": [{"builtin": "attack_noop"}],
        "submissions": entries,
    }
    path = folder / "contest.yaml"
    path.write_text(json.dumps(body))
    options = play_rounds.RunOptions(backend=backend, slots=2, allow_unisolated=True)
    return play_rounds.play_round(Contest(path), folder / "out", options, lambda _: None).results


def agree(results) -> None:
    """Asserts that everybody is on the same boards without a fault, and that twins have the very same cells."""
    names = {*TWINS, *TWINS.values()}
    shown = {each.id: each for each in results.submissions}
    assert {shown[name].status for name in names} == {"played"}
    assert not any(shown[name].faults or shown[name].findings or shown[name].violations for name in names)
    cells = {(cell.defence, cell.attack): asdict(cell) for cell in results.cells}
    assert len(cells) == 2 * 4
    for (defence, attack), cell in cells.items():
        twin = cells[TWINS.get(defence, defence), TWINS.get(attack, attack)]
        assert cell | {"defence": "", "attack": ""} == twin | {"defence": "", "attack": ""}
    assert cells[DEFENCE, None]["held"] > 0.8 * PICTURES
    assert cells[DEFENCE, ATTACK]["held"] != cells[DEFENCE, None]["held"], "noise this loud moves something"
    boards = {board.name: {row.submission: row for row in board.rows} for board in results.boards}
    for files, native in TWINS.items():
        ranked = [rows for rows in boards.values() if files in rows]
        assert ranked
        for rows in ranked:
            assert (rows[files].score, rows[files].rank) == (rows[native].score, rows[native].rank)


def test_the_means_are_those_of_the_training_digits(train_digits):
    """The example's means.csv holds what its README says."""
    flat = train_digits.pixels.reshape(len(train_digits), -1)
    means = np.stack([flat[train_digits.labels == label].mean(axis=0) for label in range(10)])
    assert np.allclose(np.loadtxt(EXAMPLES / DEFENCE / "means.csv", delimiter=","), means, atol=0.0051)


@pytest.mark.soak
def test_a_round_beside_native_ones(entries, tmp_path):
    """As processes both examples play, and each lands where a native player that computes the same does."""
    listed = [{"folder": str(folder), "team": name} for name, folder in entries.items()]
    agree(play(tmp_path, listed, "process"))


@pytest.mark.docker
def test_a_round_in_containers(entries, build, tmp_path):
    """In containers too: same gate, same limits, the same cells."""
    listed = []
    for name, folder in entries.items():
        if name in TWINS.values():
            (folder / "Dockerfile").write_text("ARG BASE\n" + RECIPE.format(base="${BASE}"))
        side = Side.ATTACK if name in {ATTACK, TWINS[ATTACK]} else Side.DEFENCE
        tag = build(folder, f"sparring-test/files:{name.replace('_', '-')}")
        listed.append({"image": tag, "name": name, "side": side.value, "team": name})
    agree(play(tmp_path, listed, "docker"))
