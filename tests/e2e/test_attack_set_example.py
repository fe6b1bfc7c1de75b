"""The example of an attack-set contest, played as its README says (C1 to C9)."""

import json
import runpy
import sys
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import pytest

from orchestrator.application.rounds import round_record
from orchestrator.cli.console import ExitCode
from orchestrator.domain.contest_events import ContestEvent
from orchestrator.domain.plan import Cell
from orchestrator.formats.attack_set.events import GradesReceived, GradingPlanned
from orchestrator.formats.attack_set.grading.plan import GradingPlan
from orchestrator.formats.attack_set.grading.sheets import GradingTask
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import ContestFolder
from tests.e2e.recomputed_scores import decoded, recomputed

GRADED, PLANNED = 40, 17
"""Pictures, and raters of the first plan."""
REMOVED = ("r16", "r17")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "attack-set"


def play(out: Path, monkeypatch, *words: object) -> dict[str, object]:
    """Plays the example and returns its results."""
    monkeypatch.setattr(sys, "argv", ["season.py", str(out), *map(str, words)])
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(str(EXAMPLE / "season.py"), run_name="__main__")
    return json.loads((out / "cup" / "rounds" / "board" / "pictures" / "results.json").read_text())


def check(results: dict[str, object], cup: Path) -> None:
    """Asserts what the README says of the three teams and of the raters.

    How many are asked depends on the round's secret.
    """
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
    asked = {sheet.rater for plan in grading_plans(cup) for sheet in plan.sheets}
    assert len(asked) > PLANNED
    assert f"{len(asked) - len(REMOVED)} of {len(asked)} raters count" in notes
    assert "Rater r16 was removed" in notes
    assert "Rater r17 was removed" in notes


def events_of(cup: Path) -> list[ContestEvent]:
    """Returns the events of the contest's ledger."""
    ledger = ContestFolder(cup).ledger()
    events = [entry.event for entry in ledger.read()]
    ledger.close()
    return events


def grading_plans(cup: Path) -> list[GradingPlan]:
    """Returns the plan and its supplements."""
    return [event.plan for event in events_of(cup) if isinstance(event, GradingPlanned)]


def check_human_scores(results: dict[str, object], cup: Path) -> None:
    """Computes Score_valid and Score_quality again from the ledger's plans and answers alone (C7)."""
    items = {item.token: (item, rater) for plan in grading_plans(cup) for rater, item in plan.items()}
    labels = Contest(cup / "contest.yaml").load_samples().labels
    votes, grades = defaultdict(list), defaultdict(list)
    for event in events_of(cup):
        for answer in event.file.answers if isinstance(event, GradesReceived) else ():
            item, rater = items[answer.token]
            if not item.scored or rater in REMOVED:
                continue
            if item.task is GradingTask.VALID:
                seen = answer.class_index == labels[item.position]
                votes[item.submission, item.position].append(bool(answer.proper and seen))
            else:
                grades[item.submission, item.position].append(answer.grade)
    for row in results["boards"][0]["rows"]:
        name = row["submission"]
        valid = [2 * sum(found) > len(found) for (one, _), found in votes.items() if one == name]
        means = [Fraction(sum(found), len(found)) for (one, _), found in grades.items() if one == name]
        values = {key: value["exact"] for key, value in row["values"].items()}
        assert len(valid) == len(means) == GRADED
        assert Fraction(values["valid"]) == Fraction(100 * sum(valid), GRADED)
        assert Fraction(values["quality"]) == 100 * sum(means) / (5 * GRADED)


def check_machine_scores(results: dict[str, object], out: Path) -> None:
    """Computes ASR, SSIM, NTE and Score_M again from the archives and the hidden model's scores alone (C3 to C6)."""
    record, _ = round_record.read_round(out / "cup" / "rounds" / "board" / "pictures")
    labels, before = record.samples.labels, decoded(out / "pictures.zip")
    scores = record.scores("hidden", len(labels))
    for row in results["boards"][0]["rows"]:
        name = row["submission"]
        after, rules = decoded(out / "submissions" / f"{name}.zip"), results["rules"]
        expected = recomputed(before, after, labels, scores[Cell("hidden")], scores[Cell("hidden", name)], rules)
        assert {key: row["values"][key]["exact"] for key in expected} == expected


def test_the_example_stops_where_a_command_fails(tmp_path, monkeypatch) -> None:
    """It ends with the command's exit code, and none of the later commands runs."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    example = runpy.run_path(str(EXAMPLE / "season.py"))
    with pytest.raises(SystemExit) as ended:
        example["run"]("board", tmp_path / "none")
    assert ended.value.code == ExitCode.USAGE


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_on_digits(tmp_path, monkeypatch) -> None:
    """Three teams, raters of whom enough count in the end, and a bundle that verifies."""
    results = play(tmp_path / "out", monkeypatch)
    check(results, tmp_path / "out" / "cup")
    check_machine_scores(results, tmp_path / "out")
    check_human_scores(results, tmp_path / "out" / "cup")
    [full] = [json.loads(path.read_text()) for path in (tmp_path / "out" / "full").rglob("results.json")]
    assert full["boards"] == results["boards"]


@pytest.mark.data
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_example_on_cifar10(shared_data, tmp_path, monkeypatch) -> None:
    """The same on 500 pictures of CIFAR-10, with the reference classifier as the surrogate and hidden."""
    data = shared_data / "cifar10"
    weights = data / "models" / "cifar_resnet_clean.safetensors"
    given = ("--pictures", data / "test500.zip", "--surrogate", weights, "--hidden", weights)
    results = play(tmp_path / "out", monkeypatch, *given)
    check(results, tmp_path / "out" / "cup")
    check_machine_scores(results, tmp_path / "out")
    values = results["boards"][0]["rows"][0]["values"]
    assert values["asr"]["value"] == 100
