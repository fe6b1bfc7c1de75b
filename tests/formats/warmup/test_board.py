"""Who is ranked on the board of a warm-up."""

import numpy as np
import pytest

from orchestrator.domain.contest_format import Eligibility, Observations
from orchestrator.domain.plan import Cell
from orchestrator.domain.queries import QueryRecord
from orchestrator.domain.submissions import Roster, Side
from orchestrator.formats.warmup.format import Warmup
from orchestrator.formats.warmup.rules import CorruptionRules, WarmupRules

from ..conftest import entry

PICTURES = 10


def test_a_baseline_is_shown_and_takes_no_rank_and_no_prize() -> None:
    """A team behind the organizers' own defence is first, and first among those who may get a prize."""
    warmup = Warmup(WarmupRules())
    attacks = [None, *(attack.name for attack in warmup.organizer_attacks())]
    right = {"shipped": 10, "handed-in": 5}
    scores = np.linspace(0, 1, 2 * PICTURES, dtype=np.float32).reshape(PICTURES, 2)
    observed = Observations(
        Roster((entry("shipped", Side.DEFENCE, baseline=True), entry("handed-in", Side.DEFENCE))),
        {},
        labels=np.ones(PICTURES, np.int64),
        answers_of=lambda name: {
            Cell(name, attack): (np.arange(PICTURES) < right[name]).astype(np.int32) for attack in attacks
        },
        scores_of=lambda name: {Cell(name, attack): scores for attack in attacks},
    )
    (board,) = warmup.leaderboards(observed)
    shown = {row.submission: (row.rank, row.prize_rank, row.reason) for row in board.rows}
    assert shown == {"handed-in": (1, 1, ""), "shipped": (None, None, "baseline")}
    assert all(row.score is not None for row in board.rows)


def test_of_equal_scores_the_earlier_submission_ranks_first() -> None:
    """The order of the contest's ledger decides, not that of the roster (A16)."""
    warmup = Warmup(WarmupRules())
    attacks = [None, *(attack.name for attack in warmup.organizer_attacks())]
    observed = Observations(
        Roster(tuple(entry(name, Side.DEFENCE) for name in ("a", "b", "c"))),
        {},
        eligibilities={name: Eligibility(receipt_number=number) for name, number in (("a", 3), ("b", 1), ("c", 2))},
        labels=np.ones(PICTURES, np.int64),
        answers_of=lambda name: {Cell(name, attack): np.ones(PICTURES, np.int32) for attack in attacks},
        scores_of=lambda name: {Cell(name, attack): np.eye(2, dtype=np.float32)[[1] * PICTURES] for attack in attacks},
    )
    (board,) = warmup.leaderboards(observed)
    assert [(row.submission, row.rank) for row in board.rows] == [("b", 1), ("c", 2), ("a", 3)]


def test_a_column_is_called_as_the_attack_is_in_the_cells() -> None:
    """Whoever reads the board finds the cells of the same attack by its name."""
    warmup = Warmup(WarmupRules(corruptions=CorruptionRules()))
    (board,) = warmup.leaderboards(Observations(Roster(()), {}))
    titles = {column.name: column.title.lower() for column in board.columns if column.unit == "percent"}
    assert titles == {name: name for name in ("clean", *(attack.name for attack in warmup.organizer_attacks()))}


def test_queries_that_were_not_put_to_the_defence_are_no_throughput() -> None:
    """A defence whose faults used up their time answered 500 of 1000 queries in six seconds (A7, B4)."""
    asked = QueryRecord.empty(PICTURES)
    asked.queries[:] = 100
    asked.seconds, asked.unplayed = 6.0, 500
    observed = Observations(Roster((entry("defence", Side.DEFENCE),)), {}, queries_of=lambda _: asked)
    (board,) = Warmup(WarmupRules()).leaderboards(observed)
    assert board.rows[0].reason == "too slow: 83.3 of 100 pictures per second (B4)"


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        (10.0, ""),
        (10.01, "too slow: 99.9 of 100 pictures per second (B4)"),
        (10.001, "too slow: 99.99 of 100 pictures per second (B4)"),
        (0.0, ""),
    ],
)
def test_the_floor_of_throughput_is_exact(seconds: float, reason: str) -> None:
    """1000 queries in ten seconds are just enough; who is a little slower sees by how much (B4)."""
    asked = QueryRecord.empty(PICTURES)
    asked.queries[:] = 100
    asked.seconds = seconds
    observed = Observations(
        Roster((entry("defence", Side.DEFENCE),)), {}, queries_of=lambda cell: asked if cell.attack == "spsa" else None
    )
    (board,) = Warmup(WarmupRules()).leaderboards(observed)
    assert board.rows[0].reason == (reason or "not played yet")
