"""How often an attack succeeds by how many queries it asks: the numbers, and the curves that a page draws (X6)."""

import numpy as np
import pytest

from orchestrator.domain.plan import Cell
from orchestrator.domain.queries import QueryRecord
from orchestrator.reports.leaderboards import SubmissionLabel
from orchestrator.reports.query_curves import HEIGHT, WIDTH, query_views
from orchestrator.scoring.query_curves import CURVE_POINTS, query_part

CELL = Cell("defence", "attack")


def record(fooled_at, queries=100, attacked=None):
    """Returns a record in which pictures were first misread at these queries, 0 for never."""
    count = len(fooled_at)
    found = QueryRecord.empty(count)
    found.attacked[:] = True if attacked is None else attacked
    found.fooled_at[:] = fooled_at
    found.queries[:] = queries
    return found


def test_the_curve_grows_where_a_picture_is_first_misread():
    """Three of four pictures, two of them at the same query."""
    part = query_part(CELL, record([5, 0, 2, 5]))
    assert part.curve == [(2, 0.25), (5, 0.75)]
    assert (part.successes, part.success, part.queries) == (3, 0.75, 400)
    assert part.success_interval[0] < 0.75 < part.success_interval[1]


@pytest.mark.parametrize(
    ("fooled_at", "median"), [([1, 2, 3], 2), ([1, 2, 3, 4], 2), ([7, 0, 0], None), ([7, 0], 7), ([0, 0], None)]
)
def test_the_median_is_over_all_pictures(fooled_at, median):
    """Failures count as more than the budget, not as absent."""
    assert query_part(CELL, record(fooled_at)).median == median


def test_what_is_misread_only_when_it_is_judged_counts_at_the_last_query():
    """As where an attack asks for gradients, or for nothing; what a query showed before stays where it was."""
    asked = record([0, 3, 0, 0], 10)
    asked.queries[3] = 0
    part = query_part(CELL, asked, np.array([True, True, False, True]))
    assert part.curve == [(1, 0.25), (3, 0.5), (10, 0.75)]


def test_pictures_that_were_not_attacked_do_not_count():
    """An attack that plays two of four."""
    part = query_part(CELL, record([3, 0, 0, 0], attacked=[True, True, False, False]))
    assert (part.pictures, part.success) == (2, 0.5)


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    """A thousand corners become a hundred; the last is the success at the budget."""
    part = query_part(CELL, record(np.arange(1, 1001), queries=1000))
    assert len(part.curve) == CURVE_POINTS
    assert part.curve[0] == (1, 0.001)
    assert part.curve[-1] == (1000, 1.0)


def test_a_page_draws_one_field_for_each_attack():
    """Curves rise in steps from the left edge to the right one; a defence that was never fooled is flat."""
    parts = [query_part(Cell(name, "attack"), record(at, 10)) for name, at in (("soft", [1, 10]), ("hard", [0, 0]))]
    [view] = query_views(parts, {"soft": SubmissionLabel("soft", team="Owls")})
    assert view.most == 10
    assert [curve.defence.team for curve in view.curves] == ["Owls", ""]
    soft, hard = ([tuple(map(float, pair.split(","))) for pair in curve.points.split()] for curve in view.curves)
    assert soft == [(0, HEIGHT), (0, HEIGHT), (0, HEIGHT / 2), (WIDTH, HEIGHT / 2), (WIDTH, 0), (WIDTH, 0)]
    assert hard == [(0, HEIGHT), (WIDTH, HEIGHT)]
