"""Classifiers for the laboratory: honest ones of several kinds, and a cheat of each class."""

import zlib
from collections import deque
from collections.abc import Callable

import numpy as np
from laboratory import CLASSES, VALUES, Answered, Classifier, Ended, Gallery, Kind, Late, Pixels, Time
from numpy.typing import NDArray

from orchestrator.domain.outcomes import ABSTAINED

WEIGHTS = np.random.default_rng(99).normal(size=(VALUES, CLASSES)).astype(np.float32)
WEIGHTS -= WEIGHTS.mean(axis=1, keepdims=True)
NOISE = 1e-6
"""What another order of additions changes, relative to the largest score."""


def keys(pixels: Pixels, salt: int = 0) -> NDArray[np.int64]:
    """Returns a number for each picture, the same whenever it is shown [k]."""
    return np.array([zlib.crc32(picture.tobytes(), salt & 0xFFFFFFFF) for picture in pixels], np.int64)


def versions(pixels: Pixels) -> list[bytes]:
    """Returns what all versions of a picture share."""
    return [picture[-4:].tobytes() for picture in pixels]


def best(scores: NDArray[np.float32]) -> NDArray[np.int32]:
    """Returns the highest score's class [k]."""
    return scores.argmax(axis=1).astype(np.int32)


class Honest(Classifier):
    """A linear classifier, without scores."""

    def scored(self, pixels: Pixels) -> NDArray[np.float32]:
        """Returns scores [k, CLASSES]."""
        found: NDArray[np.float32] = pixels @ WEIGHTS
        return found

    def classify(self, pixels: Pixels) -> Answered:
        """Returns the classes of the highest scores."""
        return Answered(best(self.scored(pixels)))


class Scoring(Honest):
    """It gives its scores."""

    def classify(self, pixels: Pixels) -> Answered:
        """Returns classes and scores."""
        scores = self.scored(pixels)
        return Answered(best(scores), scores)


class Constant(Classifier):
    """It always says the same."""

    def classify(self, pixels: Pixels) -> Answered:
        """Returns class 2."""
        return Answered(np.full(len(pixels), 2, np.int32))


class Slow(Honest):
    """Its answers take up to two seconds, none like the other."""

    def classify(self, pixels: Pixels) -> Answered:
        """Lets time pass."""
        self.time.now += float(self.chance.uniform(0, 2))
        return super().classify(pixels)


class Abstaining(Scoring):
    """It says nothing of what it is unsure of."""

    def classify(self, pixels: Pixels) -> Answered:
        """Returns abstentions where the best two are near each other."""
        scores = self.scored(pixels)
        ordered = np.sort(scores, axis=1)
        return Answered(
            np.where(ordered[:, -1] - ordered[:, -2] < 60, ABSTAINED, best(scores)).astype(np.int32), scores
        )


class Noisy(Scoring):
    """Its device adds in another order each time."""

    def scored(self, pixels: Pixels) -> NDArray[np.float32]:
        """Returns scores with rounding noise."""
        exact = (pixels @ WEIGHTS).astype(np.float64)
        return (exact * (1 + NOISE * self.chance.standard_normal(exact.shape))).astype(np.float32)


class NoisyWithoutScores(Noisy):
    """As `Noisy`, and it gives no scores."""

    def classify(self, pixels: Pixels) -> Answered:
        """Returns classes only."""
        return Answered(best(self.scored(pixels)))


class Shaped(Scoring):
    """Its last bits depend on how many pictures are in a question, and on nothing else."""

    def scored(self, pixels: Pixels) -> NDArray[np.float32]:
        """Returns scores with rounding noise that the shape decides."""
        tilt = np.random.default_rng(len(pixels)).standard_normal(CLASSES)
        return ((pixels @ WEIGHTS).astype(np.float64) * (1 + NOISE * tilt)).astype(np.float32)


class ShapedWithoutScores(Shaped):
    """As `Shaped`, and it gives no scores."""

    def classify(self, pixels: Pixels) -> Answered:
        """Returns classes only."""
        return Answered(best(self.scored(pixels)))


class Crashing(Honest):
    """It ends itself on one in five hundred pictures, always on the same."""

    def classify(self, pixels: Pixels) -> Answered:
        """Raises Ended on some pictures."""
        if (keys(pixels) % 500 == 0).any():
            raise Ended
        return super().classify(pixels)


