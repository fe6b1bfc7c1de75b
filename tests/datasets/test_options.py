"""What every dataset can be asked for: some classes, another size, the first pictures."""

import numpy as np
import pytest
from pydantic import ValidationError

PIXELS = np.arange(6 * 16, dtype=np.uint8).reshape(6, 4, 4)
LABELS = np.array([0, 1, 2, 0, 1, 2])


@pytest.fixture(autouse=True)
def _archive(archive) -> None:
    """Six pictures of three classes."""
    archive(images=PIXELS, labels=LABELS)


def test_some_classes_in_another_order(load) -> None:
    """A label is the place of its class among those that are asked for; pictures keep their order."""
    samples = load("npz", path="set.npz", classes=["cat", "dog", "cow"], only=["cow", "cat"])
    assert (samples.classes, samples.labels.tolist()) == (("cow", "cat"), [1, 0, 1, 0])
    assert np.array_equal(samples.pixels[:, 0], PIXELS[[0, 2, 3, 5]])


def test_the_first_of_what_is_left(load, problems) -> None:
    """`first` counts pictures of these classes."""
    samples = load("npz", path="set.npz", only=["1", "2"], first=3)
    assert samples.labels.tolist() == [0, 1, 0]
    assert "5 pictures, there are 4" in problems("npz", path="set.npz", only=["1", "2"], first=5)[0]


@pytest.mark.parametrize(
    ("only", "what"),
    [(["0", "7"], "there is no class '7'; name classes of the data: 0, 1, 2"), (["1", "1"], "names a class twice")],
)
def test_classes_that_there_are_not(problems, only, what) -> None:
    """They are named, and so are those that there are."""
    assert what in problems("npz", path="set.npz", only=only)[0]


@pytest.mark.parametrize("side", [1, 3, 4, 9])
def test_another_size(load, side) -> None:
    """Every picture is square of that side; grey levels stay within those of the picture; 4 changes nothing."""
    samples = load("npz", path="set.npz", side=side)
    assert samples.pixels.shape == (6, 1, side, side)
    assert (samples.pixels.min(axis=(1, 2, 3)) >= PIXELS.min(axis=(1, 2))).all()
    assert (samples.pixels.max(axis=(1, 2, 3)) <= PIXELS.max(axis=(1, 2))).all()
    assert (side != 4) or np.array_equal(samples.pixels[:, 0], PIXELS)


def test_colours_are_resized_apart(load, archive) -> None:
    """A channel knows nothing of the others."""
    colours = np.stack([PIXELS, 255 - PIXELS, PIXELS * 0], axis=1)
    archive(images=colours, labels=LABELS)
    red, green, blue = load("npz", path="set.npz", side=8).pixels.transpose(1, 0, 2, 3)
    assert np.abs(red.astype(int) + green - 255).max() <= 1
    assert not blue.any()


def test_only_squares_are_resized(problems, archive) -> None:
    """A picture is not squashed."""
    archive(images=np.zeros((6, 4, 5), np.uint8), labels=LABELS)
    assert "pictures of 5 x 4; cut them to squares first" in problems("npz", path="set.npz", side=8)[0]


def test_no_more_memory_than_any_dataset(problems, archive) -> None:
    """A size that would take more than the bound is refused before it is made."""
    archive(images=np.zeros((300, 2, 2), np.uint8), labels=np.arange(300) % 2)
    assert "use a smaller one" in problems("npz", path="set.npz", side=4096)[0]


@pytest.mark.parametrize("options", [{"side": 0}, {"side": 5000}, {"only": ["1"]}, {"only": []}])
def test_what_is_no_option_is_refused(load, options) -> None:
    """As any other mistake in a contest file."""
    with pytest.raises(ValidationError):
        load("npz", path="set.npz", **options)


def test_sixes_and_sevens(load) -> None:
    """The warm-up's digits, as large as MNIST's (B6)."""
    samples = load("digits", only=["6", "7"], side=28)
    assert (samples.classes, samples.pixels.shape[1:]) == (("6", "7"), (1, 28, 28))
    assert 90 < len(samples) < 110
    assert set(samples.labels) == {0, 1}
