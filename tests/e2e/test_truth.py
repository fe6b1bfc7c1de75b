"""The whole orchestrator against reference numbers that four attack libraries agree on (shared/data/cifar10).

Two reference classifiers defend; six attacks are FGSM, BIM and PGD, each with either classifier as its surrogate. The
cells where surrogate and defence are the same must give the counts of models/model.json.
"""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from orchestrator import resources
from orchestrator.application.rounds import play_rounds
from orchestrator.intake.contest_file import Contest

PICTURES = 1000
MODELS = {"clean": "cifar_resnet_clean", "robust": "cifar_resnet_fgsm_at"}
ATTACKS = ("fgsm", "bim", "pgd")
CLEAN = {"clean": 836, "robust": 610}
CORRECT = {"clean": {"fgsm": 21, "bim": 0, "pgd": 0}, "robust": {"fgsm": 374, "bim": 349, "pgd": 347}}
TOLERANCE = {"fgsm": 2, "bim": 2, "pgd": 5}
"""Pictures on the boundary: processors add in different orders, so one may change its side on another machine."""


@pytest.mark.data
@pytest.mark.timeout(900)
def test_reference_numbers(shared_data, tmp_path) -> None:
    """All 1000 pictures, eps 8/255: every matching cell is the reference's."""
    entries = [entry(tmp_path, shared_data, "attack", attack, model) for attack in ATTACKS for model in MODELS]
    entries += [entry(tmp_path, shared_data, "defence", "undefended", model) for model in MODELS]
    path = tmp_path / "contest.yaml"
    path.write_text(json.dumps(contest(shared_data, entries)))

    how = play_rounds.RunOptions(slots=2, allow_unisolated=True)
    results = play_rounds.play_round(Contest(path), tmp_path / "out", how, lambda _: None).results

    held = {(cell.defence, cell.attack): cell.held for cell in results.cells}
    for model in MODELS:
        defence = f"undefended_{model}"
        assert held[defence, None] == CLEAN[model]
        for attack in ATTACKS:
            assert abs(held[defence, f"{attack}_{model}"] - CORRECT[model][attack]) <= TOLERANCE[attack]
    assert results.findings == []


def entry(folder: Path, data: Path, side: str, name: str, model: str) -> dict[str, str]:
    """Makes a submission: a baseline's folder with a reference model in the place of its weights."""
    made = folder / f"{name}_{model}"
    shutil.copytree(resources.resource_path("images", f"{side}_{name}"), made)
    manifest = yaml.safe_load((made / "submission.yaml").read_text())
    (made / "submission.yaml").write_text(json.dumps({**manifest, "image": f"sparring-test/{side}-{name}-{model}"}))
    shutil.copy(data / "cifar10" / "models" / f"{MODELS[model]}.safetensors", made / "weights.safetensors")
    return {"folder": str(made), "name": f"{name}_{model}", "team": f"reference {model}"}


def contest(data: Path, entries: list[dict[str, str]]) -> dict[str, object]:
    """Returns the contest file."""
    return {
        "sparring": 1,
        "contest": "truth",
        "title": "Reference numbers",
        "format": "tournament",
        "task": {
            "name": "cifar10",
            "dataset": {"kind": "npz", "path": str(data / "cifar10" / "eval1000.npz"), "first": PICTURES},
            "budget": {"norm": "linf", "epsilon": 8},
        },
        "limits": {"classify_batch": 50},
        "rules": {"clean_floor": None},
        "submissions": entries,
    }
