"""Twenty honest classifiers that look suspicious: threads, ties, boundaries, faults, slowness, permitted chance.

The answers of each depend only on the picture, as far as its device permits; faults and slowness occur in play as in
replay.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from experiments import QUANTISED, Fair
from laboratory import CLASSES, Answered, Ended, Gallery, Kind, Late, Pixels, Time
from numpy.typing import NDArray
from players import NOISE, WEIGHTS, Honest, Scoring, best, keys

from orchestrator.domain.outcomes import ABSTAINED
from orchestrator.domain.tasks import Isolation


def tied(seed: int) -> Gallery:
    """Returns pictures of which every attacked one in five hundred has all scores equal."""
    gallery = Gallery.drawn(seed)
    gallery.pixels[1:, ::500, :] = 0
    return gallery


class Threads(Scoring):
    """Its threads add in whatever order they come; it gives its scores."""

    def scored(self, pixels: Pixels) -> NDArray[np.float32]:
        """Returns scores summed in a random order of the values."""
        order = self.chance.permutation(pixels.shape[1])
        total = np.zeros((len(pixels), CLASSES), np.float32)
        for value in order:
            total += pixels[:, [value]] * WEIGHTS[value]
        return total


class MuteThreads(Threads):
    """The same without scores."""

    def classify(self, pixels: Pixels) -> Answered:
        """Returns classes only."""
        return Answered(best(self.scored(pixels)))


class Placed(Scoring):
    """Its last bits depend on the place of a picture in its question, as in a blocked matrix product."""

    def scored(self, pixels: Pixels) -> NDArray[np.float32]:
        """Returns scores with rounding noise that the place decides."""
        tilt = np.random.default_rng(len(pixels)).standard_normal((len(pixels), CLASSES))
        return ((pixels @ WEIGHTS).astype(np.float64) * (1 + NOISE * tilt)).astype(np.float32)


class MutePlaced(Placed):
    """The same without scores."""

    def classify(self, pixels: Pixels) -> Answered:
        """Returns classes only."""
        return Answered(best(self.scored(pixels)))


class Ties(Honest):
    """It rounds its scores coarsely, so that many are tied, and takes the first class of a tie."""

    def scored(self, pixels: Pixels) -> NDArray[np.float32]:
        """Returns scores rounded to hundreds."""
        return np.round(super().scored(pixels) / 100)


class TiesByPicture(Ties):
    """It draws among tied classes, with chance from the picture."""

    def classify(self, pixels: Pixels) -> Answered:
        """Returns one of the best classes of each picture."""
        scores = self.scored(pixels)
        drawn = [np.random.default_rng(int(key)).permutation(CLASSES) for key in keys(pixels)]
        labels = [order[row[order].argmax()] for order, row in zip(drawn, scores, strict=True)]
        return Answered(np.array(labels, np.int32))


class Smoothed(Honest):
    """It lets noisy copies vote; the noise comes from the picture, as the helper's `task.rng(picture)` gives it."""

    def classify(self, pixels: Pixels) -> Answered:
        """Returns the class that most copies get."""
        labels = []
        for key, picture in zip(keys(pixels), pixels, strict=True):
            noise = np.random.default_rng(int(key)).normal(0, 30, (8, len(picture))).astype(np.float32)
            labels.append(np.bincount(best(self.scored(picture + noise)), minlength=CLASSES).argmax())
        return Answered(np.array(labels, np.int32))


class Projected(Honest):
    """It projects at random; the projection comes from a constant, as the helper's `task.rng()` gives it."""

    def __init__(self, seed: int, time: Time) -> None:
        super().__init__(seed, time)
        self.projection = np.random.default_rng(0).normal(size=(CLASSES, CLASSES)).astype(np.float32)

    def scored(self, pixels: Pixels) -> NDArray[np.float32]:
        """Returns projected scores."""
        found: NDArray[np.float32] = super().scored(pixels) @ self.projection
        return found


class Cached(Honest):
    """It keeps answers by the exact bytes of a picture."""

    def __init__(self, seed: int, time: Time) -> None:
        super().__init__(seed, time)
        self.kept: dict[bytes, int] = {}

    def classify(self, pixels: Pixels) -> Answered:
        """Returns what it answered before, else what it finds now."""
        found = best(self.scored(pixels)).tolist()
        return Answered(np.array([self.kept.setdefault(p.tobytes(), a) for p, a in zip(pixels, found, strict=True)]))


