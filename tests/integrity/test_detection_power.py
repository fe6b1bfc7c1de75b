"""Sample sizes and what they cost, against direct combinatorics."""

from math import comb

import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from laboratory import Gallery, Laboratory
from players import Honest

from orchestrator.domain.tasks import Isolation
from orchestrator.integrity import detection_power
from orchestrator.integrity.detection_power import SamplingDesign

POWERS = st.floats(0.01, 0.999)


def caught(questions: int, changed: int, drawn: int) -> float:
    """Returns the probability by counting: the draws that miss every changed answer, among all draws."""
    return 1 - comb(questions - changed, drawn) / comb(questions, drawn)


@settings(deadline=None)
@given(st.integers(1, 400), st.data())
def test_the_probability_is_that_of_counting(questions, data) -> None:
    """The hypergeometric distribution and whole-number combinatorics agree."""
    changed, drawn = data.draw(st.integers(1, questions)), data.draw(st.integers(1, questions))
    assert detection_power.mismatch_probability(questions, changed, drawn) == pytest.approx(
        caught(questions, changed, drawn), abs=1e-9
    )


@given(st.integers(1, 20_000), st.floats(0, 1), st.data())
def test_a_tail_is_that_of_scipys_distribution(trials, probability, data) -> None:
    """The tail is that of `scipy.stats.binom`, whose module takes long to import."""
    least = data.draw(st.integers(0, trials + 1))
    expected = scipy.stats.binom.sf(least - 1, trials, probability)
    assert detection_power.binomial_tail(least, trials, probability) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("noise", [0, 1e-6, 1e-4, 1e-3, 0.01, 0.1])
def test_the_critical_count_is_the_first_that_noise_hardly_reaches(noise) -> None:
    """An honest device reaches it with a probability of at most `ALPHA`, and the count below it more often."""
    for pairs in (100, 360, 10_000):
        count = detection_power.critical_count(pairs, noise)
        assert (
            scipy.stats.binom.sf(count - 1, pairs, noise)
            <= detection_power.ALPHA
            < scipy.stats.binom.sf(count - 2, pairs, noise)
        )


@settings(deadline=None)
@given(st.integers(1, 5000), POWERS, st.floats(0.001, 0.5))
def test_the_sample_is_the_smallest_that_has_the_power(questions, wanted, cheat) -> None:
    """As many as drawn have the power by counting, and one less has not."""
    drawn = detection_power.sample_size(questions, SamplingDesign(power=wanted, cheat=cheat))
    changed = detection_power.changed_answer_count(questions, cheat)
    assert 1 <= drawn <= questions
    assert caught(questions, changed, drawn) >= wanted - 1e-9
    assert drawn == 1 or caught(questions, changed, drawn - 1) < wanted + 1e-9


def test_known_figures() -> None:
    """1000 questions, a tenth of them asked again: figures worked out by hand beforehand."""
    assert [round(detection_power.mismatch_probability(1000, changed, 100), 3) for changed in (5, 10, 50)] == [
        0.410,
        0.653,
        0.996,
    ]


@pytest.mark.parametrize(("questions", "cheat", "changed"), [(1000, 0.01, 10), (1001, 0.01, 11), (5, 0.01, 1)])
def test_a_cheat_of_a_share_changes_whole_answers(questions, cheat, changed) -> None:
    """It changes at least its share, and at least one answer."""
    assert detection_power.changed_answer_count(questions, cheat) == changed


def test_no_power_asks_nothing() -> None:
    """With power 0, or where nothing was played, nothing is drawn and nothing is paid."""
    for questions, design in ((1000, SamplingDesign(power=0)), (0, SamplingDesign())):
        found = detection_power.replay_cost(questions, 100, design)
        assert (found.drawn, found.asked, found.share, found.sandboxes, found.detection_power.mismatch) == (
            0,
            0,
            0,
            0,
            0,
        )


def test_ten_thousand_questions_cost_less_than_fifteen_in_a_hundred() -> None:
    """At the default power the replays of 10,000 questions on 1000 pictures are less than 15 % of them."""
    assert detection_power.replay_cost(10_000, 1000, SamplingDesign()).share < 0.15


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("wanted", [0.5, 0.99])
def test_the_cost_is_an_upper_bound(isolation, batch, wanted) -> None:
    """An honest defence is asked no more than the plan says, in no more sandboxes, and with the power that it says."""
    design = SamplingDesign(power=wanted)
    gallery = Gallery.drawn(5, cells=4, pictures=101)
    verdict = Laboratory(Honest, gallery, 5, isolation=isolation, batch=batch, design=design).judge()
    plan = detection_power.replay_cost(404, 101, design, batch=batch, mixed=isolation is Isolation.ROUND)
    assert 0 < verdict.coverage.asked <= plan.asked
    assert 0 < verdict.coverage.sandboxes <= plan.sandboxes
    assert verdict.coverage.drawn == verdict.coverage.decided == plan.drawn
    assert verdict.coverage.achieved == plan.detection_power.mismatch >= wanted
