"""A laboratory without sandboxes: pictures, classifiers as Python objects, and time as a number.

It plays a defence as execution does, and plays the sessions of its examination, thousands of times faster. Tests and
`bench/replay.py` share it. Everything is seeded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.outcomes import FAULTED
from orchestrator.domain.plan import Cell
from orchestrator.domain.tasks import Isolation
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.integrity.determinism_check import DeterminismVerdict, check_determinism
from orchestrator.integrity.replay_session import (
    DefencePlay,
    Questions,
    ReplaySession,
    Result,
    SessionAnswers,
    SessionGenerator,
)

VALUES = 16
"""The number of values of a picture. The last four are a pattern of the picture that no attack changes."""
CLASSES = 6
START = (0.15, 0.35)
"""The range of seconds until a sandbox is ready; each start draws from it."""
WORK = 0.002
"""How many seconds a question takes."""
DEADLINE = 10.0
"""Seconds until a question's deadline."""
RESTARTS = 10

Pixels = NDArray[np.float32]
"""Pictures [k, VALUES], values 0 to 255."""


class Ended(Exception):
    """A player ended, or broke the protocol."""


class Late(Exception):
    """A deadline passed."""


@dataclass
class Time:
    """The simulated time of day, shared by all sandboxes."""

    now: float = 0.0


@dataclass(frozen=True)
class Answered:
    """The answers to one question: labels or abstentions [k], and scores [k, CLASSES] if the classifier gives them."""

    labels: NDArray[np.int32]
    scores: NDArray[np.float32] | None = None


class Classifier:
    """The classifier of a sandbox. Each sandbox makes its own, with the seed of its `hello`."""

    def __init__(self, seed: int, time: Time) -> None:
        self.seed, self.time, self.started = seed, time, time.now
        self.chance = np.random.default_rng(seed)
        self.asked = 0

    def classify(self, pixels: Pixels) -> Answered:
        """Returns an answer to each picture."""
        raise NotImplementedError


Kind = Callable[[int, Time], Classifier]


@dataclass(frozen=True)
class Gallery:
    """Pictures [cells, n, VALUES]: the clean ones first, then those of each attack."""

    pixels: Pixels

    @classmethod
    def drawn(cls, seed: int, *, cells: int = 3, pictures: int = 500) -> "Gallery":
        """Returns random pictures; an attack moves every value but the pattern by up to 20, and the first to odd."""
        chance = np.random.default_rng([seed, 1])
        clean = chance.integers(20, 236, (pictures, VALUES))
        clean[:, 0] &= ~1
        versions = [clean]
        for _ in range(cells - 1):
            moved = clean + chance.integers(-20, 21, clean.shape)
            moved[:, 0] |= 1
            moved[:, -4:] = clean[:, -4:]
            versions.append(moved)
        return cls(np.stack(versions).astype(np.float32))

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The defence's cells."""
        return tuple(Cell("defence", f"attack-{n}" if n else None) for n in range(len(self.pixels)))


@dataclass
class Laboratory:
    """Plays one defence and examines it."""

    kind: Kind
    gallery: Gallery
    seed: int = 0
    isolation: Isolation = Isolation.ATTACK
    batch: int = 1
    design: SamplingDesign = field(default_factory=SamplingDesign)
    log: list[ReplaySession] = field(default_factory=list)
    said: list[SessionAnswers] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    """The seed that the latest sandbox of each session got."""

    def __post_init__(self) -> None:
        self.time = Time(now=float(np.random.default_rng([self.seed, 2]).uniform(0, 86400)))
        self._seeds = np.random.default_rng([self.seed, 3])
        self._orders = np.random.default_rng([self.seed, 4])
        self._starts = np.random.default_rng([self.seed, 6])
        self._faults = 0
        self.latest = 0

    def play(self) -> DefencePlay:
        """Plays every picture of every cell in a secret order."""
        cells, count = self.gallery.pixels.shape[:2]
        parts = [np.array([(cell, picture) for picture in range(count)], np.int32) for cell in range(cells)]
        mixed = self.isolation is Isolation.ROUND
        sandboxes: list[NDArray[np.int32]] = []
        for part in [np.concatenate(parts)] if mixed else parts:
            self._faults = 0
            questions = part[self._orders.permutation(len(part))]
            size = self.batch if self.isolation is Isolation.PICTURE else len(questions)
            for start in range(0, len(questions), size):
                piece = questions[start : start + size]
                answers = self.ask(piece, self.batch).answers
                rows = np.column_stack([piece, answers]).astype(np.int32)
                faulted = answers == FAULTED
                sandboxes += np.split(rows, np.flatnonzero(faulted[:-1] & ~faulted[1:]) + 1)
        return DefencePlay(self.gallery.cells, tuple(sandboxes), count, self.batch, mixed)

    def examine(self, played: DefencePlay) -> DeterminismVerdict:
        """Plays the sessions that the examination requests and returns its verdict."""
        self._faults = 0
        return self.run(check_determinism(played, self.design, np.random.default_rng([self.seed, 5])))

    def run(self, examination: SessionGenerator[Result]) -> Result:
        """Plays the requested sessions, each in a fresh sandbox, and returns the verdict."""
        try:
            session = next(examination)
            while True:
                self.log.append(session)
                self._faults = 0 if session.is_diagnostic else self._faults
                self.said.append(self.ask(session.questions, session.batch, session.pauses, self._seed(session)))
                self.told.append(self.latest)
                session = examination.send(self.said[-1])
        except StopIteration as end:
            result: Result = end.value
            return result

    def judge(self) -> DeterminismVerdict:
        """Plays and examines."""
        return self.examine(self.play())

    def _seed(self, session: ReplaySession) -> int | None:
        """Returns the seed for a session's sandbox, None for a fresh one."""
        return None if session.same_seed_as is None else self.told[session.same_seed_as]

    def ask(
        self, questions: Questions, batch: int, pauses: Mapping[int, float] | None = None, seed: int | None = None
    ) -> SessionAnswers:
        """Asks a fresh sandbox, and another one after each fault, as `ask_defence` does. All of them get `seed`."""
        count = len(questions)
        answers, refused, late = np.full(count, FAULTED, np.int32), np.zeros(count, bool), np.zeros(count, bool)
        margins, at = np.full(count, np.nan, np.float32), np.full(count, np.nan)
        pixels = self.gallery.pixels[questions[:, 0], questions[:, 1]]
        player: Classifier | None = None
        ready: float | None = None
        for start in range(0, count, batch):
            part = slice(start, min(start + batch, count))
            if player is None:
                if self._faults > RESTARTS:
                    continue
                self.time.now += float(self._starts.uniform(*START))
                self.latest = int(self._seeds.integers(2**53)) if seed is None else seed
                player = self.kind(self.latest, self.time)
            ready = self.time.now if ready is None else ready
            if pauses:
                self.time.now += pauses.get(start, 0.0)
            self.time.now += WORK
            try:
                answered = player.classify(pixels[part])
            except (Ended, Late) as fault:
                refused[part], late[part] = isinstance(fault, Ended), isinstance(fault, Late)
                self.time.now += DEADLINE if isinstance(fault, Late) else 0
                player, self._faults = None, self._faults + 1
                continue
            at[part] = self.time.now - ready
            answers[part] = answered.labels
            if answered.scores is not None:
                ordered = np.sort(answered.scores.astype(np.float64), axis=1)
                margins[part] = (ordered[:, -1] - ordered[:, -2]) / np.abs(answered.scores).max(axis=1)
        return SessionAnswers(answers, margins, at, refused, late)
