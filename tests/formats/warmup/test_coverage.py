"""Accuracy at 80 % coverage (B3): which pictures count, and what constant or missing scores gain."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from orchestrator.formats.warmup.coverage import CoverageReading, accuracy_at_coverage

SCORES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 30), st.just(2)),
    elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf, np.nan]),
)


def by_the_words_of_2018(scores, labels):
    """Returns accuracy and number of covered pictures as that code is described: a threshold, and all that reach it."""
    confidence = scores.max(axis=1)
    threshold = sorted(confidence, reverse=True)[int(np.linspace(0.01, 1.0, 100)[79] * len(scores)) - 1]
    covered = [place for place, each in enumerate(confidence) if each >= threshold]
    errors = sum(int(scores[place][0] < scores[place][1]) != labels[place] for place in covered)
    return Fraction(len(covered) - errors, len(covered)), len(covered)


@pytest.mark.slow
@given(SCORES, st.data())
def test_exactly_so_many_are_covered(scores, data):
    """ceil(0.8 n) pictures, whatever the scores; missing ones first, and always wrong."""
    labels = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(scores), max_size=len(scores))))
    found = accuracy_at_coverage(scores, labels)
    assert found.covered.sum() == -(-4 * len(scores) // 5)
    missing = np.isnan(scores).any(axis=1)
    assert not found.correct[missing].any()
    assert found.covered[missing].all() or found.covered.sum() == (found.covered & missing).sum()
    if (~missing & ~found.covered).any() and (~missing & found.covered).any():
        confidence = scores.max(axis=1)
        assert confidence[~missing & ~found.covered].max() <= confidence[~missing & found.covered].min()


@pytest.mark.slow
@given(SCORES.filter(lambda scores: not np.isnan(scores).any()), st.data())
def test_the_reference_reading_is_that_of_2018(scores, data):
    """The number of covered pictures and the accuracy are those of the words of that code, ties included."""
    labels = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(scores), max_size=len(scores))))
    found = accuracy_at_coverage(scores, labels, reading=CoverageReading.REFERENCE)
    assert (found.accuracy, int(found.covered.sum())) == by_the_words_of_2018(scores, labels)


@pytest.mark.parametrize("count", [1000, 250, 200, 100, 50])
def test_the_readings_agree_where_nothing_ties(count):
    """Where 0.8 n is whole and no confidence ties at the threshold, both cover the same pictures."""
    rng = np.random.default_rng(count)
    scores, labels = rng.normal(size=(count, 2)), rng.integers(0, 2, count)
    exact, reference = (accuracy_at_coverage(scores, labels, reading=reading) for reading in CoverageReading)
    assert np.array_equal(exact.covered, reference.covered)
    assert exact.accuracy == reference.accuracy


def test_128_pictures_differ_by_one():
    """Their two-class digits: 102 of 128 were covered then, 103 are now."""
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(128, 2)), rng.integers(0, 2, 128)
    covered = [int(accuracy_at_coverage(scores, labels, reading=reading).covered.sum()) for reading in CoverageReading]
    assert covered == [103, 102]


def test_a_constant_confidence_gains_nothing():
    """One-hot scores: the first 80 of 100 pictures count now; all of them did in 2018."""
    labels = np.zeros(100, np.int64)
    scores = np.tile([1.0, 0.0], (100, 1))
    scores[:40] = [0.0, 1.0]
    assert accuracy_at_coverage(scores, labels).accuracy == Fraction(1, 2)
    assert accuracy_at_coverage(scores, labels, reading=CoverageReading.REFERENCE).accuracy == Fraction(60, 100)


def test_silence_gains_nothing():
    """Who answers only what it is sure of is judged by what it did not answer."""
    labels = np.zeros(10, np.int64)
    scores = np.tile([1.0, 0.0], (10, 1))
    scores[5:] = np.nan
    found = accuracy_at_coverage(scores, labels)
    assert found.accuracy == Fraction(3, 8)


def test_infinite_scores_are_valid():
    """The most confident there is (B1)."""
    scores = np.array([[np.inf, 0.0], [0.0, 1.0], [0.0, -np.inf], [0.5, 0.0], [-np.inf, -np.inf]])
    found = accuracy_at_coverage(scores, np.array([0, 1, 0, 0, 0]))
    assert found.covered.tolist() == [True, True, True, True, False]
    assert found.accuracy == 1


@pytest.mark.parametrize("shape", [(0, 2), (3, 2), (2, 3), (2,)])
def test_what_is_not_two_scores_a_picture_is_an_error(shape):
    """The caller is told the shape."""
    with pytest.raises(ValueError, match="two are needed for each picture"):
        accuracy_at_coverage(np.zeros(shape), np.zeros(2 if shape[0] else 0, np.int64))
