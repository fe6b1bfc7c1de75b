"""For attacks that query the defence: `play` for an attack of your own, `PictureQueries` for one of a library.

`play` plays an attack on all pictures of a question side by side. The attack is written for one picture, as a generator
function:

    def attack(clean, task, rng):
        margins = yield pictures

`clean` is uint8 [channels, height, width], and `rng` starts from the task's seed and this picture alone. The attack
yields pictures that the defence is asked about, uint8 [k, channels, height, width], and is sent their margins, float
[k]: the score of the true class less the largest other score. A margin is below 0 where the defence misread the
picture. Where the contest or the defence gives no scores, margins are 1 and -1. NaN means that there was no answer.

    class Mine(Attack):
        def load(self, task):
            self.task = task

        def perturb(self, pixels, labels):
            return sparring_queries.play(self.task, pixels, labels, attack)

A library that calls a model cannot be written so. It is given a model that asks `PictureQueries.labels`, one picture of
the question after the other:

    for place, clean in enumerate(pixels):
        label = None if labels is None else labels[place]
        with sparring_queries.PictureQueries(self.task, place, clean, label) as asked:
            ...  # the library's attack
        yield place, asked.best

NumPy only. The base images hold it beside sparring_player.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import numpy as np
from sparring_player import BudgetSpent, Task

SCORES, DECISION = "scores", "decision"
Moves = Generator[np.ndarray, np.ndarray, None]
QueryingAttack = Callable[[np.ndarray, Task, np.random.Generator], Moves]


def play(
    task: Task, pixels: np.ndarray, labels: np.ndarray | None, attack: QueryingAttack, want: str = SCORES
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields each position with its candidate, uint8 [channels, height, width], within the budget.

    One query asks for all pictures that are still played. The first one asks about the clean pictures. A picture that
    the defence misreads within the budget is delivered as it was asked about, and nothing more is asked for it. If the
    queries are spent first, or the attack returns, the best picture so far is delivered: the nearest misread one, moved
    into the budget, or else the one with the smallest margin.

    Args:
        task: the task, as `load` got it.
        pixels: the pictures of the question, uint8 [n, channels, height, width].
        labels: their true labels, int [n]; None if they are hidden: then the defence's answers to the clean pictures
            take their place.
        attack: the attack on one picture.
        want: "scores", or "decision" for an attack that needs no scores. Scores are replaced by decisions if the
            contest does not offer them, or the defence gives none.
    """
    games = {place: _Game(task, clean, attack) for place, clean in enumerate(pixels)}
    asker = _Asker(task, want)
    truth = asker.greet(pixels, labels, games)
    while games:
        for place in [place for place, game in games.items() if game.ended]:
            yield place, games.pop(place).found.best
        parts = {place: game.wanted[: asker.left(place)] for place, game in games.items()}
        for place in [place for place, part in parts.items() if not len(part)]:
            yield place, games.pop(place).found.best
        if not games:
            return
        places = [place for place in games for _ in parts[place]]
        try:
            margins = asker.ask(np.concatenate([parts[place] for place in games]), places, truth[places])
        except BudgetSpent:  # if the orchestrator counts differently
            yield from ((place, game.found.best) for place, game in games.items())
            return
        start = 0
        for place, game in games.items():
            count = len(parts[place])
            game.hear(margins[start : start + count])
            start += count


class Misread(Exception):
    """The defence misread a picture within the budget, so no more queries are needed."""


class PictureQueries:
    """The queries for one picture of a question, for a library that calls a model and knows no query budget.

    It is a context manager that suppresses Misread and BudgetSpent, which end the library's attack. It asks about no
    picture twice, and for decisions only.

    Args:
        task: the task, as `load` got it.
        place: the position of the picture in the question.
        clean: the picture, uint8 [channels, height, width].
        label: its true label; None if it is hidden.
    """

    def __init__(self, task: Task, place: int, clean: np.ndarray, label: int | None = None) -> None:
        self._task, self._place, self._clean = task, place, clean
        self._truth = None if label is None else int(label)
        self._found = _Found(task, clean)
        self._known: dict = {}

    def __enter__(self) -> PictureQueries:  # noqa: PYI034  Python 3.8 has no `Self`
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, (Misread, BudgetSpent))

    @property
    def best(self) -> np.ndarray:
        """The picture to deliver, uint8 [channels, height, width].

        It is a picture that was misread within the budget, else the nearest misread picture moved into the budget, else
        the clean picture.
        """
        return self._found.best

    def ask_clean(self) -> int:
        """Asks about the clean picture, and returns the label that counts as true: the answer if labels are hidden.

        Call it first. Raises the errors of `labels`.
        """
        self.labels(self._clean[None])
        return self._truth

    def labels(self, pictures: np.ndarray) -> np.ndarray:
        """Returns the defence's labels, int [k], with the true label where it gave none.

        `pictures` are [k, channels, height, width]: uint8, or floats from 0 to 1, which are rounded to uint8.

        Raises:
            Misread: one of them was misread within the budget.
            BudgetSpent: no query is left.
        """
        if pictures.dtype != np.uint8:
            pictures = np.rint(np.clip(pictures, 0, 1) * 255).astype(np.uint8)
        return np.array([self._label(picture) for picture in pictures], np.int64)

    def _label(self, picture: np.ndarray) -> int:
        key = picture.tobytes()
        if key not in self._known:
            seen = int(self._task.ask(picture, self._place)[0])
            self._truth = seen if self._truth is None else self._truth
            self._known[key] = self._truth if seen < 0 else seen
            self._found.note(picture, 1.0 if self._known[key] == self._truth else -1.0)
            if self._found.misread:
                raise Misread
        return self._known[key]


