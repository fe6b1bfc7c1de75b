"""Sets of pictures in bits."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.domain.plan import Cell
from orchestrator.scoring.picture_bits import PictureBits


@given(st.integers(1, 40), st.integers(0, 5), st.randoms(use_true_random=False))
def test_sets_come_back_as_they_were_noted(pictures: int, cells: int, chance: Random) -> None:
    """What is noted of each cell is what is read, whatever the number of pictures."""
    sets = np.array([[chance.random() < 0.5 for _ in range(pictures)] for _ in range(cells)], np.bool_)
    sets = sets.reshape(cells, pictures)
    names = [Cell("d", str(number) if number else None) for number in range(cells)]
    bits = PictureBits()
    bits.add(names, sets)
    assert list(bits) == names
    assert len(bits) == cells
    for name, found in zip(names, sets, strict=True):
        assert name in bits
        assert bits[name].dtype == np.bool_
        assert np.array_equal(bits[name], found)
    if cells:
        assert np.array_equal(bits.stack(names[::-1]), sets[::-1])


def test_a_cell_without_a_set_is_not_there() -> None:
    """A cell of which nothing was noted has no set, and no empty one either."""
    bits = PictureBits()
    bits.add([Cell("d")], np.ones((1, 3), np.bool_))
    assert Cell("d", "a") not in bits
    assert bits.get(Cell("d", "a")) is None
    with pytest.raises(KeyError):
        bits[Cell("d", "a")]
