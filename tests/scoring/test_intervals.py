"""How sure the numbers of a round are."""

from fractions import Fraction

import numpy as np

from orchestrator.domain.plan import Cell
from orchestrator.scoring.intervals import contributions


def test_a_number_is_added_up_in_the_order_of_its_terms() -> None:
    """What a picture contributes is the same to the last digit as where one cell after another is added."""
    chance = np.random.default_rng(1)
    cells = [Cell("d", f"a{number}") for number in range(300)]
    correct = chance.random((len(cells), 1000)) < chance.random((len(cells), 1))
    shares = [Fraction(-1, 298), Fraction(1, 3), Fraction(7, 11)]
    terms = {cell: shares[number % 3] for number, cell in enumerate(cells)}
    expected = np.zeros(1000)
    for weight, pictures in zip(terms.values(), correct, strict=True):
        expected += float(weight) * pictures
    assert np.array_equal(contributions(terms, correct), 100 * expected)
