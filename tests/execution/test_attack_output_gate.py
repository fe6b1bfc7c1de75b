"""The gate: what counts as a candidate (A8, A14)."""

from fractions import Fraction

import numpy as np
import pytest

from orchestrator.domain.outcomes import Forfeit, OnMissing, OnViolation
from orchestrator.domain.tasks import Budget, Norm
from orchestrator.execution.attack_output_gate import Gate, question_mask

ORIGINALS = np.full((4, 1, 2, 2), 100, np.uint8)
BUDGET = Budget(Norm.LINF, Fraction(8))


def judged(
    delivered, *, on_missing=OnMissing.HELD, on_violation=OnViolation.FORFEIT, index=(0, 1, 2, 3), budget=BUDGET
):
    """Returns what the gate makes of a delivery."""
    gate = Gate(budget, on_missing, on_violation)
    into = gate.missing_all(ORIGINALS)
    gate.admit(into, ORIGINALS, index, delivered)
    return into


def test_the_budget_is_exact() -> None:
    """Eight steps away is admitted, nine is not: there is no tolerance (A14)."""
    delivered = ORIGINALS + np.array([0, 8, 9, 200 - 45], np.uint8).reshape(4, 1, 1, 1)
    found = judged(delivered)
    assert found.forfeits.tolist() == [Forfeit.NONE, Forfeit.NONE, Forfeit.BUDGET, Forfeit.BUDGET]
    assert found.violations.tolist() == [False, False, True, True]
    assert found.distances.tolist() == [0, 8, 9, 155]
    assert (found.pixels[1] == 108).all()
    assert (found.pixels[2] == 128).all()


def test_steps_downwards_count_too() -> None:
    """A difference below the picture is as far as one above it, without wrapping around."""
    delivered = ORIGINALS - np.array([8, 9, 100, 0], np.uint8).reshape(4, 1, 1, 1)
    assert judged(delivered).distances.tolist() == [8, 9, 100, 0]


def test_clip_moves_into_the_ball_and_still_counts_the_violation() -> None:
    """With `clip` a far candidate is projected and played, and the violation stays on record (A14)."""
    found = judged(ORIGINALS + np.uint8(50), on_violation=OnViolation.CLIP)
    assert (found.pixels == 108).all()
    assert (found.forfeits == Forfeit.NONE).all()
    assert found.violations.all()


@pytest.mark.parametrize(
    ("delivered", "why"),
    [
        (np.zeros((4, 1, 2, 3), np.uint8), Forfeit.SHAPE),
        (np.zeros((4, 2, 2), np.uint8), Forfeit.SHAPE),
        (np.zeros((4, 1, 2, 2), np.float32), Forfeit.TYPE),
        (np.full((4, 1, 2, 2), np.nan, np.float32), Forfeit.NOT_FINITE),
        (np.full((4, 1, 2, 2), np.inf, np.float32), Forfeit.NOT_FINITE),
    ],
)
def test_what_is_no_picture_is_forfeited(delivered, why) -> None:
    """Wrong shape, wrong type and values that are not finite are told apart, and grey is recorded (A8)."""
    found = judged(delivered)
    assert (found.forfeits == why).all()
    assert (found.pixels == 128).all()
    assert np.isnan(found.distances).all()


def test_what_did_not_arrive_is_missing() -> None:
    """Positions that were not delivered stay missing; delivered ones count (A15)."""
    found = judged(ORIGINALS[:2], index=(3, 1))
    assert found.forfeits.tolist() == [Forfeit.MISSING, Forfeit.NONE, Forfeit.MISSING, Forfeit.NONE]


@pytest.mark.parametrize(
    ("on_missing", "value", "is_asked"),
    [(OnMissing.HELD, 128, False), (OnMissing.ASK, 128, True), (OnMissing.CLEAN, 100, True)],
)
def test_missing_pictures_follow_the_rule(on_missing, value, is_asked) -> None:
    """`held` records grey and asks nobody, `ask` shows grey, `clean` shows the untouched picture (A8)."""
    found = Gate(BUDGET, on_missing, OnViolation.FORFEIT).missing_all(ORIGINALS)
    assert (found.pixels == value).all()
    assert (question_mask(found.forfeits, on_missing) == is_asked).all()


def test_the_euclidean_budget_is_exact_too() -> None:
    """Four values of 3 are 6 long: admitted at 6, refused at 5.999 (A14)."""
    delivered = ORIGINALS + np.uint8(3)
    assert (judged(delivered, budget=Budget(Norm.L2, Fraction(6))).forfeits == Forfeit.NONE).all()
    assert (judged(delivered, budget=Budget(Norm.L2, Fraction("5.999"))).forfeits == Forfeit.BUDGET).all()
