"""Pictures with their labels, and the task's limits."""

import numpy as np
import pytest

from orchestrator.domain.samples import Samples, grey_picture
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Limits

PIXELS = np.arange(24, dtype=np.uint8).reshape(4, 1, 2, 3)
LABELS = np.array([0, 1, 1, 0])


@pytest.fixture
def samples():
    """Four pictures of 1 x 2 x 3 in two classes."""
    return Samples(PIXELS, LABELS, ("cat", "dog"))


def test_a_digest_covers_everything(samples):
    """Another value, label, class name, order or shape is another digest."""
    others = [
        Samples(PIXELS ^ 1, LABELS, samples.classes),
        Samples(PIXELS, 1 - LABELS, samples.classes),
        Samples(PIXELS, LABELS, ("dog", "cat")),
        Samples(PIXELS, LABELS, ("cat dog", "")),
        Samples(PIXELS[::-1], LABELS, samples.classes),
        Samples(PIXELS.reshape(4, 1, 3, 2), LABELS, samples.classes),
        samples.first(3),
    ]
    assert len({samples.digest, *(other.digest for other in others)}) == len(others) + 1


def test_a_digest_does_not_depend_on_memory(samples):
    """The same values in another layout or label width have the same digest."""
    layout = np.asfortranarray(PIXELS)
    assert not layout.flags.c_contiguous
    assert Samples(layout, LABELS.astype(np.int32), ("cat", "dog")).digest == samples.digest


def test_the_first_samples_are_the_first(samples):
    """`first` keeps the order, the labels and the classes; asking for more gives all."""
    two = samples.first(2)
    assert (len(two), two.labels.tolist(), two.classes) == (2, [0, 1], ("cat", "dog"))
    assert np.array_equal(two.pixels, PIXELS[:2])
    assert samples.first(9).digest == samples.digest


def test_a_shape_is_channels_height_width(samples):
    """The number of pictures is not part of it."""
    assert samples.shape == (1, 2, 3)


def test_grey_is_128_everywhere():
    """The picture that stands for a missing candidate is uniform 128 (A8)."""
    picture = grey_picture((3, 32, 32))
    assert (picture.dtype, picture.shape, np.unique(picture).tolist()) == (np.uint8, (3, 32, 32), [128])


@pytest.mark.parametrize(("pictures", "seconds"), [(64, 256 * 60), (32, 128 * 60), (1, 240), (65, 65 * 240)])
def test_an_attacks_limit_scales_with_its_pictures(pictures, seconds):
    """256 minutes for a batch of 64, n/64 of it for n pictures (A15)."""
    assert Limits().perturb_limit(pictures) == seconds


def test_a_roster_keeps_its_order_and_its_sides():
    """Submissions come in the order of the contest file and are found by id; a stranger is a KeyError."""
    made = [
        Submission(id=name, name=name, team="t", side=side, digest="", image="")
        for name, side in (("z", Side.DEFENCE), ("b", Side.ATTACK), ("a", Side.DEFENCE))
    ]
    roster = Roster(tuple(made))
    assert [s.id for s in roster] == ["z", "b", "a"]
    assert [s.id for s in roster.by_side(Side.DEFENCE)] == ["z", "a"]
    assert roster["b"] is made[1]
    with pytest.raises(KeyError):
        roster["c"]
