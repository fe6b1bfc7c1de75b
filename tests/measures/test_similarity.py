"""SSIM in the readings of C4: against the formula, scikit-image, and the reference numbers."""

import io
import json
import zipfile
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from orchestrator.measures import similarity
from orchestrator.measures.similarity import Similarity, size_problem, structural_similarity

YARDSTICK = {
    Similarity.WINDOWED: {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False},
    Similarity.DEEPSEC: {},
}


def pictures(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns random pictures, and the same with noise."""
    random = np.random.default_rng(0)
    first = random.integers(0, 256, shape, np.uint8)
    return first, np.clip(first + random.integers(-20, 21, shape), 0, 255).astype(np.uint8)


def exact_global(x: np.ndarray, y: np.ndarray) -> Fraction:
    """Returns the announcement's formula over all values, in fractions."""
    xs, ys = ([Fraction(int(value)) for value in array.ravel()] for array in (x, y))
    count = len(xs)
    mean_x, mean_y = sum(xs) / count, sum(ys) / count
    variance_x = sum((v - mean_x) ** 2 for v in xs) / (count - 1)
    variance_y = sum((v - mean_y) ** 2 for v in ys) / (count - 1)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(xs, ys, strict=True)) / (count - 1)
    c1, c2 = Fraction("6.5025"), Fraction("58.5225")
    return ((2 * mean_x * mean_y + c1) * (2 * covariance + c2)) / (
        (mean_x**2 + mean_y**2 + c1) * (variance_x + variance_y + c2)
    )


@pytest.mark.parametrize("shape", [(3, 3, 5, 4), (2, 1, 1, 2)], ids=["colour", "grey"])
def test_global_is_the_formula_over_all_values(shape) -> None:
    """One mean, variance and covariance over everything, with N - 1."""
    x, y = pictures(*shape)
    expected = [float(exact_global(a, b)) for a, b in zip(x, y, strict=True)]
    assert structural_similarity(x, y, Similarity.GLOBAL) == pytest.approx(expected, rel=1e-12)


def test_channel_is_the_formula_per_channel() -> None:
    """One value a channel, then their mean."""
    x, y = pictures(3, 3, 5, 4)
    expected = [
        float(sum(exact_global(a, b) for a, b in zip(one, other, strict=True)) / 3)
        for one, other in zip(x, y, strict=True)
    ]
    assert structural_similarity(x, y, Similarity.CHANNEL) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("reading", YARDSTICK)
@pytest.mark.parametrize(
    "shape", [(4, 3, 32, 32), (2, 1, 11, 17), (2, 3, 11, 11)], ids=["colour", "grey", "one-window"]
)
def test_windows_are_those_of_scikit_image(reading, shape) -> None:
    """The same number as `structural_similarity` gives, which leaves the border out."""
    from skimage import metrics  # noqa: PLC0415  a quarter of a second for every worker

    x, y = pictures(*shape)
    expected = [
        metrics.structural_similarity(a, b, channel_axis=0, data_range=255, **YARDSTICK[reading])
        for a, b in zip(x, y, strict=True)
    ]
    assert structural_similarity(x, y, reading) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("reading", Similarity)
def test_equal_pictures_have_one(reading) -> None:
    """Also constant ones, black ones and white ones."""
    flat = np.full((3, 3, 12, 12), np.array([0, 7, 255], np.uint8)[:, None, None, None])
    x = np.concatenate([flat, pictures(2, 3, 12, 12)[0]])
    assert structural_similarity(x, x.copy(), reading) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("reading", Similarity)
def test_similarity_is_symmetric_and_bounded(reading) -> None:
    """Whichever picture comes first, and whatever they are: from -1 to 1, each picture by itself."""

    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        random = np.random.default_rng(seed)
        x, y = (random.integers(0, 256, (2, 2, 12, 13), np.uint8) // random.integers(1, 200) for _ in range(2))
        x, y = x.astype(np.uint8), y.astype(np.uint8)
        found = structural_similarity(x, y, reading)
        assert (np.abs(found) <= 1 + 1e-9).all()
        assert found == pytest.approx(structural_similarity(y, x, reading), abs=1e-12)
        assert found[1:] == pytest.approx(structural_similarity(x[1:], y[1:], reading), abs=1e-12)

    check()


@pytest.mark.parametrize("reading", Similarity)
def test_pictures_in_parts_are_the_same(reading, monkeypatch) -> None:
    """However many are worked on at a time, no number changes; and there may be none."""
    x, y = pictures(7, 3, 12, 12)
    whole = structural_similarity(x, y, reading)
    monkeypatch.setattr(similarity, "_CHUNK_VALUES", 3 * x[0].size)
    assert (structural_similarity(x, y, reading) == whole).all()
    assert structural_similarity(x[:0], y[:0], reading).shape == (0,)


@pytest.mark.parametrize(
    ("shape", "reading", "what"),
    [
        ((3, 10, 32), Similarity.WINDOWED, "pictures of 32 x 10 are smaller than the window of 11 x 11"),
        ((1, 6, 7), Similarity.DEEPSEC, "pictures of 7 x 6 are smaller than the window of 7 x 7"),
        ((3, 1, 1), Similarity.CHANNEL, "channels of one value have no variance"),
        ((1, 1, 1), Similarity.GLOBAL, "pictures of one value have no variance"),
    ],
    ids=["windowed", "deepsec", "channel", "global"],
)
def test_pictures_that_are_too_small_are_refused(shape, reading, what) -> None:
    """The error names both sizes and the reading."""
    assert what in size_problem(shape, reading)
    with pytest.raises(ValueError, match=what):
        structural_similarity(*pictures(2, *shape), reading)


def test_other_shapes_are_refused() -> None:
    """A picture is compared with one of its shape."""
    with pytest.raises(ValueError, match="candidates of shape"):
        structural_similarity(pictures(2, 3, 12, 12)[0], pictures(3, 3, 12, 12)[0], Similarity.GLOBAL)


@pytest.mark.slow
@pytest.mark.data
def test_the_reference_numbers_are_met(shared_data) -> None:
    """The published entry against the announcement's task, over all 500 pictures."""

    def read(name: str) -> np.ndarray:
        with zipfile.ZipFile(shared_data / "cifar10" / name) as archive:
            files = [archive.read(f"images/{position}.jpg") for position in range(500)]
        return np.stack([np.asarray(Image.open(io.BytesIO(data))) for data in files]).transpose(0, 3, 1, 2)

    stated = json.loads((shared_data / "cifar10" / "example_scores.json").read_text())
    scores = stated["results"]["pgd20_jpeg_q95_444"]["clean"]
    assert scores["n_success"] == 500
    x, y = read("test500.zip"), read("example_attack_pgd20_q95.zip")
    for reading, key in ((Similarity.GLOBAL, "ssim_global"), (Similarity.WINDOWED, "ssim_gauss11")):
        assert structural_similarity(x, y, reading).mean() == pytest.approx(scores[f"{key}_mean_success"], abs=6e-7)
