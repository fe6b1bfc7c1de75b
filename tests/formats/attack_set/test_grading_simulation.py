"""What the rule that removes raters finds, and how often intervals hold, with simulated raters."""

import numpy as np
import pytest

from orchestrator.formats.attack_set.grading.answers import GivenAnswer
from orchestrator.formats.attack_set.grading.assignment import assign_raters
from orchestrator.formats.attack_set.grading.intervals import draw_scores, interval_of
from orchestrator.formats.attack_set.grading.plan import ItemKind, PlannedItem
from orchestrator.formats.attack_set.grading.planning import make_plan
from orchestrator.formats.attack_set.grading.quality import mean_quality
from orchestrator.formats.attack_set.grading.rater_exclusion import RaterStatus, report_rater
from orchestrator.formats.attack_set.grading.round_grades import GradingRound, grade_round
from orchestrator.formats.attack_set.grading.rules import GradingRules
from orchestrator.formats.attack_set.grading.sheets import GradingTask

from .simulated_raters import ANCHOR_QUALITY, ORIGINAL_QUALITY, Rater, answer, answer_files, draw_raters

TEAMS = ("ants", "bees", "cats")
MEANS = (3.7, 3.2, 2.7)
BIAS, PICTURES = 0.4, 0.6
"""Standard deviations of raters' levels and of pictures."""
HIDDEN = [
    PlannedItem(token=f"{place:016x}", task=GradingTask.QUALITY, kind=kind, position=place)
    for place, kind in enumerate([ItemKind.ORIGINAL, ItemKind.ANCHOR] * 15)
]


def is_removed(rater: Rater, rng: np.random.Generator) -> bool:
    """Returns whether somebody who grades 15 originals and 15 anchors is removed."""
    truth = {ItemKind.ORIGINAL: ORIGINAL_QUALITY, ItemKind.ANCHOR: ANCHOR_QUALITY}
    given = [GivenAnswer("r", item, answer(item, truth[item.kind], 0, rater, rng)) for item in HIDDEN]
    return report_rater("r", given, [0] * len(HIDDEN)).status is RaterStatus.REMOVED


