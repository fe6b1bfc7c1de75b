"""An attack set against reference numbers that were computed without this software (shared/data/cifar10, C3 to C6)."""

import io
import json
import shutil
import zipfile
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from PIL import Image
from skimage.metrics import structural_similarity

from orchestrator import resources
from orchestrator.application.rounds import play_rounds
from orchestrator.domain.plan import Cell
from orchestrator.intake.contest_file import Contest
from orchestrator.scoring.results_file import Results, RowPart

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
        "replay": {"power": 0.5, "cheat": 0.1},
        "baselines": [{"folder": str(model), "name": "hidden"}],
        "submissions": [{"pictures": str(data / file), "name": name} for name, file in ARCHIVES.items()],
    }
    path = root / "contest.yaml"
    path.write_text(json.dumps(contest))
    how = play_rounds.RunOptions(slots=2, allow_unisolated=True)
    results = play_rounds.play_round(Contest(path), root / "out", how, lambda _: None).results
    assert results.findings == []
    reference = json.loads((data / "example_scores.json").read_text())["results"]
    return SimpleNamespace(
        root=root, data=data, reference={name: reference[key]["clean"] for name, key in KEYS.items()}
    )


def rows(played: SimpleNamespace, reading: str) -> dict[str, RowPart]:
    """Returns the board's rows under other rules: nothing is played again."""
    record, head = play_rounds.read_round(played.root / "out")
    rules = Contest(played.root / "contest.yaml").format.rules_type.model_validate(READINGS[reading])
    results: Results = play_rounds.score_round(record, played.root / "out", rules.model_dump(mode="json")).results(head)
    return {row.submission: row for row in results.boards[0].rows}


@pytest.mark.parametrize("name", ARCHIVES)
def test_as_written_the_numbers_are_the_references(played, name) -> None:
    """ASR exactly, SSIM with one window, NTE over all pictures, and Score_M, to the reference's six decimals."""
    found, known = rows(played, "as-written")[name], played.reference[name]
    values = {key: value.value for key, value in found.values.items()}
    assert values["asr"] == pytest.approx(100 * known["asr"], abs=1e-9)
    assert values["ssim"] == pytest.approx(known["ssim_global_mean_success"], abs=1e-6)
    assert values["nte"] == pytest.approx(known["nte_mean_all"], abs=2e-6)
    assert values["nte_fooled"] == pytest.approx(known["nte_mean_success"], abs=2e-6)
    if name == "untouched":
        assert found.score == pytest.approx(known["score_M_gauss_nteall"], abs=1e-4)


@pytest.mark.parametrize("name", ARCHIVES)
def test_other_readings_are_the_references_too(played, name) -> None:
    """The Gaussian window, and NTE over the fooled pictures alone, with the scores that follow from them."""
    known = played.reference[name]
    windowed = rows(played, "windowed")[name]
    assert windowed.values["ssim"].value == pytest.approx(known["ssim_gauss11_mean_success"], abs=1e-6)
    assert windowed.score == pytest.approx(known["score_M_gauss_nteall"], abs=2e-4)
    successful = rows(played, "nte-successful")[name]
    assert successful.values["nte"].value == pytest.approx(known["nte_mean_success"], abs=2e-6)


def test_untouched_pictures_score_nothing_among_the_correct_ones(played) -> None:
    """Under `correct` nobody is paid for pictures that the hidden model misreads anyway (C3)."""
    found = rows(played, "correct")
    assert found["untouched"].score == 0
    assert np.isclose(found["pgd"].values["asr"].value, 100)


def decoded(path: Path) -> np.ndarray:
    """Returns the pictures of an archive in order, u8 [n, h, w, 3], with Pillow alone."""
    with zipfile.ZipFile(path) as archive:
        count = sum(name.startswith("images/") and not name.endswith("/") for name in archive.namelist())
        pictures = [Image.open(io.BytesIO(archive.read(f"images/{number}.jpg"))) for number in range(count)]
        return np.stack([np.asarray(picture) for picture in pictures])


def six(number: float) -> str:
    """Returns a number as the boards state it exactly."""
    return str(Fraction(f"{number:.6f}"))


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("name", ARCHIVES)
def test_every_part_equals_a_recomputation(played, name, reading) -> None:
    """From the archives and the hidden model's scores alone, with NumPy and scikit-image: equal after rounding."""
    rules, data = READINGS[reading], played.data
    record, _ = play_rounds.read_round(played.root / "out")
    before, after = decoded(data / ARCHIVES["untouched"]), decoded(data / ARCHIVES[name])
    labels = record.samples.labels
    scores = record.scores("hidden", len(labels))
    logits = scores[Cell("hidden", name)].astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    second, first = np.sort(powers / powers.sum(axis=1, keepdims=True), axis=1)[:, -2:].T
    counted = np.ones(len(labels), bool)
    if rules.get("count") == "correct":
        counted = scores[Cell("hidden")].argmax(axis=1) == labels
    fooled = counted & (logits.argmax(axis=1) != labels)
    alike = np.array([similarity(a, b, rules.get("ssim", "global")) for a, b in zip(before, after, strict=True)])
    tolerant = fooled if rules.get("nte") == "successful" else counted
    rate, nte = fooled.sum() / counted.sum(), (first - second)[tolerant].mean()
    found = rows(played, reading)[name]
    assert found.values["asr"].exact == str(Fraction(100 * int(fooled.sum()), int(counted.sum())))
    assert found.values["nte"].exact == six(nte)
    if fooled.any():
        assert found.values["ssim"].exact == six(alike[fooled].mean())
        assert found.exact == six(100 * rate * alike[fooled].mean() * nte)
    else:
        assert (found.values["ssim"].exact, found.exact) == (None, "0")


def similarity(before: np.ndarray, after: np.ndarray, reading: str) -> float:
    """Returns the SSIM of two pictures u8 [h, w, 3], restated; with a window as scikit-image has it."""
    if reading == "windowed":
        return structural_similarity(
            before,
            after,
            channel_axis=2,
            data_range=255,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
    (var_a, cov), (_, var_b) = np.cov(before.ravel().astype(float), after.ravel().astype(float))
    a, b = before.mean(), after.mean()
    return (2 * a * b + 6.5025) * (2 * cov + 58.5225) / ((a * a + b * b + 6.5025) * (var_a + var_b + 58.5225))
