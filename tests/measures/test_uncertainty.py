"""Intervals, comparisons and rank ranges (X5), against published values, scipy, and what must hold for all inputs."""

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from orchestrator.domain.leaderboard import Row, rank_rows
from orchestrator.measures import uncertainty

NEWCOMBE = {(81, 263): (0.2553, 0.3662), (15, 148): (0.0624, 0.1605), (0, 20): (0, 0.1611), (1, 29): (0.0061, 0.1718)}
"""Newcombe 1998, Statistics in Medicine 17, 857-872, table I: Wilson's limits without continuity correction."""
BENTUR = (1, 7, 21)
CAVO = (6, 16, 161)
"""Pictures won, lost, and all: two published tables that Fagerland, Lydersen and Laake 2014 work through."""
PARTS = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12),
    elements=st.one_of(st.sampled_from([-100.0, 0.0, 20.0, 100.0]), st.floats(-100, 100)),
)


def pair(won, lost, total):
    """Returns clean and attacked pictures with so many won and lost, the rest held by turns."""
    clean, attacked = (np.arange(total) % 2 == 0 for _ in range(2))
    clean[:won], attacked[:won] = False, True
    clean[won : won + lost], attacked[won : won + lost] = True, False
    return clean, attacked


def limits(intervals):
    """Returns the two limits of one interval."""
    return float(intervals.low), float(intervals.high)


def with_two_more(parts, largest=100.0):
    """Returns the contributions with the two added pictures, as docs/statistics.md gives their size."""
    squares = ((parts / largest) ** 2).sum()
    fourths = ((parts / largest) ** 4).sum()
    size = largest * np.sqrt((fourths + 1) / (squares + 1))
    return np.append(parts, [size, -size])


@pytest.mark.parametrize("counts", NEWCOMBE)
def test_accuracies_are_wilsons(counts):
    """The limits are the published ones."""
    assert limits(uncertainty.accuracy_intervals(*counts)) == pytest.approx(NEWCOMBE[counts], abs=5e-5)


def test_many_accuracies_at_once_are_the_same():
    """Each of many counts, in any shape and repeated, has the interval it has alone."""
    held = np.array([[81, 0, 263], [81, 15, 81]])
    found = uncertainty.accuracy_intervals(held, 263)
    assert found.low.shape == found.high.shape == held.shape
    for place, count in np.ndenumerate(held):
        assert (found.low[place], found.high[place]) == limits(uncertainty.accuracy_intervals(count, 263))


@given(st.integers(1, 400), st.data())
def test_accuracies_are_symmetric(total, data):
    """The interval holds the share, stays within 0 and 1, and is mirrored when held and fooled change places."""
    held = data.draw(st.integers(0, total))
    low, high = limits(uncertainty.accuracy_intervals(held, total))
    assert 0 <= low <= held / total <= high <= 1
    assert limits(uncertainty.accuracy_intervals(total - held, total)) == pytest.approx((1 - high, 1 - low))


@given(st.integers(1, 400), st.floats(0.5, 0.999), st.data())
def test_accuracies_are_scipys(total, level, data):
    """The interval is that of scipy's binomial test, whose module takes long to import."""
    held = data.draw(st.integers(0, total))
    expected = scipy.stats.binomtest(held, total).proportion_ci(level, method="wilson")
    assert limits(uncertainty.accuracy_intervals(held, total, level=level)) == pytest.approx(tuple(expected), rel=1e-12)


@pytest.mark.parametrize("table", [BENTUR, CAVO])
def test_deltas_are_bonett_and_prices(table):
    """Centre and standard error are those of Bonett and Price 2012 by their own formula, but for t and n + 1."""
    won, lost, total = table
    shares = (lost + 1) / (total + 2), (won + 1) / (total + 2)
    centre = shares[0] - shares[1]
    error = np.sqrt((sum(shares) - centre**2) / (total + 1))
    expected = scipy.stats.t.interval(0.95, total + 1, loc=100 * centre, scale=100 * error)
    assert limits(uncertainty.delta_intervals(*pair(*table))) == pytest.approx(expected)


