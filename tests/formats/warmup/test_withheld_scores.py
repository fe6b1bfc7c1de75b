"""What the board of a warm-up says of defences whose scores tell an attack nothing (B8)."""

import numpy as np
import pytest

from orchestrator.domain.contest_format import Observations
from orchestrator.domain.outcomes import NOT_PLAYED
from orchestrator.domain.plan import Cell
from orchestrator.domain.submissions import Roster, Side
from orchestrator.formats.warmup.format import Warmup
from orchestrator.formats.warmup.rules import WarmupRules

from ..conftest import entry

PICTURES = 100
ONE_HOT = np.tile(np.float32([0, 1]), (PICTURES, 1))
SMOOTH = np.linspace(0, 1, 2 * PICTURES, dtype=np.float32).reshape(PICTURES, 2)


@pytest.mark.parametrize(
    ("scores", "answer", "remark"),
    [
        (ONE_HOT, 1, "scores withheld: 1 distinct value"),
        (np.full_like(ONE_HOT, np.nan), 1, "scores withheld: 0 distinct values"),
        (SMOOTH, 1, ""),
        (np.full_like(ONE_HOT, np.nan), NOT_PLAYED, ""),
    ],
)
def test_who_was_not_played_withholds_nothing(scores, answer, remark) -> None:
    """Scores that are missing because faults took too long (A7) are not said to be withheld; labels alone are."""
    cell = Cell("defence")
    observed = Observations(
        Roster((entry("defence", Side.DEFENCE),)),
        {},
        labels=np.ones(PICTURES, np.int64),
        answers_of=lambda _: {cell: np.full(PICTURES, answer, np.int32)},
        scores_of=lambda _: {cell: scores},
    )
    warmup = Warmup(WarmupRules())
    (board,) = warmup.leaderboards(observed)
    assert board.rows[0].remark == remark
    assert any("withholds its scores" in note for note in warmup.notes(observed)) == bool(remark)
