"""The organizers' attacks (B2): what they find, that their numbers decide everything, and what missing scores do."""

import numpy as np
import pytest

from orchestrator.domain.outcomes import FAULTED
from orchestrator.formats.warmup.attacks.base import (
    Attack,
    AttackResult,
    margins,
    play_attacks,
    predicted_classes,
    to_floats,
    to_pixels,
)
from orchestrator.formats.warmup.attacks.boundary import Boundary
from orchestrator.formats.warmup.attacks.corruptions import CORRUPTIONS, CommonCorruptions
from orchestrator.formats.warmup.attacks.spatial import (
    Grid,
    InkCheckedGrid,
    MovementLimits,
    Reading,
    SpatialGrid,
    cross_entropy,
    keeps_ink,
    random_movement,
)
from orchestrator.formats.warmup.attacks.spsa import Spsa, StopReading
from orchestrator.formats.warmup.attacks.transforms import Movement, PillowTransform, TensorflowTransform

SHAPE = (1, 12, 12)
COUNT = 6
LIMITS = MovementLimits(2, 2, 20)
TENSORFLOW, PILLOW = TensorflowTransform(2), PillowTransform(0.1)


class Linear:
    """A linear classifier of two classes, which counts what it is asked."""

    def __init__(self, seed=0):
        self.weights = np.random.default_rng(seed).normal(size=np.prod(SHAPE))
        self.questions, self.pictures = 0, 0

    def __call__(self, pictures):
        """Returns the scores of pictures [k, c, h, w]."""
        self.questions += 1
        self.pictures += len(pictures)
        score = (pictures.reshape(len(pictures), -1).astype(np.float64) - 0.5) @ self.weights
        return np.stack([-score, score], axis=1)


@pytest.fixture
def model():
    """A classifier."""
    return Linear()


@pytest.fixture
def pictures():
    """Some pictures."""
    return np.random.default_rng(1).random((COUNT, *SHAPE), np.float32)


def played(attack, pictures, labels, ask, at_a_time=4):
    """Returns the outcome of an attack on each picture, in the order of the pictures."""
    each = (
        attack.attack(picture, int(label), np.random.default_rng(number))
        for number, (picture, label) in enumerate(zip(pictures, labels, strict=True))
    )
    played_attacks = play_attacks(each, lambda asked, _: ask(asked), at_a_time)
    return sorted(played_attacks, key=lambda outcome: outcome.number)


def results(outcomes):
    """Returns the pictures that are judged."""
    return np.stack([outcome.result.picture for outcome in outcomes])


def attacks(starts):
    """Returns one attack of each kind."""
    return [
        SpatialGrid(Grid(LIMITS, 3, 3, 3), PILLOW),
        InkCheckedGrid(Grid(LIMITS, 3, 3, 3), TENSORFLOW),
        Spsa(0.2, steps=20, samples=16),
        Boundary(1.0, starts, iterations=40, directions=10, directions_per_question=4),
    ]


def starts_of(pictures, labels):
    """Returns pictures of each class."""
    return pictures[labels == 0], pictures[labels == 1]


@pytest.mark.parametrize("kind", range(4))
def test_a_picture_s_random_numbers_decide_everything(kind, model, pictures):
    """Alone, with others, all at once, and in another order: every picture comes to the same."""
    labels = predicted_classes(model(pictures))
    attack = attacks(starts_of(pictures, labels))[kind]
    alone = results(played(attack, pictures, labels, model, 1))
    for at_a_time in (3, COUNT):
        assert np.array_equal(alone, results(played(attack, pictures, labels, model, at_a_time)))
    assert alone.dtype == np.float32
    assert alone.shape == pictures.shape


def test_questions_are_put_together(model, pictures):
    """Attacks that are played at the same time share questions, and each counts its own pictures."""
    labels = predicted_classes(model(pictures))
    attack = Spsa(0.2, steps=5, samples=16, stop_margin=np.inf)
    model.questions = model.pictures = 0
    outcomes = played(attack, pictures, labels, model, COUNT)
    assert [outcome.queries for outcome in outcomes] == [5 * 17] * COUNT
    assert model.questions == 5
    assert model.pictures == COUNT * 5 * 17


@pytest.mark.parametrize("samples", [0, 1, 7, -2])
def test_spsa_needs_pairs(samples) -> None:
    """A random sign without its mirror image would shift every gradient."""
    with pytest.raises(ValueError, match="an even number"):
        Spsa(0.1, samples=samples)