def test_deltas_are_near_newcombes():
    """Newcombe's method 10, another that is recommended, has -11.86 to -0.46 points for Cavo's table."""
    low, high = limits(uncertainty.delta_intervals(*reversed(pair(*CAVO))))
    assert (low, high) == pytest.approx((-11.86, -0.46), abs=0.25)


@given(hnp.arrays(np.bool_, st.tuples(st.just(2), st.integers(1, 60))))
def test_a_delta_is_a_score_of_differences(pictures):
    """A delta's interval is the score's of what each picture contributes: 100, 0 or -100 points."""
    clean, attacked = pictures
    score = uncertainty.score_intervals(100.0 * clean - 100.0 * attacked)
    assert limits(uncertainty.delta_intervals(clean, attacked)) == pytest.approx(limits(score))


def test_a_delta_looks_at_pairs():
    """The same accuracies make a narrow interval where the same pictures are lost, and a wide one where others are."""
    narrow = uncertainty.delta_intervals(*pair(0, 10, 1000))
    wide = uncertainty.delta_intervals(*pair(200, 210, 1000))
    assert narrow.high - narrow.low < 1.5
    assert wide.high - wide.low > 3


def test_deltas_of_a_matrix_share_their_clean_pictures():
    """One row of clean pictures serves a defence's whole row of cells."""
    chance = np.random.default_rng(1)
    clean, attacked = chance.random((3, 1, 50)) < 0.9, chance.random((3, 4, 50)) < 0.6
    found = uncertainty.delta_intervals(clean, attacked)
    assert found.low.shape == (3, 4)
    for defence, attack in np.ndindex(3, 4):
        alone = uncertainty.delta_intervals(clean[defence, 0], attacked[defence, attack])
        assert (found.low[defence, attack], found.high[defence, attack]) == pytest.approx(limits(alone))


@pytest.mark.slow
@given(PARTS)
def test_scores_are_scipys_t_of_two_more_pictures(parts):
    """The interval is scipy's for the mean of the contributions and the two added ones, cut at the possible."""
    found = uncertainty.score_intervals(parts)
    for row, low, high in zip(parts, found.low, found.high, strict=True):
        with np.errstate(over="ignore"):  # scipy divides by the mean, which may be tiny
            expected = scipy.stats.ttest_1samp(with_two_more(row), 0).confidence_interval(0.95)
        assert (low, high) == pytest.approx(np.clip(expected, -100, 100), abs=1e-6)


@given(PARTS)
def test_an_interval_holds_the_score(parts):
    """The score itself is inside, the limits are possible scores, and both are mirrored with the contributions."""
    found, mirrored = uncertainty.score_intervals(parts), uncertainty.score_intervals(-parts)
    means = parts.mean(axis=1)
    assert (found.low <= means + 1e-9).all()
    assert (means - 1e-9 <= found.high).all()
    assert (found.low >= -100).all()
    assert (found.high <= 100).all()
    assert np.allclose(mirrored.low, -found.high)


@given(PARTS, st.floats(0.01, 1000))
def test_units_do_not_matter(parts, factor):
    """Shares, points or anything else: the interval is scaled with the contributions."""
    found, scaled = (
        uncertainty.score_intervals(parts),
        uncertainty.score_intervals(parts * factor, largest=100 * factor),
    )
    assert np.allclose(scaled.low, found.low * factor)
    assert np.allclose(scaled.high, found.high * factor)


@pytest.mark.parametrize("pictures", [100, 1000, 10_000])
def test_nothing_seen_is_not_nothing(pictures):
    """Where no picture was lost, about 2.8 in n may be: never an interval of no width."""
    low, high = limits(uncertainty.score_intervals(np.zeros(pictures)))
    assert -low == high == pytest.approx(280 / pictures, rel=0.02)


def test_more_pictures_say_more():
    """Four times the pictures make an interval half as wide."""
    parts = np.tile([0.0, 0.0, 100.0, 20.0, 60.0], 100)
    once, often = uncertainty.score_intervals(parts), uncertainty.score_intervals(np.tile(parts, 4))
    assert (often.high - often.low) / (once.high - once.low) == pytest.approx(0.5, abs=0.01)


