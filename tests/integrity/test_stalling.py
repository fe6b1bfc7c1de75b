"""Stalling: who lets deadlines pass where it knows an examination gains nothing by it."""

import pytest
from laboratory import Ended, Gallery, Laboratory, Late
from players import Honest, chance, counter, detecting, environment, late
from refusers import counting, mixing, shy

from orchestrator.integrity.detection_power import ALPHA


@pytest.mark.parametrize("fault", [Ended, Late])
@pytest.mark.parametrize("seed", range(5))
def test_one_answer_in_ten_by_chance_is_accused_whatever_stalls(fault, seed) -> None:
    """Its planned comparisons are enough by themselves: it stalls in bursts, and where the rates are measured."""
    verdict = Laboratory(mixing(shy(chance(10), fault), fault), Gallery.drawn(seed), seed).judge()
    assert verdict.mismatches
    assert verdict.accusation is not None
    assert verdict.accusation.p_value is None or verdict.accusation.p_value < ALPHA


@pytest.mark.parametrize("cheat", [counter(100), late(490), chance(100), environment(100)])
@pytest.mark.parametrize("seed", range(3))
def test_who_stalls_in_bursts_is_accused(cheat, seed) -> None:
    """At one answer in a hundred, too: stalling spoils the proof, and is held against the same asked as in play."""
    verdict = Laboratory(shy(mixing(cheat, Late), Late), Gallery.drawn(seed), seed).judge()
    assert verdict.mismatches
    assert verdict.accusation is not None


@pytest.mark.parametrize("cheat", [Honest, counter(100), chance(100)])
@pytest.mark.parametrize("seed", range(3))
def test_who_stalls_at_the_second_version_is_asked_as_in_play(cheat, seed) -> None:
    """What it did not answer is asked again where no sandbox sees two versions: the power is what was planned."""
    verdict = Laboratory(detecting(cheat, Late), Gallery.drawn(seed), seed).judge()
    assert verdict.coverage.achieved > 0.98
    assert verdict.accusation is not None


@pytest.mark.parametrize(
    ("every", "after_repeat"),
    [(501, False), (50, False), (2, True), (12, True)],
    ids=["501", "50", "2-again", "12-again"],
)
@pytest.mark.parametrize("fault", [Ended, Late])
def test_who_refuses_by_counting_is_accused(every, after_repeat, fault) -> None:
    """It refuses every so many questions: after as many as play asks a sandbox, in play too, or once one repeats."""
    verdict = Laboratory(counting(chance(50), every, fault, after_repeat=after_repeat), Gallery.drawn(1), 1).judge()
    assert verdict.accusation is not None
