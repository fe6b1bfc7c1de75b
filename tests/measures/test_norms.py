"""Exact distances on 8-bit pictures (A14), compared with Python's own integers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from orchestrator.domain.tasks import Budget, Norm
from orchestrator.measures import norms

SHAPES = hnp.array_shapes(min_dims=2, max_dims=4, min_side=0, max_side=4)
EPSILONS = st.fractions(Fraction(1, 1000), 300, max_denominator=1000)


@st.composite
def pairs(draw):
    """Returns pictures and candidates of one shape, near each other or anywhere."""
    shape = draw(SHAPES)
    originals = draw(hnp.arrays(np.uint8, shape))
    candidates = draw(hnp.arrays(np.uint8, shape))
    if draw(st.booleans()):
        candidates = originals + candidates % 5
    return originals, candidates.astype(np.uint8)


def changes(originals, candidates):
    """Returns each picture's changes as a list of Python integers."""
    count = len(originals)
    flat = [array.reshape(count, -1).tolist() if array.size else [[]] * count for array in (originals, candidates)]
    return [[abs(a - b) for a, b in zip(*rows, strict=True)] for rows in zip(*flat, strict=True)]


def one(*values):
    """Returns one picture of these values."""
    return np.array([values], np.uint8)


@given(pairs())
def test_linf_is_the_largest_change(pair):
    """The Linf distance of each picture is Python's, in both directions."""
    expected = [max(change, default=0) for change in changes(*pair)]
    assert norms.linf_distance(*pair).tolist() == expected
    assert norms.linf_distance(*reversed(pair)).tolist() == expected


@given(pairs())
def test_l2_squared_is_the_sum_of_squares(pair):
    """The squared L2 length of each picture is Python's, in both directions."""
    expected = [sum(value * value for value in change) for change in changes(*pair)]
    assert norms.l2_distance_squared(*pair).tolist() == expected
    assert norms.l2_distance_squared(*reversed(pair)).tolist() == expected


@pytest.mark.slow
@given(pairs(), EPSILONS)
def test_within_is_exact(pair, epsilon):
    """A picture is within the budget exactly when the fractions say so, for both norms."""
    found = changes(*pair)
    linf = [max(change, default=0) <= epsilon for change in found]
    l2 = [sum(value * value for value in change) <= epsilon * epsilon for change in found]
    assert norms.within_budget(*pair, Budget(Norm.LINF, epsilon)).tolist() == linf
    assert norms.within_budget(*pair, Budget(Norm.L2, epsilon)).tolist() == l2


@pytest.mark.slow
@given(pairs(), EPSILONS, st.sampled_from(Norm))
def test_project_lands_within_the_budget(pair, epsilon, norm):
    """A projected candidate keeps the budget exactly, and each value lies between the picture's and the candidate's."""
    originals, candidates = pair
    budget = Budget(norm, epsilon)
    projected = norms.project_to_budget(originals, candidates, budget)
    assert projected.dtype == np.uint8
    assert norms.within_budget(originals, projected, budget).all()
    assert (projected >= np.minimum(originals, candidates)).all()
    assert (projected <= np.maximum(originals, candidates)).all()


@pytest.mark.slow
@given(pairs(), EPSILONS, st.sampled_from(Norm))
def test_project_leaves_what_is_within(pair, epsilon, norm):
    """A candidate within the budget is not touched, whatever its neighbours in the batch did."""
    originals, candidates = pair
    budget = Budget(norm, epsilon)
    inside = norms.within_budget(originals, candidates, budget)
    projected = norms.project_to_budget(originals, candidates, budget)
    assert np.array_equal(projected[inside], candidates[inside])
    alone = [
        norms.project_to_budget(originals[i : i + 1], candidates[i : i + 1], budget) for i in range(len(originals))
    ]
    assert all(np.array_equal(projected[i : i + 1], found) for i, found in enumerate(alone))


@pytest.mark.slow
@given(pairs(), EPSILONS)
def test_project_for_linf_is_the_nearest_point(pair, epsilon):
    """For Linf each value moves as far as the budget lets it, not less."""
    originals, candidates = (array.astype(int) for array in pair)
    most = epsilon.numerator // epsilon.denominator
    expected = originals + np.minimum(most, np.maximum(-most, candidates - originals))
    assert np.array_equal(norms.project_to_budget(*pair, Budget(Norm.LINF, epsilon)), expected)


