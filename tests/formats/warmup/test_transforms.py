"""Rotations and translations against TensorFlow's and torchvision's own (make_golden.py)."""

from pathlib import Path

import numpy as np
import pytest

from orchestrator.formats.warmup.attacks.base import to_floats, to_pixels
from orchestrator.formats.warmup.attacks.transforms import (
    Movement,
    PillowTransform,
    TensorflowTransform,
    resize_bilinear,
)

BORDERS = {"digit": 4, "colour": 20}


@pytest.fixture(scope="module")
def golden():
    """The arrays that the libraries made."""
    with np.load(Path(__file__).with_name("golden.npz"), allow_pickle=False) as arrays:
        return dict(arrays)


def movements(golden):
    """Returns the movements of the arrays."""
    return [Movement(*(float(each) for each in row)) for row in golden["movements"]]


@pytest.mark.parametrize("name", BORDERS)
def test_resizing_is_tensorflows_bit_for_bit(name, golden):
    """Every value is the same 32-bit number."""
    expected = golden[f"{name}_resized"]
    found = resize_bilinear(to_floats(golden[f"{name}_picture"]), *expected.shape[1:])
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", BORDERS)
def test_movements_are_tensorflows(name, golden):
    """Border, rotation, translation and crop: within 5e-5, and hardly a byte differs.

    Upside down, many values lie half-way between two bytes, and the last bit decides.
    """
    picture, transform = to_floats(golden[f"{name}_picture"]), TensorflowTransform(BORDERS[name])
    found = transform.apply(picture, movements(golden))
    expected = golden[f"{name}_moved"]
    assert np.abs(found - expected).max() < 5e-5
    difference = np.abs(to_pixels(found).astype(int) - to_pixels(expected))
    assert difference.max() <= 1
    assert (difference[golden["movements"][:, 0] != 180] > 0).mean() < 1e-3


@pytest.mark.parametrize("name", BORDERS)
def test_movements_are_torchvisions(name, golden):
    """The bytes that torchvision 0.2.1 made; another version of Pillow may round a few of them differently."""
    picture, transform = to_floats(golden[f"{name}_picture"]), PillowTransform(0.15)
    found = to_pixels(transform.apply(picture, movements(golden)))
    difference = np.abs(found.astype(int) - golden[f"{name}_pillow"])
    assert difference.max() <= 1
    assert (difference > 0).mean() < 1e-3


def test_each_side_s_border_is_a_share_of_that_side():
    """A picture three times as wide as it is high has a border three times as wide at its sides as above it."""
    picture = np.ones((1, 20, 60), np.float32)
    [framed] = PillowTransform(0.15).apply(picture, [Movement()])
    rows, columns = framed[0].max(axis=1), framed[0].max(axis=0)
    assert np.flatnonzero(rows == 1).tolist() == list(range(3, 17))
    assert np.flatnonzero(columns == 1).tolist() == list(range(9, 51))
