"""One picture decided, and cells counted."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.outcomes import (
    ABSTAINED,
    FAULTED,
    NOT_ASKED,
    NOT_ATTACKED,
    Forfeit,
    PictureOutcome,
    accuracy_drop,
    count_by_reason,
    count_forfeits,
    credited_pictures,
    decide_outcomes,
    tally_cells,
)

CELLS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(NOT_ASKED, 9), st.sampled_from(list(Forfeit))), min_size=1, max_size=40
)


def arrays(cell):
    """Returns labels, answers and forfeits of a cell as the record holds them."""
    labels, answers, forfeits = zip(*cell, strict=True)
    return np.array(labels, np.int64), np.array(answers, np.int32), np.array(forfeits, np.uint8)


def tally_cell(labels, answers, forfeits=None):
    """Returns the tally of one cell; `forfeits` is a `Forfeit` per picture."""
    lost = count_forfeits(np.zeros(len(labels), np.uint8) if forfeits is None else forfeits)
    [found] = tally_cells(decide_outcomes(labels, answers[None]), answers[None], [lost])
    return found


@given(cells=st.lists(st.lists(st.integers(NOT_ATTACKED, 4), min_size=5, max_size=5), min_size=1, max_size=5))
def test_several_cells_are_counted_as_each_alone(cells):
    """Outcomes, tallies and credited pictures of several cells of a defence are those of each cell by itself."""
    labels, answers = np.arange(5), np.array(cells, np.int32)
    outcomes, none = decide_outcomes(labels, answers), count_forfeits(np.zeros(5, np.uint8))
    assert np.array_equal(outcomes, [decide_outcomes(labels, each) for each in answers])
    found = tally_cells(outcomes, answers, [none] * len(cells))
    assert found == [tally_cell(labels, each) for each in answers]
    credited = credited_pictures(outcomes)
    assert np.array_equal(credited, [credited_pictures(each) for each in outcomes])
    assert [tally.credited for tally in found] == credited.sum(axis=1).tolist()


def test_only_the_true_label_holds():
    """The true label is held, and every other label is fooled, however large it is."""
    answers = np.array([3, 4, 0, 2**31 - 1], np.int32)
    calls = decide_outcomes(np.array([3, 3, 3, 3]), answers)
    assert calls.tolist() == [
        PictureOutcome.CORRECT,
        PictureOutcome.MISCLASSIFIED,
        PictureOutcome.MISCLASSIFIED,
        PictureOutcome.MISCLASSIFIED,
    ]


def test_what_a_defence_does_not_classify_counts_as_misclassified():
    """Faults and abstentions stay in the denominator and are never held (A7)."""
    found = tally_cell(np.array([0, 1, 2, 3]), np.array([0, 1, FAULTED, ABSTAINED], np.int32))
    assert (found.total, found.held, found.fooled, found.abstained, found.faults) == (4, 2, 1, 1, 1)
    assert found.accuracy == Fraction(1, 2)


def test_a_picture_that_was_not_asked_is_held():
    """A forfeited candidate counts as classified correctly, whatever its true label is (A8)."""
    forfeits = np.array([Forfeit.MISSING, Forfeit.BUDGET, Forfeit.NONE], np.uint8)
    found = tally_cell(np.array([7, 8, 9]), np.array([NOT_ASKED, NOT_ASKED, 1], np.int32), forfeits)
    assert (found.held, found.fooled, found.forfeits, found.violations) == (2, 1, 2, 1)


def test_an_attack_that_delivers_nothing_fools_nobody():
    """A cell of forfeits alone has an accuracy of 1, so that a crash can never win (A8)."""
    found = tally_cell(np.zeros(64, np.int64), np.full(64, NOT_ASKED, np.int32), np.full(64, Forfeit.MISSING, np.uint8))
    assert (found.accuracy, found.forfeits, found.violations) == (1, 64, 0)


def test_a_grey_picture_that_was_asked_is_decided_by_its_answer():
    """With `on_missing: ask` a forfeit is counted and the defence's answer decides (A8)."""
    found = tally_cell(np.array([5, 5]), np.array([5, 6], np.int32), np.full(2, Forfeit.MISSING, np.uint8))
    assert (found.held, found.fooled, found.forfeits) == (1, 1, 2)


def test_forfeits_are_counted_by_their_reason():
    """Each reason has its count, and those that nobody has are left out (A8, A14)."""
    forfeits = np.array([Forfeit.SHAPE, Forfeit.NONE, Forfeit.NOT_FINITE, Forfeit.SHAPE, Forfeit.MISSING], np.uint8)
    assert count_by_reason(forfeits) == {"missing": 1, "shape": 2, "not_finite": 1}
    assert count_by_reason(np.array(list(Forfeit), np.uint8)) == dict.fromkeys(
        ["missing", "type", "shape", "not_finite", "budget"], 1
    )
    assert count_by_reason(np.zeros(3, np.uint8)) == {}


def test_violations_are_the_forfeits_beyond_the_budget():
    """Only forfeits for the budget are violations; the other reasons are no breach of A14."""
    forfeits = np.array(list(Forfeit), np.uint8)
    found = tally_cell(np.zeros(len(forfeits), np.int64), np.zeros(len(forfeits), np.int32), forfeits)
    assert (found.forfeits, found.violations) == (len(Forfeit) - 1, 1)


@given(CELLS)
def test_every_picture_has_one_call(cell):
    """Held, fooled and abstained add up to all pictures of the task, which is the denominator."""
    labels, answers, forfeits = arrays(cell)
    found = tally_cell(labels, answers, forfeits)
    assert found.held + found.fooled + found.abstained == found.total == len(cell)
    held = sum(1 for label, answer, _ in cell if answer in (label, NOT_ASKED))
    assert found.accuracy == Fraction(held, len(cell))


@given(CELLS, st.randoms(use_true_random=False))
def test_a_tally_does_not_depend_on_the_order(cell, chance):
    """The same pictures in another order give the same counts."""
    shuffled = list(cell)
    chance.shuffle(shuffled)
    assert tally_cell(*arrays(cell)) == tally_cell(*arrays(shuffled))


def test_delta_is_in_percentage_points():
    """80 % to 60 % is 20 (A11)."""
    assert accuracy_drop(Fraction(80, 100), Fraction(60, 100)) == 20


@given(*[st.tuples(st.integers(0, 60_000), st.integers(0, 60_000)).filter(any)] * 2)
def test_delta_is_the_float_nearest_to_the_exact_number(before: tuple[int, int], after: tuple[int, int]):
    """No rounding of an accuracy is in a delta: it is as if it were rounded once, from the exact fraction."""
    clean, attacked = (Fraction(min(pair), max(pair)) for pair in (before, after))
    assert accuracy_drop(clean, attacked) == float((clean - attacked) * 100)


def test_delta_can_be_negative():
    """An attack that makes pictures easier has a delta below zero."""
    assert accuracy_drop(Fraction(3, 5), Fraction(1)) == -40


def test_forfeits_of_another_length_are_refused():
    """Answers for another number of pictures than there are labels are an error, not a number."""
    with pytest.raises(ValueError):
        decide_outcomes(np.array([1, 2, 3]), np.array([1, 2], np.int32))