@pytest.mark.parametrize(("change", "inside"), [(24, True), (25, True), (26, False)])
def test_half_a_step_of_linf_is_no_step(change, inside):
    """With an epsilon of 25.5 a change of 25 is within, and 26 is not: pixels are whole numbers."""
    budget = Budget(Norm.LINF, Fraction("25.5"))
    assert norms.within_budget(one(100), one(100 + change), budget).tolist() == [inside]
    assert norms.project_to_budget(one(100), one(100 - change), budget).tolist() == [[100 - min(change, 25)]]


@pytest.mark.parametrize(("epsilon", "inside"), [("5", True), ("4.999", False), ("5.001", True)])
def test_the_border_of_l2_is_within(epsilon, inside):
    """3, 4 is exactly 5 long: within 5, and not within 4.999."""
    assert norms.within_budget(one(10, 10), one(13, 6), Budget(Norm.L2, Fraction(epsilon))).tolist() == [inside]


@pytest.mark.parametrize(("squares", "inside"), [(6, True), (7, False)])
def test_a_fraction_of_l2_is_exact(squares, inside):
    """2.5 squared is 6.25: six changes of one are within, seven are not."""
    change = np.array([[1] * squares + [0] * (7 - squares)], np.uint8)
    assert norms.within_budget(np.zeros((1, 7), np.uint8), change, Budget(Norm.L2, Fraction(5, 2))).tolist() == [inside]


def test_unsigned_values_do_not_wrap():
    """255 against 0 is 255 apart and never 1, in both directions."""
    low, high = one(0, 0), one(255, 255)
    for pair in ((low, high), (high, low)):
        assert norms.linf_distance(*pair).tolist() == [255]
        assert norms.l2_distance_squared(*pair).tolist() == [2 * 255**2]
        assert not norms.within_budget(*pair, Budget(Norm.LINF, Fraction(254)))[0]


def test_a_large_picture_does_not_overflow():
    """786,432 values of 255 square to 51,137,740,800, more than 32 bits hold."""
    shape = (1, 3, 512, 512)
    squares = norms.l2_distance_squared(np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8))
    assert squares.tolist() == [786_432 * 65_025]


def test_a_huge_epsilon_is_no_overflow():
    """The largest epsilon that a contest file can write lets everything pass."""
    far = Fraction("999999999.999")
    for norm in Norm:
        assert norms.within_budget(one(0), one(255), Budget(norm, far)).all()
        assert norms.project_to_budget(one(0), one(255), Budget(norm, far)).tolist() == [[255]]


def test_any_fraction_is_an_epsilon():
    """An epsilon with a huge denominator is compared exactly: 1 is not within a hair less than 1."""
    hair = Fraction(1, 10**40)
    for norm in Norm:
        assert not norms.within_budget(one(0), one(1), Budget(norm, 1 - hair))[0]
        assert norms.within_budget(one(0), one(1), Budget(norm, 1 + hair))[0]


def test_project_for_l2_shrinks_towards_the_picture():
    """A change of (6, -8) is 10 long; at 5 it becomes exactly (3, -4)."""
    projected = norms.project_to_budget(one(100, 100), one(106, 92), Budget(Norm.L2, Fraction(5)))
    assert projected.tolist() == [[103, 96]]


def test_project_survives_rounding():
    """Where the float of epsilon is larger than epsilon, the result is still within."""
    budget = Budget(Norm.L2, 5 - Fraction(1, 10**20))
    assert float(budget.epsilon) == 5
    assert norms.project_to_budget(one(0), one(10), budget).tolist() == [[4]]


@pytest.mark.parametrize("norm", Norm)
def test_distances_are_for_showing(norm):
    """The distance is the length in steps of 1/255: 4 for Linf and 5 for L2 of (3, 4)."""
    _, found = norms.judge_candidates(one(3, 0), one(0, 4), Budget(norm, Fraction(1)))
    assert (found.dtype, found.tolist()) == (np.float64, [4.0 if norm is Norm.LINF else 5.0])


def test_a_picture_is_no_distance_from_itself():
    """An attack that changes nothing is within every budget."""
    same = one(1, 2, 3)
    for norm in Norm:
        assert norms.judge_candidates(same, same, Budget(norm, Fraction(1)))[1].tolist() == [0]
        assert norms.within_budget(same, same, Budget(norm, Fraction(1, 1000))).all()


@pytest.mark.parametrize("norm", Norm)
@pytest.mark.parametrize("function", [norms.within_budget, norms.project_to_budget])
def test_shapes_must_agree(norm, function):
    """Candidates of another shape are an error and are never broadcast."""
    with pytest.raises(ValueError, match=r"shape \(2, 3\), candidates of shape \(1, 3\)"):
        function(np.zeros((2, 3), np.uint8), np.zeros((1, 3), np.uint8), Budget(norm, Fraction(8)))
