"""Boards: ranks, ties and what is not ranked."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.leaderboard import Row, rank_rows

EARLY, LATE = "2026-03-01T08:00:00+00:00", "2026-03-02T08:00:00+00:00"
ROWS = st.lists(
    st.builds(
        Row,
        submission=st.text("abcdef", min_size=3, max_size=3),
        score=st.none() | st.fractions(-100, 100, max_denominator=3),
        reason=st.sampled_from(["", "baseline"]),
        tie_break=st.integers(0, 2),
        submitted=st.sampled_from(["", EARLY, LATE]),
    ),
    unique_by=lambda row: row.submission,
    max_size=8,
)


def ranks(*rows, more_is_better=True):
    """Returns (submission, rank) in the order of the board."""
    return [(row.submission, row.rank) for row in rank_rows(rows, more_is_better=more_is_better)]


def test_the_better_score_ranks_first():
    """More is better for attacks, less for defences (A13)."""
    rows = Row("low", Fraction(1)), Row("high", Fraction(2))
    assert ranks(*rows) == [("high", 1), ("low", 2)]
    assert ranks(*rows, more_is_better=False) == [("low", 1), ("high", 2)]


def test_ranking_is_exact():
    """A difference that no float can hold decides."""
    tiny = Fraction(1, 10**30)
    assert ranks(Row("a", Fraction(20)), Row("b", 20 + tiny)) == [("b", 1), ("a", 2)]


def test_a_tie_goes_to_fewer_violations():
    """Equal scores rank by violations before anything else (A16)."""
    rows = Row("early", Fraction(5), tie_break=1, submitted=EARLY), Row("late", Fraction(5), submitted=LATE)
    assert ranks(*rows) == [("late", 1), ("early", 2)]
    assert ranks(*rows, more_is_better=False) == [("late", 1), ("early", 2)]


def test_then_to_the_earlier_submission():
    """Equal scores and violations rank by time, one without a time last (A16)."""
    rows = (
        Row("never", Fraction(5)),
        Row("late", Fraction(5), submitted=LATE),
        Row("early", Fraction(5), submitted=EARLY),
    )
    assert ranks(*rows) == [("early", 1), ("late", 2), ("never", 3)]


def test_earlier_is_what_the_ledger_received_first():
    """The order of the ledger decides, whatever the clock said; what no ledger received follows (A16)."""
    rows = (
        Row("stated", Fraction(5), submitted=EARLY),
        Row("second", Fraction(5), receipt_number=2, submitted=EARLY),
        Row("first", Fraction(5), receipt_number=1, submitted=LATE),
    )
    assert ranks(*rows) == [("first", 1), ("second", 2), ("stated", 3)]


def test_a_tie_that_remains_is_shown_as_a_tie():
    """Rows equal in everything share a rank, and the next rank counts them both (A16)."""
    same = {"score": Fraction(5), "tie_break": 2, "submitted": EARLY}
    rows = Row("c", Fraction(4)), Row("b", **same), Row("a", **same)
    assert ranks(*rows) == [("a", 1), ("b", 1), ("c", 3)]


def test_three_can_share_a_rank():
    """A shared rank is carried on through every equal row."""
    rows = [Row(name, Fraction(0)) for name in "abc"]
    assert ranks(*rows, Row("z", Fraction(-1))) == [("a", 1), ("b", 1), ("c", 1), ("z", 4)]


def test_what_has_a_reason_is_shown_unranked():
    """A row with a reason, or without a score, follows without a rank and takes none away."""
    rows = Row("base", Fraction(99), reason="baseline"), Row("open", None), Row("team", Fraction(1))
    assert ranks(*rows) == [("team", 1), ("base", None), ("open", None)]


def test_unranked_rows_are_in_order_too():
    """Unranked rows come best score first, the ones without a score last."""
    rows = [Row("none", None, reason="x"), Row("low", Fraction(1), reason="x"), Row("high", Fraction(2), reason="x")]
    assert [name for name, _ in ranks(*rows)] == ["high", "low", "none"]
    assert [name for name, _ in ranks(*rows, more_is_better=False)] == ["low", "high", "none"]


def test_an_empty_board_is_empty():
    """Nobody plays, nobody ranks."""
    assert ranks() == []


@given(ROWS, st.booleans(), st.randoms(use_true_random=False))
def test_a_board_does_not_depend_on_the_order_of_its_rows(rows, more_is_better, chance):
    """Any order of input gives the same board."""
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert rank_rows(rows, more_is_better=more_is_better) == rank_rows(shuffled, more_is_better=more_is_better)


@given(ROWS, st.booleans())
def test_ranks_count_who_is_better(rows, more_is_better):
    """A rank is one more than the number of ranked rows that are strictly better (A16), and nobody is lost."""
    board = rank_rows(rows, more_is_better=more_is_better)
    assert sorted(row.submission for row in board) == sorted(row.submission for row in rows)
    ranked = [row for row in board if row.rank is not None]
    assert {row.submission for row in ranked} == {r.submission for r in rows if not r.reason and r.score is not None}

    def beats(one, other):
        if one.score != other.score:
            return (one.score > other.score) == more_is_better
        if one.tie_break != other.tie_break:
            return one.tie_break < other.tie_break
        return bool(one.submitted) and (not other.submitted or one.submitted < other.submitted)

    for row in ranked:
        assert row.rank == 1 + sum(beats(other, row) for other in ranked)