def test_a_higher_level_is_wider():
    """At 99 % every interval holds the one at 95 %."""
    parts = np.tile([0.0, 100.0, 20.0], 50)
    pictures = pair(*CAVO)
    for wide, narrow in (
        (uncertainty.score_intervals(parts, level=0.99), uncertainty.score_intervals(parts)),
        (uncertainty.delta_intervals(*pictures, level=0.99), uncertainty.delta_intervals(*pictures)),
        (uncertainty.accuracy_intervals(15, 148, level=0.99), uncertainty.accuracy_intervals(15, 148)),
    ):
        assert wide.low < narrow.low < narrow.high < wide.high


def test_holm_is_holms():
    """Adjusted p-values of one-sided tests whose other sides count, too: 2k, 2k - 1, ... times the smaller ones."""
    found = uncertainty._holm_adjusted(np.array([0.005, 0.02, 0.015, 0.0025]))
    assert found == pytest.approx([0.005 * 7, 0.1, 0.015 * 6, 0.0025 * 8])
    assert uncertainty._holm_adjusted(np.array([0.02])) == pytest.approx([0.04])
    assert uncertainty._holm_adjusted(np.array([0.012, 0.012])) == pytest.approx([0.048, 0.048])
    assert uncertainty._holm_adjusted(np.array([0.01, 0.011, 0.5])) == pytest.approx([0.06, 0.06, 1])


def test_two_rows_are_scipys_paired_test():
    """Two rows need no correction: the p-value is scipy's for their differences and the two added pictures."""
    chance = np.random.default_rng(2)
    rows = 100.0 * (chance.random((2, 300)) < [[0.3], [0.4]])
    found = uncertainty.compare_rows(rows, more_is_better=True)
    expected = scipy.stats.ttest_1samp(with_two_more(rows[0] - rows[1]), 0).pvalue
    assert found.p_values[0, 1] == pytest.approx(expected)


def test_few_pictures_are_nearly_an_exact_test():
    """Where k pictures decide, all for one row, the p-value is near the exact sign test's, and no verdict is rash."""
    for decisive in range(1, 15):
        rows = np.zeros((2, 1000))
        rows[0, :decisive] = 100
        found = uncertainty.compare_rows(rows, more_is_better=True).p_values[0, 1]
        exact = scipy.stats.binomtest(decisive, decisive).pvalue
        assert 0.4 * exact < found < 7 * exact
        assert (found <= 0.05) == (exact <= 0.05) == (decisive >= 6)


@given(PARTS)
def test_a_test_and_an_interval_agree(parts):
    """Two rows are told apart exactly when the interval of their difference leaves out zero."""
    difference = np.atleast_2d(parts)[0] / 2
    rows = np.stack([difference, np.zeros_like(difference)])
    low, high = limits(uncertainty.score_intervals(difference))
    found = uncertainty.compare_rows(rows, more_is_better=True)
    assert found.better[0, 1] == (low > 0)
    assert found.better[1, 0] == (high < 0)


@pytest.mark.slow
@given(PARTS, st.booleans(), st.randoms(use_true_random=False))
def test_rank_ranges_hold_the_shown_ranks(parts, more, random):
    """The rank that a board shows (A16) is in its range, however ties were broken, and best is never after worst."""
    pictures = np.tile(parts, 20)
    means = [pictures[row].mean() for row in range(len(pictures))]
    listed = [
        Row(str(row), mean, tie_break=random.randint(0, 1), submitted=random.choice("ab"))
        for row, mean in enumerate(means)
    ]
    shown = {int(row.submission): row.rank for row in rank_rows(listed, more_is_better=more)}
    found = uncertainty.compare_rows(pictures, more_is_better=more)
    for row, held in enumerate(found.ranges):
        assert 1 <= held.best <= shown[row] <= held.worst <= len(parts)


@pytest.mark.slow
@given(PARTS, st.data())
def test_comparisons_do_not_depend_on_the_order(parts, data):
    """Rows in another order have the same p-values and ranges; with the other sense of better, they are mirrored."""
    pictures = np.tile(parts, 20)
    order = data.draw(st.permutations(range(len(parts))))
    found = uncertainty.compare_rows(pictures, more_is_better=True)
    moved = uncertainty.compare_rows(pictures[order], more_is_better=True)
    assert np.array_equal(moved.p_values, found.p_values[np.ix_(order, order)])
    assert moved.ranges == tuple(found.ranges[row] for row in order)
    mirrored = uncertainty.compare_rows(pictures, more_is_better=False)
    assert np.array_equal(mirrored.better, found.better.T)
    turned = [(1 + len(parts) - each.worst, 1 + len(parts) - each.best) for each in found.ranges]
    assert [(each.best, each.worst) for each in mirrored.ranges] == turned


