"""The example of an attack-set contest, played as its README says (C1 to C9)."""

import json
import runpy
import sys
from fractions import Fraction
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "attack-set"


def play(out: Path, monkeypatch, *words: object) -> dict[str, object]:
    """Plays the example and returns its results."""
    monkeypatch.setattr(sys, "argv", ["season.py", str(out), *map(str, words)])
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(str(EXAMPLE / "season.py"), run_name="__main__")
    return json.loads((out / "cup" / "rounds" / "board" / "pictures" / "results.json").read_text())


def check(results: dict[str, object]) -> None:
    """Asserts what the README says of the three teams and of the raters."""
    rows = {row["submission"]: row for row in results["boards"][0]["rows"]}
    assert [row["submission"] for row in results["boards"][0]["rows"]] == ["pgd", "fgsm", "untouched"]
    assert rows["untouched"]["values"]["score_m"]["value"] == 0
    assert rows["untouched"]["values"]["score_h"]["value"] > rows["pgd"]["values"]["score_h"]["value"]
    for row in rows.values():
        values = {name: value["exact"] for name, value in row["values"].items()}
        expected = 60 * Fraction(values["score_h"]) + Fraction(2, 5) * Fraction(values["score_m"])
        assert Fraction(row["exact"]) == expected
        assert Fraction(values["score_h"]) == Fraction(values["valid"]) * Fraction(values["quality"]) / 10_000
        assert "indicative" not in row["remark"]
        assert "provisional" not in row["remark"]
    notes = " ".join(results["notes"])
    assert "25 of 27 raters count" in notes
    assert "Rater r16 was removed" in notes
    assert "Rater r17 was removed" in notes


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_on_digits(tmp_path, monkeypatch) -> None:
    """Three teams, raters of whom enough count in the end, and a bundle that verifies."""
    results = play(tmp_path / "out", monkeypatch)
    check(results)
    [full] = [json.loads(path.read_text()) for path in (tmp_path / "out" / "full").rglob("results.json")]
    assert full["boards"] == results["boards"]


@pytest.mark.data
@pytest.mark.timeout(900)
def test_the_example_on_cifar10(shared_data, tmp_path, monkeypatch) -> None:
    """The same on 500 pictures of CIFAR-10, with the reference classifier as the surrogate and hidden."""
    data = shared_data / "cifar10"
    weights = data / "models" / "cifar_resnet_clean.safetensors"
    given = ("--pictures", data / "test500.zip", "--surrogate", weights, "--hidden", weights)
    results = play(tmp_path / "out", monkeypatch, *given)
    check(results)
    values = results["boards"][0]["rows"][0]["values"]
    assert values["asr"]["value"] == 100