class _Found:
    """The best candidate for a clean picture that was found so far."""

    def __init__(self, task: Task, clean: np.ndarray) -> None:
        self._task, self._clean = task, clean
        self._lowest, self._candidate = np.inf, clean
        self._nearest, self._distance = None, np.inf

    @property
    def misread(self) -> bool:
        """Whether a picture within the budget was misread."""
        return self._lowest < 0

    @property
    def best(self) -> np.ndarray:
        """The best candidate: a picture that was misread within the budget, if there is one.

        Otherwise, if a picture beyond the budget was misread, it is the nearest of these, moved into the budget. Else
        it is the picture with the smallest margin, which may be the clean one.
        """
        return self._candidate if self.misread or self._nearest is None else self._within(self._nearest)

    def note(self, picture: np.ndarray, margin: float) -> None:
        """Adds a picture and its margin."""
        if np.array_equal(self._within(picture), picture):
            if margin < self._lowest:
                self._lowest, self._candidate = margin, picture
        elif margin < 0:
            change = np.abs(picture.astype(float) - self._clean)
            distance = change.max() if self._task.norm == "linf" else (change**2).sum()
            if distance < self._distance:
                self._nearest, self._distance = picture, distance

    def _within(self, picture: np.ndarray) -> np.ndarray:
        return self._task.within(self._clean[None], picture[None])[0]


class _Game:
    """One picture and its attack in progress."""

    def __init__(self, task: Task, clean: np.ndarray, attack: QueryingAttack) -> None:
        self.found = _Found(task, clean)
        self.ended = False
        self.wanted = clean[None]
        self._clean, self._moves = clean, attack(clean, task, task.rng(clean))

    def greet(self, margin: float) -> None:
        """Adds the margin of the clean picture, and starts the attack."""
        self.found.note(self._clean, margin)
        self._go_on(None)

    def hear(self, margins: np.ndarray) -> None:
        """Adds the margins of the first of the pictures in `wanted`; continues the attack if these were all."""
        for picture, margin in zip(self.wanted, margins):  # noqa: B905  Python 3.8 has no `strict`
            if not self.found.misread:
                self.found.note(picture, float(margin))
        self.ended = len(margins) < len(self.wanted)
        self._go_on(margins)

    def _go_on(self, margins: np.ndarray | None) -> None:
        self.ended = self.ended or self.found.misread
        if not self.ended:
            try:
                self.wanted = self._moves.send(margins)
            except StopIteration:
                self.ended = True


class _Asker:
    """Asks for scores, or for decisions where there are none, and turns both into margins."""

    def __init__(self, task: Task, want: str) -> None:
        self.task = task
        self.prices = (task.queries or {}).get("prices", {})
        self.want = want if want in self.prices else DECISION

    def left(self, place: int) -> int:
        """Returns about how many pictures it may still ask the defence for one position."""
        return int(self.task.left[place]) // self.prices[self.want] if self.want in self.prices else 0

    def greet(self, pixels: np.ndarray, labels: np.ndarray | None, games: dict) -> np.ndarray:
        """Asks about the clean pictures, starts their games, and returns the labels that count as true, int [n]."""
        places = list(range(len(pixels)))
        truth = np.full(len(pixels), -1) if labels is None else np.asarray(labels)
        if min(map(self.left, places), default=0) < 1:
            for game in games.values():
                game.ended = True
            return truth
        seen, margins = self._read(pixels, places, truth)
        if self.want == SCORES and (seen < 0).all() and min(map(self.left, places)) > 0:
            self.want = DECISION  # the defence gives no scores
            seen, margins = self._read(pixels, places, truth)
        for place, game in games.items():
            game.greet(float(margins[place]) if labels is not None else np.inf)
        return seen if labels is None else truth

    def ask(self, pixels: np.ndarray, places: list, truth: np.ndarray) -> np.ndarray:
        """Returns the margins of pictures, float [k]. Raises BudgetSpent."""
        return self._read(pixels, places, truth)[1]

    def _read(self, pixels: np.ndarray, places: list, truth: np.ndarray) -> tuple:
        """Returns the labels that the defence gave, -1 for none, and the margins, NaN for none."""
        replies = self.task.ask(pixels, places, self.want)
        if self.want == DECISION:
            return replies, np.where(replies < 0, np.nan, np.where(replies == truth, 1.0, -1.0))
        known = ~np.isnan(replies)
        seen = np.where(known.any(axis=1), np.where(known, replies, -np.inf).argmax(axis=1), -1)
        values, rows = np.where(known, replies, 0).astype(float), np.arange(len(replies))
        own = values[rows, truth]
        values[rows, truth] = -np.inf
        margins = own - values.max(axis=1)
        # Where scores are withheld, and where two are equal, the label decides.
        margins = np.where(seen == truth, np.maximum(margins, 0), np.minimum(margins, -1e-9))
        return seen, np.where(seen < 0, np.nan, margins)