class Leaking(Honest):
    """It runs out of memory at its two hundred and fiftieth question."""

    def classify(self, pixels: Pixels) -> Answered:
        """Raises Ended once it has been asked too much."""
        self.asked += 1
        if self.asked == 250:
            raise Ended
        return super().classify(pixels)


class Stumbling(Honest):
    """It ends now and then, for no reason that anybody knows: once in five hundred questions."""

    def classify(self, pixels: Pixels) -> Answered:
        """Raises Ended by chance."""
        if self.chance.random() < 0.002:
            raise Ended
        return super().classify(pixels)


class Interrupted(Honest):
    """A deadline passes now and then, as on a busy machine."""

    def classify(self, pixels: Pixels) -> Answered:
        """Raises Late by chance."""
        if self.chance.random() < 0.01:
            raise Late
        return super().classify(pixels)


class Cheat(Honest):
    """It gives the second-best class where `changes` says so."""

    def changes(self, pixels: Pixels) -> NDArray[np.bool_]:
        """Returns which answers it changes [k]."""
        raise NotImplementedError

    def classify(self, pixels: Pixels) -> Answered:
        """Returns the honest classes but for some."""
        self.asked += 1
        scores, where = self.scored(pixels), self.changes(pixels)
        if not np.count_nonzero(where):  # nearly always, so second-best classes are not looked for
            return Answered(best(scores))
        order = np.argsort(scores, axis=1)
        return Answered(np.where(where, order[:, -2], order[:, -1]).astype(np.int32))


def late(place: int, *, attacked_only: bool = False) -> Kind:
    """Returns a cheat that changes what it is asked from a place on: never random, never in a short session."""

    class LateQuestions(Cheat):
        def changes(self, pixels: Pixels) -> NDArray[np.bool_]:
            if self.asked <= place:
                return np.zeros(len(pixels), bool)
            attacked = (pixels[:, 0].astype(np.int64) & 1).astype(bool)
            return attacked | (not attacked_only)

    return LateQuestions


