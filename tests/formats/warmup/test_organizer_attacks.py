"""The organizers' attacks as a round plays them: pictures and questions in bytes (B2)."""

from types import SimpleNamespace

import numpy as np
import pytest

from orchestrator.domain.outcomes import Answers, Scores
from orchestrator.domain.samples import Samples
from orchestrator.formats.warmup.organizer_attacks import organizer_attacks
from orchestrator.formats.warmup.rules import WarmupRules

COUNT = 6
NO_OTHERS = {"spatial": None, "spsa": None, "boundary": None}


class Brightness:
    """A defence by the mean value: the brighter, the more of class 1."""

    def ask(self, pixels, pictures, price=1):
        """Returns scores of pictures u8 [k, c, h, w]."""
        del pictures, price
        bright = pixels.mean(axis=(1, 2, 3)) - 128
        scores: Scores = np.stack([-bright, bright], axis=1).astype(np.float32)
        answers: Answers = scores.argmax(axis=1).astype(np.int32)
        return SimpleNamespace(answers=answers, scores=scores)


@pytest.fixture(scope="module")
def samples() -> Samples:
    """Dark pictures of class 0 and bright ones of class 1."""
    rng = np.random.default_rng(8)
    labels = np.arange(COUNT) % 2
    pixels = rng.integers(0, 128, (COUNT, 1, 12, 12)) + 127 * labels[:, None, None, None]
    return Samples(pixels.astype(np.uint8), labels.astype(np.int64), ("dark", "bright"))


def judged(samples, **rules):
    """Returns the pictures u8 [n, c, h, w] that the only attack of these rules makes."""
    (attack,) = organizer_attacks(WarmupRules.model_validate(NO_OTHERS | rules))
    numbers = range(len(samples))
    generators = [np.random.default_rng(number) for number in numbers]
    made = {each.picture: each.pixels for each in attack.play(samples, numbers, generators, Brightness(), None)}
    return np.stack([made[number] for number in numbers])


@pytest.mark.parametrize(("epsilon", "most"), [(16, 16), (76.5, 76), (1.5, 1)])
def test_spsa_stays_in_the_ball_in_bytes(samples, epsilon, most):
    """No value of a judged picture changes by more than epsilon, which need not be a whole number of steps."""
    found = judged(samples, spsa={"epsilon": epsilon, "steps": 20, "samples": 8, "stop_margin": 1000})
    changes = np.abs(found.astype(int) - samples.pixels)
    assert changes.max() == most


@pytest.mark.parametrize("distance", [1.0, 2.0])
def test_the_boundary_attack_is_projected_to_bytes_within_its_distance(samples, distance):
    """Rounding the point on the sphere to bytes does not lengthen the change: the sum of squares keeps the limit."""
    found = judged(samples, boundary={"distance": distance, "iterations": 1})
    squares = squares_of(found, samples)
    assert (squares <= (255 * distance) ** 2).all()
    assert (squares > (254 * distance) ** 2).any()


def test_what_the_boundary_attack_found_near_enough_is_judged_as_it_was_asked():
    """The walk measures what the defence was shown: its picture is within the distance, and misread."""
    rng, labels = np.random.default_rng(9), np.arange(COUNT) % 2
    pixels = 125 + 5 * labels[:, None, None, None] + rng.integers(-1, 2, (COUNT, 3, 40, 40))
    faint = Samples(pixels.astype(np.uint8), labels.astype(np.int64), ("dark", "bright"))
    found = judged(faint, boundary={"distance": 1.06, "iterations": 200})
    assert (Brightness().ask(found, None).answers != labels).all()
    assert (squares_of(found, faint) <= (255 * 1.06) ** 2).all()


def squares_of(found, samples):
    """Returns the sum of squared changes of each picture, in bytes."""
    return ((found.astype(int) - samples.pixels) ** 2).sum(axis=(1, 2, 3))