class TestSpsa:
    """Gradients from scores alone."""

    @pytest.mark.parametrize("reading", StopReading)
    def test_it_stays_in_the_ball_and_fools(self, reading, model, pictures):
        """A linear classifier falls, and no value changes by more than epsilon or leaves 0 to 1."""
        labels = predicted_classes(model(pictures))
        found = results(played(Spsa(0.2, steps=60, samples=32, stop=reading), pictures, labels, model))
        assert (predicted_classes(model(found)) != labels).all()
        assert np.abs(found - pictures).max() <= 0.2 + 1e-6
        assert found.min() >= 0
        assert found.max() <= 1

    def test_it_equals_a_restatement(self, model, pictures):
        """Step by step from the paper's formulas with the same random numbers, the pictures are the same."""
        epsilon, steps, samples, delta, rate = 0.1, 7, 8, 0.01, 0.02
        picture, label = pictures[0], int(predicted_classes(model(pictures[:1]))[0])
        attack = Spsa(epsilon, steps, samples, delta, rate, stop_margin=np.inf)
        (outcome,) = played(attack, pictures[:1], [label], model)
        rng = np.random.default_rng(0)
        current = np.clip(picture + rng.uniform(-epsilon, epsilon, SHAPE), 0, 1)
        mean, square = np.zeros(SHAPE), np.zeros(SHAPE)
        for step in range(1, steps + 1):
            gradient = np.zeros(SHAPE)
            for sign in np.sign(rng.uniform(-1, 1, (samples // 2, *SHAPE))):
                for direction in (sign, -sign):
                    scores = model((current + delta * direction).astype(np.float32)[None])[0]
                    gradient += (scores[label] - scores[1 - label]) * direction / samples
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            moved = current - rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-9)
            current = np.clip(np.clip(moved, picture - epsilon, picture + epsilon), 0, 1)
        assert np.abs(outcome.result.picture - current).max() < 1e-6

    def test_the_readings_of_an_early_stop_differ_by_one_step(self, model, pictures):
        """The picture that stopped it was asked about and is returned as it is, or moved once more."""
        label = int(predicted_classes(model(pictures[:1]))[0])
        asked = []

        def ask(questions):
            asked.append(questions[-1])
            return model(questions)

        (before,) = played(Spsa(0.3, stop=StopReading.BEFORE), pictures[:1], [label], ask)
        assert np.array_equal(before.result.picture, asked[-1])
        (after,) = played(Spsa(0.3, stop=StopReading.AFTER), pictures[:1], [label], model)
        assert after.queries == before.queries
        assert 0 < np.abs(after.result.picture - before.result.picture).max() <= 0.01 + 1e-6

    @pytest.mark.parametrize("scores", [(np.inf, np.inf), (-np.inf, -np.inf), (np.inf, -np.inf), (0.0, np.inf)])
    def test_infinite_scores_are_numbers(self, scores, pictures):
        """Infinity minus infinity is a tie: nothing becomes NaN, and nothing is warned about."""
        (outcome,) = played(Spsa(0.1, steps=3), pictures[:1], [0], lambda asked: np.tile(scores, (len(asked), 1)))
        assert np.isfinite(outcome.result.picture).all()


class TestBoundary:
    """A walk by labels alone."""

    @pytest.mark.slow
    def test_it_ends_within_the_distance(self, model, pictures):
        """A linear classifier is fooled within a distance that suffices; the walk then stops."""
        labels = predicted_classes(model(pictures))
        distances = np.abs(model(pictures)[:, 1]) / np.linalg.norm(model.weights)
        attack = Boundary(float(1.5 * distances.max()), starts_of(pictures, labels), iterations=2000)
        outcomes = played(attack, pictures, labels, model)
        found = results(outcomes)
        lengths = np.linalg.norm((found - pictures).reshape(COUNT, -1), axis=1)
        assert (lengths <= attack.distance + 1e-5).all()
        assert (predicted_classes(model(found)) != labels).all()

    def test_what_is_too_far_is_put_on_the_sphere(self, model, pictures):
        """Where the walk ends outside, the picture on the sphere is judged, misclassified or not."""
        labels = predicted_classes(model(pictures))
        attack = Boundary(0.001, starts_of(pictures, labels), iterations=3)
        found = results(played(attack, pictures, labels, model))
        lengths = np.linalg.norm((found - pictures).reshape(COUNT, -1).astype(np.float64), axis=1)
        assert lengths == pytest.approx(np.full(COUNT, 0.001), rel=1e-3)
        assert (predicted_classes(model(found)) == labels).all()

    def test_it_gives_up_where_the_start_is_misclassified(self, model, pictures):
        """Then the picture itself is judged, and it is said why."""
        (outcome,) = played(Boundary(1.0, (pictures[:1], pictures[:1])), pictures[:1], [0], _ties)
        assert np.array_equal(outcome.result.picture, pictures[0])
        assert outcome.result.give_up_reason == "the start picture is misclassified"
        assert outcome.queries == 2

    def test_a_misclassified_picture_is_returned_as_it_is(self, pictures):
        """There is nothing to look for."""
        (outcome,) = played(Boundary(1.0, (pictures[:1], pictures[:1])), pictures[:1], [1], _ties)
        assert outcome.result == AttackResult(pytest.approx(pictures[0]))

    def test_without_a_picture_of_the_other_class_it_gives_up(self, model, pictures):
        """A set of one class has nothing to start from."""
        (outcome,) = played(Boundary(1.0, (pictures, pictures[:0])), pictures[:1], [0], model)
        assert outcome.result.give_up_reason == "there is no picture of the other class"


def _ties(asked):
    return np.zeros((len(asked), 2))


class TestSpatial:
    """The worst of a grid."""

    def test_the_reference_mixes_up_the_axes(self):
        """An angle goes as far as dx, dx as dy, and dy as far and in as many steps as the angle."""
        limits = MovementLimits(18, 18, 30)
        movements = list(Grid(limits, 5, 5, 31, Reading.REFERENCE).movements())
        assert len(movements) == 775
        assert {movement.angle for movement in movements} == {-18, -9, 0, 9, 18}
        assert {movement.dy for movement in movements} == set(range(-30, 31, 2))
        meant = list(Grid(limits, 5, 5, 31).movements())
        assert {movement.angle for movement in meant} == set(range(-30, 31, 2))
        assert {movement.dy for movement in meant} == {-18, -9, 0, 9, 18}

    def test_the_worst_margin_wins_fooled_or_not(self, model, pictures):
        """Of all movements the one with the largest score for the wrong class is judged."""
        labels = predicted_classes(model(pictures))
        attack = SpatialGrid(Grid(LIMITS, 3, 3, 5), PILLOW)
        for picture, label, outcome in zip(pictures, labels, played(attack, pictures, labels, model), strict=True):
            every = PILLOW.apply(picture, [*attack.grid.movements()])
            expected = every[np.argmin(margins(model(every), int(label)))]
            assert np.array_equal(outcome.result.picture, expected)
            assert outcome.queries == 45

    def test_ink_that_is_lost_makes_a_movement_invalid(self):
        """Half a digit pushed off the picture is not the digit any more."""
        digit = np.zeros(SHAPE, np.float32)
        digit[0, 3:9, 5:7] = 1
        still = TENSORFLOW.apply(digit, [Movement()])[0]
        assert keeps_ink(still, TENSORFLOW.apply(digit, [Movement(angle=20)])[0])
        assert not keeps_ink(still, TENSORFLOW.apply(digit, [Movement(dy=6)])[0])

    def test_a_blank_picture_keeps_its_ink(self):
        """It has none to lose: without this a random movement of it would be drawn for ever."""
        blank = np.zeros(SHAPE, np.float32)
        assert keeps_ink(blank, blank)
        moved = random_movement(blank, LIMITS, TENSORFLOW, np.random.default_rng(0), check_ink=True)
        assert np.array_equal(moved, blank)

    @pytest.mark.parametrize(("reading", "wrong"), [(Reading.INTENDED, False), (Reading.REFERENCE, True)])
    def test_the_inverted_check_judges_what_is_invalid(self, reading, wrong):
        """Against a model that errs on invalid pictures only, the reference wins and the words' meaning does not."""
        digit = np.zeros(SHAPE, np.float32)
        digit[0, 3:9, 5:7] = 1
        still = TENSORFLOW.apply(digit, [Movement()])[0]

        def ask(asked):
            invalid = np.array([not keeps_ink(still, each) for each in asked])
            return np.stack([np.where(invalid, -1.0, 1.0), np.where(invalid, 1.0, -1.0)], axis=1)

        grid = Grid(MovementLimits(0, 6, 0), 1, 5, 1)
        (outcome,) = played(InkCheckedGrid(grid, TENSORFLOW, reading), digit[None], [0], ask)
        assert bool(predicted_classes(ask(outcome.result.picture[None]))[0] == 1) == wrong

    def test_without_a_loss_the_picture_itself_is_judged(self, pictures):
        """A margin that costs nothing in single precision is not worse than no loss at all."""

        def sure(asked):
            return np.tile([20.0, 0.0], (len(asked), 1))

        (outcome,) = played(InkCheckedGrid(Grid(LIMITS, 3, 3, 3), TENSORFLOW), pictures[:1], [0], sure)
        assert np.array_equal(outcome.result.picture, pictures[0])
        assert cross_entropy(np.array([[20.0, 0.0]]), 0)[0] == 0
        assert cross_entropy(np.array([[1.0, 0.0]]), 0)[0] == pytest.approx(np.log1p(np.exp(-1)))

    def test_a_random_movement_keeps_its_ink(self):
        """It is drawn again until it does; without the check the first is taken."""
        digit = np.zeros(SHAPE, np.float32)
        digit[0, 3:9, 5:7] = 1
        far = MovementLimits(6, 6, 45)
        still = TENSORFLOW.apply(digit, [Movement()])[0]
        for seed in range(20):
            moved = random_movement(digit, far, TENSORFLOW, np.random.default_rng(seed), check_ink=True)
            assert keeps_ink(still, moved)
        first = random_movement(digit, far, TENSORFLOW, np.random.default_rng(0), check_ink=False)
        drawn = np.random.default_rng(0)
        dx, dy, angle = (drawn.uniform(-limit, limit) for limit in (6, 6, 45))
        assert np.array_equal(first, TENSORFLOW.apply(digit, [Movement(angle=angle, dx=dx, dy=dy)])[0])


class TestScores:
    """What the defence says, and what it does not say."""

    def test_a_tie_is_class_0_and_a_missing_score_is_no_class(self):
        """Rule B1; whatever is missing counts as misclassified, whichever class is the true one."""
        scores = np.array([[1.0, 1.0], [0.0, 1.0], [np.nan, 1.0], [np.inf, -np.inf], [np.nan, np.nan]])
        assert predicted_classes(scores).tolist() == [0, 1, FAULTED, 0, FAULTED]

    def test_a_missing_score_is_the_worst_margin(self):
        """An attack that finds a picture without scores has found what it looks for."""
        scores = np.array([[0.0, np.inf], [np.nan, 0.0], [np.inf, np.inf], [-np.inf, -np.inf]])
        found = margins(scores, 0)
        assert found.argmin() == 1
        assert found[2:].tolist() == [0, 0]

    def test_an_attack_that_never_asks_is_played(self, pictures):
        """The boundary attack gives every picture back if it has none to start from."""
        attack = Boundary(1.0, (pictures[:0], pictures[:0]))
        outcomes = played(attack, pictures, [0] * COUNT, lambda asked: pytest.fail(f"asked {asked}"))
        assert np.array_equal(results(outcomes), pictures)

    def test_bytes_and_values(self):
        """Every byte survives; what lies outside is cut, and the rest is rounded."""
        every = np.arange(256, dtype=np.uint8)
        assert np.array_equal(to_pixels(to_floats(every)), every)
        assert to_pixels(np.float32([-0.5, 0.499 / 255, 0.501 / 255, 1.5])).tolist() == [0, 0, 1, 255]


def test_an_attack_has_to_say_what_it_does():
    """The base class cannot be played."""
    with pytest.raises(TypeError, match="abstract"):
        Attack()


class TestCorruptions:
    """Common corruptions (B2, as an option)."""

    @pytest.mark.parametrize("name", CORRUPTIONS)
    def test_each_changes_a_picture_and_keeps_its_range(self, name):
        """What comes out is a picture of the same shape from 0 to 1, another one, and the same for the same chance."""
        picture = np.random.default_rng(5).random((3, 16, 12), np.float32)
        found = [CORRUPTIONS[name](picture, np.random.default_rng(7)) for _ in range(2)]
        assert np.array_equal(*found)
        assert (found[0].shape, found[0].dtype) == (picture.shape, np.float32)
        assert 0 <= found[0].min() <= found[0].max() <= 1
        assert not np.array_equal(found[0], picture)

    def test_the_worst_is_judged(self):
        """A model that loses confidence with darkness is shown the darkest of them, whoever is fooled."""
        picture = np.full((1, 8, 8), 0.5, np.float32)

        def model(pictures):
            mean = pictures.mean(axis=(1, 2, 3)).astype(np.float64)
            return np.stack([mean, -mean], 1)

        (outcome,) = played(CommonCorruptions(), picture[None], [0], model)
        tried = [corrupt(picture, rng) for rng in [np.random.default_rng(0)] for corrupt in CORRUPTIONS.values()]
        assert outcome.queries == len(CORRUPTIONS)
        darkest = min(tried, key=lambda each: each.mean())
        assert np.array_equal(outcome.result.picture, darkest)
