"""The preset of 2018 on pictures like bird-or-bicycle: two folders of JPEG files of 299 x 299 (rules B2, B6)."""

import re

import pytest

from orchestrator.application.rounds.play_rounds import RunOptions
from orchestrator.application.submissions import evaluate as evaluation
from orchestrator.intake.contest_file import Contest
from orchestrator.resources import resource_path

from .draw_bird_or_bicycle import draw_set

SMALL = {
    "memory: 8GiB": "memory: 1GiB",
    "spatial:\n    pictures: 1000": "spatial:\n    pictures: 6",
    "dx_steps: 5": "dx_steps: 1",
    "dy_steps: 5": "dy_steps: 1",
    "angle_steps: 31": "angle_steps: 3",
    "spsa:\n    pictures: 1000": "spsa:\n    pictures: 2",
    "steps: 200": "steps: 2",
    "samples: 64": "samples: 4",
    "boundary:\n    pictures: 100": "boundary:\n    pictures: 2",
    "iterations: 5000": "iterations: 2",
    "corruptions: {pictures: 1000}": "corruptions: {pictures: 2}",
}
"""What makes the preset play in seconds."""
PLAYER = """
from sparring_player import Defence, serve
# isort: split
import numpy as np

class Middle(Defence):
    scores = True

    def classify(self, pixels):
        dark = 130 - pixels[:, :, 92:132, 82:142].mean(axis=(1, 2, 3), dtype=np.float32)
        scores = np.stack([-dark, dark], 1) / 100
        return scores.argmax(axis=1), scores

serve(Middle())
"""


@pytest.mark.slow
def test_the_preset_of_2018_plays_on_such_pictures(tmp_path) -> None:
    """A defence that finds a bird's body in the middle reads all of them right, and every attack asks it."""
    draw_set(tmp_path / "bird-or-bicycle", 3)
    text = resource_path("examples", "warmup-2018.yaml").read_text("utf-8")
    for old, new in SMALL.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (tmp_path / "contest.yaml").write_text(text)
    (tmp_path / "middle").mkdir()
    said = "sparring: 1\nname: middle\nside: defence\ncommand: [python, player.py]\n"
    (tmp_path / "middle" / "submission.yaml").write_text(said)
    (tmp_path / "middle" / "player.py").write_text(PLAYER.strip())
    wanted = evaluation.prepare_evaluation(tmp_path / "middle", Contest(tmp_path / "contest.yaml"))
    assert wanted.samples.pixels.shape == (6, 3, 224, 224)
    assert (wanted.samples.classes, wanted.samples.labels.tolist()) == (("bicycle", "bird"), [0, 1, 0, 1, 0, 1])
    options = RunOptions("process", slots=2, allow_unisolated=True)
    found = evaluation.evaluate(wanted, tmp_path / "out", options, lambda _: None)
    assert found.faults == []
    assert found.row.values["clean"].value == 100
    totals = {cell.attack: cell.total for cell in found.results.cells}
    assert totals == {None: 6, "spatial": 6, "spsa": 2, "boundary": 2, "corruptions": 2}
    assert found.row.score is not None
    assert "The task's pictures were resized to 224 x 224 pixels." in found.results.notes
    assert any(
        re.match(r"The attacks are smaller .* spatial.pictures 6 of 1,000", note) for note in found.results.notes
    )
