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
