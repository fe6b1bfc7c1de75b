"""What the board and `grade status` show of people's answers (C7, X5)."""

from dataclasses import replace

import pytest

from orchestrator.formats.attack_set.grading.planning import make_plan
from orchestrator.formats.attack_set.grading.round_grades import (
    GradingResult,
    GradingRound,
    NeighbourDifference,
    grade_round,
)
from orchestrator.formats.attack_set.grading.rules import GradingRules
from orchestrator.formats.attack_set.grading.sheets import Answer, AnswerFile, GradingTask
from orchestrator.formats.attack_set.human_scores import grading_notes, human_columns, human_remarks, human_values
from orchestrator.formats.attack_set.objective_scores import percent_limits

LABELS = tuple(position % 2 for position in range(12))
RATERS = ("ada", "bob", "cyd", "dan")
GRADES = {"original": 5, "anchor": 1, "ants": 4, "bees": 2}


def result_of(careless: str = "") -> GradingResult:
    """Returns what four raters say of two submissions, one of them carelessly where one is named."""
    plan = make_plan(GradingRules(pictures=12, distance=2), ("ants", "bees"), len(LABELS), RATERS, b"drawn later")

    def answer(rater: str, item) -> Answer:
        if item.task is GradingTask.VALID:
            said = {"class_index": LABELS[item.position], "proper": True}
        else:
            said = {"grade": 3 if rater == careless else GRADES[item.submission or item.kind.value]}
        return Answer(token=item.token, milliseconds=2000, **said)

    files = [
        AnswerFile(plan=plan.digest, rater=rater, answers=[answer(rater, item) for item in plan.items_of(rater)])
        for rater in RATERS
    ]
    return grade_round(GradingRound(plan, LABELS, 2), files, seed=1, draws=200)


@pytest.fixture(scope="module")
def whole() -> GradingResult:
    """Four raters who see everything as it is."""
    return result_of()


@pytest.fixture(scope="module")
def removed() -> GradingResult:
    """One of the four is removed."""
    return result_of("dan")


def test_every_estimate_of_quality_is_on_the_board(whole, removed) -> None:
    """Plain, levelled, modelled and differential; with removed raters' grades too, where raters were removed."""
    ants = human_values(whole.submissions[0], whole)
    assert [column.name for column in human_columns(whole)] == list(ants)
    assert {name: float(value.number) for name, value in ants.items()} == pytest.approx(
        {"valid": 100, "quality": 80, "quality_corrected": 80, "quality_modelled": 80, "dmos": 4, "score_h": 0.8}
    )
    with_removed = human_values(removed.submissions[0], removed)
    assert list(with_removed) == [column.name for column in human_columns(removed)]
    assert with_removed["quality"].number == 80
    assert 60 < with_removed["quality_all"].number < 80
    assert set(human_values(None, removed)) == set(with_removed)


def test_what_a_reader_has_to_know_is_noted(whole, removed) -> None:
    """Who was removed and why, that four raters are few, and which neighbours cannot be told apart."""
    assert "Human scores are indicative: fewer than 15 raters count." in grading_notes(whole)
    assert not any("tell apart" in note for note in grading_notes(whole))
    assert "Rater dan was removed: the mean grade of originals is 0.00 above that of anchors, less than 1.5." in (
        grading_notes(removed)
    )
    pair = NeighbourDifference("ants", "bees", (-0.01, 0.03))
    doubtful = replace(whole, neighbours=(pair,), bt500=("bob",))
    assert any("only by chance: ants and bees." in note for note in grading_notes(doubtful))
    assert any("BT.500 would remove bob; it is only reported here" in note for note in grading_notes(doubtful))


def test_a_rank_that_depends_on_the_correction_is_marked(whole) -> None:
    """`not robust` stands beside the row, and `indicative` with fewer than 15 raters, and neither without reason."""
    ants = whole.submissions[0]
    assert human_remarks(ants, whole) == ["indicative"]
    assert human_remarks(ants, replace(whole, indicative=False)) == []
    [remark] = human_remarks(replace(ants, robust=False), replace(whole, indicative=False))
    assert remark.startswith("not robust: its rank changes")


def test_the_care_of_a_rater_is_told_in_words(removed) -> None:
    """What is reported and removes nobody: hidden items, repeats and times."""
    reports = {report.rater: report for report in removed.raters}
    ada = reports["ada"]
    assert ada.in_words() == (
        "mean grade of originals 5.00, mean grade of anchors 1.00, "
        f"{ada.repeats} of {ada.repeats} repeats graded the same, "
        f"{ada.valid_originals[1]} of {ada.valid_originals[1]} originals called valid, half of the answers within 2.0 s"
    )
    assert "mean grade of originals 3.00, mean grade of anchors 3.00" in reports["dan"].in_words()


def test_limits_in_percent_have_no_digits_of_the_product() -> None:
    """100 times 0.586667 is not 58.6667 for a computer."""
    assert percent_limits((0.586667, 0.07)) == (58.6667, 7.0)
    assert percent_limits(None) is None