@pytest.mark.parametrize("noise", [0.7, 1.0])
@pytest.mark.parametrize("seeds", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_raters_who_click_at_random_are_removed_and_others_are_not(seeds, noise):
    """Of 15 raters two click at random: both go in 95 of 100 rounds or more, and of 1,300 others at most one."""
    both = others = 0
    for seed in range(seeds):
        rng = np.random.default_rng([seed, int(10 * noise)])
        removed = [is_removed(rater, rng) for rater in draw_raters(15, 2, noise, rng)]
        both += all(removed[-2:])
        others += sum(removed[:-2])
    assert both >= 0.95 * seeds
    assert others <= 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_a_whole_round_ranks_by_the_truth(seed):
    """Two of 15 click at random: they alone are removed, and who is half a grade better is ranked before."""
    rng = np.random.default_rng(seed)
    labels = tuple(position % 2 for position in range(60))
    plan = make_plan(GradingRules(raters_per_picture=5), TEAMS, 60, [f"r{n}" for n in range(15)], bytes([seed]))
    levels = rng.normal(0, PICTURES, 60)
    files = answer_files(
        plan,
        draw_raters(15, 2, 0.7, rng),
        labels,
        lambda submission, position: MEANS[TEAMS.index(submission)] + levels[position],
        rng,
    )
    result = grade_round(GradingRound(plan, labels, 2), files, seed=seed, draws=300)
    assert [report.rater for report in result.raters if report.status is RaterStatus.REMOVED] == ["r13", "r14"]
    assert result.indicative, "13 raters are left"
    assert [(pair.better, pair.worse) for pair in result.neighbours] == [tuple(TEAMS[:2]), tuple(TEAMS[1:])]
    for each, mean in zip(result.submissions, MEANS, strict=True):
        assert each.robust
        assert each.valid > 0.95
        assert float(each.quality) == pytest.approx(mean / 5, abs=0.09)
        assert each.quality_interval[0] < float(each.quality) < each.quality_interval[1]
        assert all(request.task is GradingTask.VALID or request.count < 3 for request in result.more)
    assert all(each.interval[0] > 0 for each in result.neighbours)
    assert -0.1 < result.valid_agreement.alpha < 0.5, "low by construction where nearly everything is valid"
    assert result.valid_agreement.raw > 0.85


def simulated_grades(noise: float, rng: np.random.Generator) -> np.ndarray:
    """Returns grades [3, 60, 15] as the plan hands pictures out, three raters for each."""
    raters = [str(place) for place in range(15)]
    biases, levels = rng.normal(0, BIAS, 15), rng.normal(0, PICTURES, 60)
    grades = np.full((3, 60, 15), np.nan)
    for rater, team, position in assign_raters(TEAMS, range(60), raters, 3, rng):
        place, who = TEAMS.index(team), int(rater)
        seen = MEANS[place] + levels[position] + biases[who] + rng.normal(0, noise)
        grades[place, position, who] = min(max(round(seen), 1), 5)
    return grades


def expected_quality(mean: float, noise: float, rng: np.random.Generator) -> float:
    """Returns Score_quality with all raters and all pictures that there could be."""
    seen = mean + rng.normal(0, np.sqrt(noise**2 + BIAS**2 + PICTURES**2), 400_000)
    return float(np.clip(np.rint(seen), 1, 5).mean() / 5)


@pytest.mark.parametrize("noise", [0.7, 1.0])
@pytest.mark.parametrize(
    ("rounds", "lowest"), [pytest.param(40, 0.85), pytest.param(400, 0.93, marks=pytest.mark.slow)]
)
def test_intervals_cover_the_truth(rounds, lowest, noise):
    """The 95 % intervals of scores and of differences cover it in 95 % of rounds or more, and are not wider than twice.

    The bootstrap counts the noise of single grades about three times, so it errs on the safe side: measured coverage is
    0.95 to 0.99 for scores and above 0.99 for differences. `lowest` allows for the number of rounds.
    """
    rng = np.random.default_rng(int(10 * noise))
    truth = np.array([expected_quality(mean, noise, rng) for mean in MEANS])
    covered, estimates, deviations = [], [], []
    for _ in range(rounds):
        grades = simulated_grades(noise, rng)
        drawn = draw_scores(grades, np.ones((3, 60)), rng, draws=250).quality
        values = np.concatenate([drawn, drawn[:, :1] - drawn[:, 1:2]], axis=1)
        true = [*truth, truth[0] - truth[1]]
        limits = [interval_of(column) for column in values.T]
        covered.append([low <= value <= high for (low, high), value in zip(limits, true, strict=True)])
        scores = mean_quality(grades)
        estimates.append([*scores, scores[0] - scores[1]])
        deviations.append(values.std(axis=0))
    assert np.mean(covered, axis=0).min() >= lowest
    assert (np.mean(deviations, axis=0) < 2 * np.std(estimates, axis=0)).all()


def test_draws_are_those_of_the_seed():
    """The same seed gives the same draws, and differences are of the same raters and pictures."""
    grades = np.repeat(simulated_grades(0.7, np.random.default_rng(1))[:1], 2, axis=0)
    valid = np.ones((2, 60))
    first, again = (draw_scores(grades, valid, np.random.default_rng(5), 50) for _ in range(2))
    assert np.array_equal(first.quality, again.quality)
    assert np.array_equal(first.quality[:, 0], first.quality[:, 1])
    assert np.array_equal(first.human, first.quality)


def test_undecided_and_ungraded_pictures_are_left_out():
    """A picture without a grade does not move quality, nor an undecided one the share; without any there is none."""
    grades = np.full((2, 3, 2), np.nan)
    grades[0, :2] = 4.0
    valid = np.array([[1.0, 1.0, np.nan], [np.nan] * 3])
    drawn = draw_scores(grades, valid, np.random.default_rng(2), 200)
    known = drawn.human[np.isfinite(drawn.human[:, 0]), 0]
    assert known == pytest.approx(0.8)
    assert interval_of(drawn.human[:, 1]) is None
