"""Twenty more honest classifiers: none is accused, and what is not compared is said."""

import os

import pytest
from fair import FAIR
from laboratory import Gallery, Laboratory

RUNS = 20 if os.environ.get("SPARRING_SOAK") else 3


@pytest.mark.slow
@pytest.mark.parametrize("fair", FAIR, ids=lambda fair: fair.name)
def test_the_fair_are_not_accused(fair) -> None:
    """Whatever their devices, threads, ties and machines do: 20 runs each with SPARRING_SOAK, else 3."""
    for seed in range(200, 200 + RUNS):
        verdict = fair.run(seed)
        assert verdict.accusation is None, (seed, verdict.accusation)


@pytest.mark.parametrize("fair", FAIR[:12], ids=lambda fair: fair.name)
def test_who_answers_everything_has_the_planned_power(fair) -> None:
    """Who never fails is compared in full."""
    coverage = fair.run(300).coverage
    assert coverage.decided == coverage.drawn
    assert coverage.achieved >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("fair", FAIR, ids=lambda fair: fair.name)
def test_a_struck_answer_accuses_none_of_them(fair) -> None:
    """Three answers of the play were others, as a cosmic ray may have it: they are looked into, with all that takes."""
    gallery: Gallery = fair.gallery(7)
    lab = Laboratory(fair.kind, gallery, 7, isolation=fair.isolation, batch=fair.batch)
    play, left = lab.play(), 3
    for rows in play.sandboxes:
        for row in rows:
            if left and row[2] >= 0:
                row[2], left = (row[2] + 1) % 6, left - 1
    assert lab.examine(play).accusation is None