def counter(every: int) -> Kind:
    """Returns a cheat that changes every so many answers."""

    class Counter(Cheat):
        def changes(self, pixels: Pixels) -> NDArray[np.bool_]:
            return np.full(len(pixels), self.asked % every == every // 2)

    return Counter


def recent(length: int, one_in: int = 1) -> Kind:
    """Returns a cheat whose answer depends on the last pictures: it changes some where all of them were brighter."""

    class Recent(Cheat):
        def __init__(self, seed: int, time: Time) -> None:
            super().__init__(seed, time)
            self.window: deque[float] = deque(maxlen=length)

        def changes(self, pixels: Pixels) -> NDArray[np.bool_]:
            here = float(pixels.mean())
            darker = len(self.window) == length and here < min(self.window)
            self.window.append(here)
            return darker & (keys(pixels) % one_in == 0)

    return Recent


def memory(one_in: int) -> Kind:
    """Returns a cheat that changes some pictures once it has seen another version of them."""

    class Memory(Cheat):
        def __init__(self, seed: int, time: Time) -> None:
            super().__init__(seed, time)
            self.seen: dict[bytes, bytes] = {}

        def changes(self, pixels: Pixels) -> NDArray[np.bool_]:
            known = []
            for version, picture in zip(versions(pixels), pixels, strict=True):
                known.append(self.seen.setdefault(version, picture.tobytes()) != picture.tobytes())
            return np.array(known) & (keys(pixels) % one_in == 0)

    return Memory


def environment(one_in: int) -> Kind:
    """Returns a cheat that draws at its start which pictures it changes."""

    class Environment(Cheat):
        def changes(self, pixels: Pixels) -> NDArray[np.bool_]:
            return keys(pixels, self.seed) % one_in == 0

    return Environment


def chance(one_in: int) -> Kind:
    """Returns a cheat that changes its answers by chance."""

    class Chance(Cheat):
        def changes(self, pixels: Pixels) -> NDArray[np.bool_]:
            return self.chance.random(len(pixels)) < 1 / one_in

    return Chance


def uptime(seconds: float, one_in: int = 1) -> Kind:
    """Returns a cheat that changes some pictures once it has run so long."""

    class Uptime(Cheat):
        def changes(self, pixels: Pixels) -> NDArray[np.bool_]:
            return (keys(pixels) % one_in == 0) & (self.time.now - self.started > seconds)

    return Uptime


def time_of_day(seconds: float, one_in: int) -> Kind:
    """Returns a cheat that changes some pictures in every other period of so many seconds."""

    class TimeOfDay(Cheat):
        def changes(self, pixels: Pixels) -> NDArray[np.bool_]:
            return (keys(pixels) % one_in == 0) & (int(self.time.now / seconds) % 2 == 1)

    return TimeOfDay


def company(one_in: int) -> Kind:
    """Returns a cheat that changes a picture by the sum of all pictures in its question."""

    class Company(Cheat):
        def changes(self, pixels: Pixels) -> NDArray[np.bool_]:
            together = int(pixels.sum())
            return (keys(pixels) + together) % one_in == 0 if len(pixels) > 1 else np.zeros(1, bool)

    return Company


def position(place: int, one_in: int) -> Kind:
    """Returns a cheat that changes some pictures at one position of a question."""

    class Position(Cheat):
        def changes(self, pixels: Pixels) -> NDArray[np.bool_]:
            return (np.arange(len(pixels)) == place) & (keys(pixels) % one_in == 0)

    return Position


def false_margins(cheat: Kind, one_in: int) -> Kind:
    """Returns a cheat that claims to be on its boundary on some pictures, always, and changes only those."""

    class FalseMargins(Honest):
        def __init__(self, seed: int, time: Time) -> None:
            super().__init__(seed, time)
            self.cheat = cheat(seed, time)

        def classify(self, pixels: Pixels) -> Answered:
            honest = self.scored(pixels)
            allowed = keys(pixels) % one_in == 0
            labels = np.where(allowed, self.cheat.classify(pixels).labels, best(honest)).astype(np.int32)
            scores = np.where(allowed[:, None], np.float32(1), honest)
            rows = np.flatnonzero(allowed)
            scores[rows, labels[rows]] += np.float32(1e-6)
            return Answered(labels, scores)

    return FalseMargins


def detecting(cheat: Kind, fault: Callable[[], Exception]) -> Kind:
    """Returns a cheat that ends or stalls when it meets two versions of a picture, which play never shows it."""

    class Detecting(Honest):
        def __init__(self, seed: int, time: Time) -> None:
            super().__init__(seed, time)
            self.cheat = cheat(seed, time)
            self.seen: set[bytes] = set()

        def classify(self, pixels: Pixels) -> Answered:
            for version in versions(pixels):
                if version in self.seen:
                    raise fault()
                self.seen.add(version)
            return self.cheat.classify(pixels)

    return Detecting


def behaving(cheat: Kind) -> Kind:
    """Returns a cheat that is honest from the moment on when a picture comes for the second time, never so in play."""

    class Behaving(Honest):
        def __init__(self, seed: int, time: Time) -> None:
            super().__init__(seed, time)
            self.cheat = cheat(seed, time)
            self.seen: set[bytes] = set()
            self.warned = False

        def classify(self, pixels: Pixels) -> Answered:
            for picture in pixels:
                self.warned |= picture.tobytes() in self.seen
                self.seen.add(picture.tobytes())
            return (super() if self.warned else self.cheat).classify(pixels)

    return Behaving


def bisected(gallery: Gallery, *, quantised: bool) -> Gallery:
    """Returns the pictures moved to the boundary of the honest classifier: halved towards a neighbour of another class.

    `quantised` rounds them to 8 bits, as pictures are in this system.
    """
    pixels = gallery.pixels.astype(np.float64)
    flat = pixels.reshape(-1, VALUES)
    weights = WEIGHTS.astype(np.float64)
    labels = (flat @ weights).argmax(axis=1)
    other = np.array([np.flatnonzero(labels != label)[n % 7] for n, label in enumerate(labels)])
    inside, outside = flat.copy(), flat[other].copy()
    for _ in range(60):
        middle = (inside + outside) / 2
        same = (middle @ weights).argmax(axis=1) == labels
        inside[same], outside[~same] = middle[same], middle[~same]
    found = np.rint(inside) if quantised else inside
    return Gallery(np.concatenate([gallery.pixels[:1], found.reshape(pixels.shape)[1:].astype(np.float32)]))
