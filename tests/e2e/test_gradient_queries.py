"""An attack that asks for the defence's own gradients, in a whole round with real players (X6)."""

from pathlib import Path

import pytest
import yaml

from orchestrator.application.rounds import play_rounds
from orchestrator.intake.contest_file import Contest

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "query" / "gradient.yaml"
PICTURES = 20


def test_gradients_of_the_defence_lead_to_misread_pictures(tmp_path) -> None:
    """The example's attack, on fewer pictures: it beats the undefended network and finds no slope in the neighbours.

    The example's second network is left out: it starts PyTorch twice.
    """
    file = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    file["task"]["dataset"]["first"] = PICTURES
    file["replay"] = {"power": 0}
    for entry in (*file["baselines"], *file["submissions"]):
        entry["folder"] = str((EXAMPLE.parent / entry["folder"]).resolve(strict=True))
    file["submissions"] = [entry for entry in file["submissions"] if entry.get("name") != "trained"]
    path = tmp_path / "contest.yaml"
    path.write_text(yaml.safe_dump(file))
    options = play_rounds.RunOptions(slots=2, allow_unisolated=True)
    results = play_rounds.play_round(Contest(path), tmp_path / "out", options, lambda _: None).results

    held = {(cell.defence, cell.attack): cell.held for cell in results.cells}
    assert held["undefended", "gradient"] <= held["undefended", None] - 5
    assert held["neighbours", "gradient"] >= held["neighbours", None] - 2
    parts = {part.defence: part for part in results.queries}
    assert all(part.queries == 100 * PICTURES for part in parts.values())
    assert parts["undefended"].successes == PICTURES - held["undefended", "gradient"]
    assert not any(part.faults for part in results.submissions)
