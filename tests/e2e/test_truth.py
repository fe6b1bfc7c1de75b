"""The whole orchestrator against reference numbers that four attack libraries agree on (shared/data/cifar10).

Two reference classifiers defend, each against FGSM, BIM and PGD with itself as their surrogate: these cells must give
the counts of models/model.json. On a GPU both play in one contest, where the cells of the other surrogate are not
compared. PGD computes twice as long as the two others together: `make soak` plays it, and a machine with a GPU.
"""

import json
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest
import yaml

from orchestrator import resources
from orchestrator.application.rounds import gpu_check, play_rounds
from orchestrator.errors import BackendUnavailable
from orchestrator.intake.contest_file import Contest
from orchestrator.scoring.results_file import Results

PICTURES = 1000
MODELS = {"clean": "cifar_resnet_clean", "robust": "cifar_resnet_fgsm_at"}
ATTACKS = ("fgsm", "bim", "pgd")
CLEAN = {"clean": 836, "robust": 610}
CORRECT = {"clean": {"fgsm": 21, "bim": 0, "pgd": 0}, "robust": {"fgsm": 374, "bim": 349, "pgd": 347}}
TOLERANCE = {"fgsm": 2, "bim": 2, "pgd": 5}
"""Pictures on the boundary: processors add in different orders, so one may change its side on another machine."""


@pytest.mark.data
@pytest.mark.timeout(900)
@pytest.mark.parametrize("attacks", [("fgsm", "bim"), pytest.param(("pgd",), marks=pytest.mark.soak)], ids="-".join)
@pytest.mark.parametrize("model", MODELS)
def test_reference_numbers(shared_data, tmp_path, attacks, model) -> None:
    """All 1000 pictures, eps 8/255: every cell of a model that is attacked with itself is the reference's."""
    results = play(reference_contest(shared_data, tmp_path, attacks, [model]), tmp_path / "out", slots=2)
    check_reference_numbers(results, attacks, [model])


@pytest.mark.data
@pytest.mark.timeout(900)
def test_reference_numbers_with_cuda(shared_data, tmp_path, require) -> None:
    """The same on a GPU, where everything is asked again: neither attacks nor defences answer otherwise."""
    reference = gpu_check.with_gpus(reference_contest(shared_data, tmp_path, replay={"attacks": 1}))
    try:
        gpu_check.require_gpu(reference, "process")
    except BackendUnavailable as error:
        require("gpu", str(error))
    check_reference_numbers(play(reference, tmp_path / "out", slots=1))


def reference_contest(
    data: Path, folder: Path, attacks: Iterable[str] = ATTACKS, models: Collection[str] = MODELS, **more: object
) -> Contest:
    """Writes the contest of the reference numbers into the folder, and reads it."""
    entries = [entry(folder, data, "attack", attack, model) for attack in attacks for model in models]
    entries += [entry(folder, data, "defence", "undefended", model) for model in models]
    path = folder / "contest.yaml"
    path.write_text(json.dumps(contest(data, entries) | more))
    return Contest(path)


def play(reference: Contest, out: Path, *, slots: int) -> Results:
    """Plays the contest on the process backend."""
    options = play_rounds.RunOptions(slots=slots, allow_unisolated=True)
    return play_rounds.play_round(reference, out, options, lambda _: None).results


def check_reference_numbers(
    results: Results, attacks: Collection[str] = ATTACKS, models: Iterable[str] = MODELS
) -> None:
    """Fails where a cell is not the reference's, or a finding was made."""
    held = {(cell.defence, cell.attack): cell.held for cell in results.cells}
    for model in models:
        defence = f"undefended_{model}"
        assert held[defence, None] == CLEAN[model]
        for attack in attacks:
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
        "isolation": "round",  # a start of PyTorch for each player, and not for each cell
        "limits": {"classify_batch": 50},
        "replay": {"power": 0},  # they start PyTorch seven times; test_attack_set_reference.py has replays in batches
        "rules": {"clean_floor": None},
        "submissions": entries,
    }