def test_a_comparison_is_symmetric():
    """p-values are, nobody is better than themselves, and of two at most one is better."""
    chance = np.random.default_rng(3)
    rows = 100.0 * (chance.random((6, 500)) < np.linspace(0.2, 0.6, 6)[:, None])
    found = uncertainty.compare_rows(rows, more_is_better=False)
    assert np.array_equal(found.p_values, found.p_values.T)
    assert (np.diagonal(found.p_values) == 1).all()
    assert found.better.any()
    assert not (found.better & found.better.T).any()


def test_a_board_of_clear_winners():
    """Rows that differ by far have one rank each; equal ones share their range."""
    pictures = np.arange(1000)
    rows = 100.0 * np.stack([pictures < 900, pictures < 500, pictures >= 500, pictures < 100])
    found = uncertainty.compare_rows(rows, more_is_better=True)
    assert [(each.best, each.worst) for each in found.ranges] == [(1, 1), (2, 3), (2, 3), (4, 4)]
    first, second, third = np.diagonal(found.p_values, 1)
    assert max(first, third) < 1e-9
    assert second == 1


def test_rounding_is_no_difference():
    """Two sums that differ in the last bit alone are not told apart."""
    parts = np.random.default_rng(4).random((1, 2000)) * 100
    nudged = np.nextafter(parts, 0)
    found = uncertainty.compare_rows(np.concatenate([parts, nudged]), more_is_better=True)
    assert found.p_values[0, 1] == pytest.approx(1)
    assert found.ranges == (uncertainty.RankRange(1, 2),) * 2


@pytest.mark.parametrize("rows", [0, 1])
def test_a_board_without_neighbours(rows):
    """A board of one row ranks it first, and an empty board nobody."""
    found = uncertainty.compare_rows(np.zeros((rows, 10)), more_is_better=True)
    assert found.ranges == (uncertainty.RankRange(1, 1),) * rows
    assert found.p_values.tolist() == [[1]] * rows


@pytest.mark.parametrize(("held", "total"), [(-1, 10), (11, 10), (0, 0)])
def test_impossible_counts_are_an_error(held, total):
    """More held than shown, fewer than none, or no pictures at all: an error with the numbers."""
    with pytest.raises(ValueError, match=rf"\[{held}\] held of {total} pictures"):
        uncertainty.accuracy_intervals([held], total)


@pytest.mark.parametrize("wrong", [100.1, -100.1, np.nan, np.inf])
@pytest.mark.parametrize(
    "function", [uncertainty.score_intervals, lambda parts: uncertainty.compare_rows(parts, more_is_better=True)]
)
def test_impossible_contributions_are_an_error(function, wrong):
    """A contribution beyond the largest, or no number, is an error that names it."""
    parts = np.zeros((2, 5))
    parts[1, 3] = wrong
    with pytest.raises(ValueError, match=rf"a contribution of {wrong}\d*; the largest is 100.0"):
        function(parts)


def test_wrong_shapes_are_an_error():
    """No pictures, another number of pictures, numbers for booleans, or a board without rows."""
    with pytest.raises(ValueError, match=r"shape \(3, 0\): there are no pictures"):
        uncertainty.score_intervals(np.zeros((3, 0)))
    with pytest.raises(ValueError, match=r"shape \(\): there are no pictures"):
        uncertainty.score_intervals(1.0)
    with pytest.raises(ValueError, match="rows and pictures are needed"):
        uncertainty.compare_rows(np.zeros(5), more_is_better=True)
    with pytest.raises(ValueError, match=r"shape \(4,\), attacked ones of shape \(1,\)"):
        uncertainty.delta_intervals(np.ones(4, bool), np.ones(1, bool))
    with pytest.raises(ValueError, match="clean is int64 and attacked is bool"):
        uncertainty.delta_intervals(np.ones(4, int), np.ones(4, bool))