class Unsure(Threads):
    """It abstains where the best two are near each other, up to rounding noise at that threshold."""

    def classify(self, pixels: Pixels) -> Answered:
        """Returns abstentions below a threshold."""
        scores = self.scored(pixels)
        ordered = np.sort(scores, axis=1)
        near = ordered[:, -1] - ordered[:, -2] < 60
        return Answered(np.where(near, ABSTAINED, best(scores)).astype(np.int32), scores)


def failing(share: float, fault: Callable[[], Exception], *, first: float = 0.0) -> Kind:
    """Returns an honest classifier that fails now and then, and more often at a sandbox's first question."""

    class Failing(Honest):
        def classify(self, pixels: Pixels) -> Answered:
            self.asked += 1
            if self.chance.random() < (first if self.asked == 1 else share):
                raise fault()
            return super().classify(pixels)

    return Failing


def failing_at(one_in: int, fault: Callable[[], Exception], share: float) -> Kind:
    """Returns an honest classifier that fails at certain pictures, each time with a probability."""

    class FailingAt(Honest):
        def classify(self, pixels: Pixels) -> Answered:
            if (keys(pixels) % one_in == 0).any() and self.chance.random() < share:
                raise fault()
            return super().classify(pixels)

    return FailingAt


def full_after(questions: int) -> Kind:
    """Returns an honest classifier that runs out of memory after so many questions."""

    class FullAfter(Honest):
        def classify(self, pixels: Pixels) -> Answered:
            self.asked += 1
            if self.asked > questions:
                raise Ended
            return super().classify(pixels)

    return FullAfter


def machine(busy: float, length: float, *, from_second: float = 0.0) -> Kind:
    """Returns an honest classifier on a machine that is busy for seconds at a time: then every deadline passes.

    Busy times come by themselves, the same for whatever is asked; before `from_second` there are none.
    """

    class Busy(Noisily):
        def classify(self, pixels: Pixels) -> Answered:
            span, began = divmod(self.time.now, length)
            spell = np.random.default_rng(int(span)).random() < busy
            if spell and began < length / 2 and self.time.now - self.origin() > from_second:
                raise Late
            return super().classify(pixels)

    return Busy


class Noisily(MuteThreads):
    """As `MuteThreads`; it knows when the first sandbox of the round was started."""

    first: dict[int, float]

    def origin(self) -> float:
        """Returns when the first sandbox that shares this clock was started."""
        if not hasattr(self.time, "origin"):
            self.time.origin = self.started  # type: ignore[attr-defined]
        found: float = self.time.origin  # type: ignore[attr-defined]
        return found


SMALL = partial(Gallery.drawn, pictures=200)
FAIR = (
    Fair("threads, with scores, boundary", Threads, QUANTISED),
    Fair("threads, mute, boundary", MuteThreads, QUANTISED),
    Fair("threads, mute, boundary, batch 8", MuteThreads, QUANTISED, batch=8),
    Fair("bits by place, with scores, boundary, batch 8", Placed, QUANTISED, batch=8),
    Fair("bits by place, mute, boundary, batch 8", MutePlaced, QUANTISED, batch=8),
    Fair("bits by place, mute, ties, batch 8", MutePlaced, tied, batch=8),
    Fair("ties, the first class", Ties),
    Fair("ties, drawn by the picture, isolation `round`", TiesByPicture, isolation=Isolation.ROUND),
    Fair("smoothed with `task.rng(picture)`", Smoothed),
    Fair("projected with `task.rng()`, batch 8", Projected, batch=8),
    Fair("a cache of exact pictures, isolation `round`", Cached, isolation=Isolation.ROUND),
    Fair("unsure, threads", Unsure, QUANTISED),
    Fair("ends once in a hundred", failing(0.01, Ended)),
    Fair("late once in fifty", failing(0.02, Late)),
    Fair("late at a third of first questions", failing(0.0, Late, first=0.3)),
    Fair(
        "ends at a fifth of first questions, isolation `picture`",
        failing(0.0, Ended, first=0.2),
        SMALL,
        Isolation.PICTURE,
    ),
    Fair("late at certain pictures, mostly", failing_at(50, Late, 0.7)),
    Fair("memory for 60 questions", full_after(60)),
    Fair("memory for 120 questions, isolation `picture`", full_after(120), SMALL, Isolation.PICTURE),
    Fair("a machine busy at times, boundary", machine(0.2, 8.0), QUANTISED),
    Fair("a machine busy at times, later only, boundary", machine(0.3, 30.0, from_second=6.0), QUANTISED),
)
