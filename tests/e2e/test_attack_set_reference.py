"""An attack set against reference numbers that were computed without this software (shared/data/cifar10, C3 to C6)."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from orchestrator import resources
from orchestrator.application.rounds import play_rounds, round_record
from orchestrator.domain.plan import Cell
from orchestrator.intake.contest_file import Contest
from orchestrator.scoring.results_file import Results, RowPart
from tests.e2e.recomputed_scores import decoded, recomputed

pytestmark = [pytest.mark.data, pytest.mark.timeout(900), pytest.mark.xdist_group("attack-set-reference")]

ARCHIVES = {"untouched": "test500.zip", "pgd": "example_attack_pgd20_q95.zip"}
KEYS = {"untouched": "clean_images", "pgd": "pgd20_jpeg_q95_444"}
READINGS = {
    "as-written": {},
    "windowed": {"ssim": "windowed"},
    "nte-successful": {"nte": "successful"},
    "correct": {"count": "correct"},
}


@pytest.fixture(scope="module")
def played(shared_data, tmp_path_factory) -> SimpleNamespace:
    """Returns a played round of both archives against the reference classifier, and the reference numbers."""
    root = tmp_path_factory.mktemp("reference")
    data = shared_data / "cifar10"
    model = root / "hidden"
    shutil.copytree(resources.resource_path("images", "defence_undefended"), model)
    manifest = yaml.safe_load((model / "submission.yaml").read_text())
    (model / "submission.yaml").write_text(json.dumps({**manifest, "image": "sparring-test/hidden-reference"}))
    shutil.copy(data / "models" / "cifar_resnet_clean.safetensors", model / "weights.safetensors")
    contest = {
        "sparring": 1,
        "contest": "reference",
        "title": "Reference numbers",
        "format": "attack_set",
        "task": {"name": "cifar10", "dataset": {"kind": "zip", "path": str(data / "test500.zip")}},
        "isolation": "round",
        "limits": {"classify_batch": 50},  # the replays ask in batches and one by one
        "replay": {"power": 0.5, "cheat": 0.1},
        "baselines": [{"folder": str(model), "name": "hidden"}],
        "submissions": [{"pictures": str(data / file), "name": name} for name, file in ARCHIVES.items()],
    }
    path = root / "contest.yaml"
    path.write_text(json.dumps(contest))
    options = play_rounds.RunOptions(slots=2, allow_unisolated=True)
    results = play_rounds.play_round(Contest(path), root / "out", options, lambda _: None).results
    assert results.findings == []
    reference = json.loads((data / "example_scores.json").read_text())["results"]
    return SimpleNamespace(root=root, reference={name: reference[key]["clean"] for name, key in KEYS.items()})


@pytest.fixture(scope="module")
def boards(played) -> dict[str, dict[str, RowPart]]:
    """Returns the board's rows under each reading of the rules: nothing is played again."""
    record, head = round_record.read_round(played.root / "out")
    rules_type = Contest(played.root / "contest.yaml").format.rules_type
    found = {}
    for reading, changes in READINGS.items():
        rules = rules_type.model_validate(changes).model_dump(mode="json")
        results: Results = round_record.score_round(record, played.root / "out", rules).results(head)
        found[reading] = {row.submission: row for row in results.boards[0].rows}
    return found


@pytest.fixture(scope="module")
def pictures(shared_data) -> dict[str, list[np.ndarray]]:
    """Returns the pictures of both archives."""
    return {name: decoded(shared_data / "cifar10" / file) for name, file in ARCHIVES.items()}


@pytest.mark.parametrize("name", ARCHIVES)
def test_as_written_the_numbers_are_the_references(played, boards, name) -> None:
    """ASR exactly, SSIM with one window, NTE over all pictures, and Score_M, to the reference's six decimals."""
    found, known = boards["as-written"][name], played.reference[name]
    values = {key: value.value for key, value in found.values.items()}
    assert values["asr"] == pytest.approx(100 * known["asr"], abs=1e-9)
    assert values["ssim"] == pytest.approx(known["ssim_global_mean_success"], abs=1e-6)
    assert values["nte"] == pytest.approx(known["nte_mean_all"], abs=2e-6)
    assert values["nte_fooled"] == pytest.approx(known["nte_mean_success"], abs=2e-6)
    if name == "untouched":
        assert found.score == pytest.approx(known["score_M_gauss_nteall"], abs=1e-4)


@pytest.mark.parametrize("name", ARCHIVES)
def test_other_readings_are_the_references_too(played, boards, name) -> None:
    """The Gaussian window, and NTE over the fooled pictures alone, with the scores that follow from them."""
    known = played.reference[name]
    windowed = boards["windowed"][name]
    assert windowed.values["ssim"].value == pytest.approx(known["ssim_gauss11_mean_success"], abs=1e-6)
    assert windowed.score == pytest.approx(known["score_M_gauss_nteall"], abs=2e-4)
    successful = boards["nte-successful"][name]
    assert successful.values["nte"].value == pytest.approx(known["nte_mean_success"], abs=2e-6)


def test_untouched_pictures_score_nothing_among_the_correct_ones(boards) -> None:
    """Under `correct` nobody is paid for pictures that the hidden model misreads anyway (C3)."""
    found = boards["correct"]
    assert found["untouched"].score == 0
    assert np.isclose(found["pgd"].values["asr"].value, 100)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("name", ARCHIVES)
def test_every_part_equals_a_recomputation(played, boards, pictures, name, reading) -> None:
    """From the archives and the hidden model's scores alone, with NumPy and scikit-image: equal after rounding."""
    record, _ = round_record.read_round(played.root / "out")
    labels = record.samples.labels
    scores = record.scores("hidden", len(labels))
    before, after = pictures["untouched"], pictures[name]
    expected = recomputed(
        before, after, labels, scores[Cell("hidden")], scores[Cell("hidden", name)], READINGS[reading]
    )
    found = boards[reading][name]
    assert {key: value.exact for key, value in found.values.items()} == expected
    assert found.exact == expected["score_m"]
