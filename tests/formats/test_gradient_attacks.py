"""FGSM, BIM and PGD on a defence's own gradients (A12), against the same steps in plain NumPy."""

from fractions import Fraction

import numpy as np
import pytest

from orchestrator.domain.organizer_attacks import GradientReplies
from orchestrator.domain.outcomes import FAULTED, NOT_ASKED
from orchestrator.domain.samples import Samples
from orchestrator.domain.tasks import Budget, Norm
from orchestrator.formats.tournament.gradient_attacks import GRADIENT_ATTACKS

EPSILON = 8
COUNT, SHAPE, CLASSES = 5, (1, 4, 4), 3
ATTACKS = {attack.name: attack for attack in GRADIENT_ATTACKS}


class Bent:
    """A defence with a hidden layer of tangents, which gives the gradient of its cross-entropy and notes what came."""

    def __init__(self, silent=()):
        rng = np.random.default_rng(7)
        self.first = rng.normal(size=(16, 6))
        self.second = rng.normal(size=(6, CLASSES))
        self.silent, self.asked = set(silent), []

    def slopes(self, pixels, labels):
        """Returns the gradients for pixels [k, c, h, w], worked out by hand."""
        hidden = np.tanh(pixels.reshape(len(pixels), -1) / 255 @ self.first)
        powers = np.exp(hidden @ self.second)
        wrong = powers / powers.sum(axis=1, keepdims=True) - np.eye(CLASSES)[labels]
        return ((wrong @ self.second.T * (1 - hidden**2)) @ self.first.T).reshape(pixels.shape).astype(np.float32)

    def ask_gradients(self, pixels, labels, pictures):
        """Returns gradients; NaN for pictures that it is silent about."""
        assert pixels.dtype == np.uint8
        self.asked.append(pictures.tolist())
        found = self.slopes(pixels.astype(np.float64), labels)
        lost = np.isin(pictures, list(self.silent))
        found[lost] = np.nan
        return GradientReplies(np.where(lost, FAULTED, NOT_ASKED).astype(np.int32), found)


@pytest.fixture
def samples():
    """Some pictures, with values at both ends of the range."""
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 256, (COUNT, *SHAPE), np.uint8)
    pixels[:, 0, 0, :2] = 0, 255
    return Samples(pixels, rng.integers(0, CLASSES, COUNT), tuple("abc"))


def played(name, samples, defence, pictures=range(COUNT)):
    """Returns what becomes of each picture, in order."""
    generators = [np.random.default_rng(picture) for picture in pictures]
    return [*ATTACKS[name].play(samples, pictures, generators, defence, Budget(Norm.LINF, Fraction(EPSILON)))]


def expected(name, clean, label, number, defence):
    """Returns one picture after the attack as the papers have it, with steps in bytes."""
    steps, size = {"fgsm": (1, EPSILON), "bim": (10, 2), "pgd": (20, 2)}[name]
    clean = clean.astype(int)
    made = clean.copy()
    if name == "pgd":
        made = np.clip(clean + np.random.default_rng(number).integers(-EPSILON, EPSILON + 1, SHAPE), 0, 255)
    for _ in range(steps):
        slope = defence.slopes(made[None].astype(float), np.array([label]))[0]
        made = np.clip(np.clip(made + size * np.sign(slope), clean - EPSILON, clean + EPSILON), 0, 255).astype(int)
    return made


@pytest.mark.parametrize("name", ATTACKS)
def test_each_step_follows_the_sign_of_the_gradient(name, samples):
    """Picture by picture it comes to what the papers' formulas give, within the budget, and counts its gradients."""
    defence = Bent()
    made = played(name, samples, defence)
    for each in made:
        clean, label = samples.pixels[each.picture], samples.labels[each.picture]
        assert np.array_equal(each.pixels, expected(name, clean, label, each.picture, defence))
        assert each.pixels.dtype == np.uint8
        assert 0 < np.abs(each.pixels.astype(int) - clean).max() <= EPSILON
    assert [each.queries for each in made] == [ATTACKS[name].queries_per_picture] * COUNT


def test_a_picture_without_a_gradient_is_asked_about_no_more(samples):
    """It is lost to the defence, and the other pictures come to what they come to without it."""
    silent = Bent(silent=[1])
    made = played("bim", samples, silent)
    assert [each.queries for each in made] == [10, 1, 10, 10, 10]
    assert silent.asked == [[0, 1, 2, 3, 4]] + [[0, 2, 3, 4]] * 9
    alone = played("bim", samples, Bent(), [3])
    assert np.array_equal(alone[0].pixels, made[3].pixels)


def test_a_defence_that_is_silent_about_all_is_asked_once(samples):
    """There is nothing left to ask."""
    silent = Bent(silent=range(COUNT))
    made = played("pgd", samples, silent)
    assert silent.asked == [[*range(COUNT)]]
    assert [each.queries for each in made] == [1] * COUNT


def test_each_attack_has_a_digest_of_its_own():
    """By it what was played is used again."""
    assert len({attack.digest for attack in GRADIENT_ATTACKS}) == len(GRADIENT_ATTACKS)
