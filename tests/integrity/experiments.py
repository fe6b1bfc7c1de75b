"""The two experiments that measure power: with a cheat of exactly 1 %, and with honest classifiers.

They are small in tests and large in bench/replay.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import players
from laboratory import Gallery, Kind, Laboratory

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.tasks import Isolation
from orchestrator.integrity.detection_power import SamplingDesign
from orchestrator.integrity.determinism_check import DeterminismVerdict


@dataclass(frozen=True)
class Trial:
    """One cheat that is not random, in one kind of contest: it changes the last answers of a sandbox.

    `changed` is the number of changed answers, 1 % of the questions. `clean`: clean pictures are among them. A clean
    picture can also be asked again as a companion, so the plan is then only a lower bound.
    """

    name: str
    cells: int
    pictures: int
    place: int
    changed: int
    isolation: Isolation = Isolation.ATTACK
    clean: bool = False

    def run(self, power: float, seed: int) -> DeterminismVerdict:
        """Returns the verdict of one run. Raises ValueError if the cheat changed another number of answers."""
        kind = players.late(self.place, attacked_only=not self.clean)
        gallery = Gallery.drawn(seed, cells=self.cells, pictures=self.pictures)
        lab = Laboratory(kind, gallery, seed, isolation=self.isolation, design=SamplingDesign(power=power))
        play = lab.play()
        honest = Laboratory(players.Honest, gallery, seed).ask(play.rows[:, :2], len(play.rows))
        changed = int((play.rows[:, 2] != honest.answers).sum())
        if changed != self.changed or 100 * changed != len(play.rows):
            raise ValueError(f"the cheat changed {changed} of {len(play.rows)} answers instead of {self.changed}")
        return lab.examine(play)


ATTACK = Trial("isolation `attack`, attacked pictures", 5, 1200, 1185, 60)
ROUND = Trial("isolation `round`, any picture", 4, 500, 1980, 20, isolation=Isolation.ROUND, clean=True)
CLEAN = Trial("isolation `attack`, any picture", 5, 1200, 1188, 60, clean=True)
SMALL = Trial("isolation `attack`, small", 3, 600, 591, 18)

Drawn = Callable[[int], Gallery]
QUANTISED: Drawn = lambda seed: players.bisected(Gallery.drawn(seed), quantised=True)  # noqa: E731  one of a table
UNQUANTISED: Drawn = lambda seed: players.bisected(Gallery.drawn(seed), quantised=False)  # noqa: E731  one of a table


@dataclass(frozen=True)
class Fair:
    """One kind of honest classifier, and the contest that it plays."""

    name: str
    kind: Kind
    gallery: Drawn = Gallery.drawn
    isolation: Isolation = Isolation.ATTACK
    batch: int = 1

    def run(self, seed: int) -> DeterminismVerdict:
        """Returns what became of one run."""
        return Laboratory(self.kind, self.gallery(seed), seed, isolation=self.isolation, batch=self.batch).judge()


HONEST = (
    Fair("linear", players.Honest),
    Fair("linear, isolation `round`", players.Honest, isolation=Isolation.ROUND),
    Fair("linear, isolation `picture`", players.Honest, partial(Gallery.drawn, pictures=200), Isolation.PICTURE),
    Fair("always one class", players.Constant),
    Fair("slow, up to 2 s", players.Slow),
    Fair("abstaining", players.Abstaining),
    Fair("noise of 1e-6, with scores", players.Noisy),
    Fair("noise, pictures on its boundary", players.Noisy, QUANTISED),
    Fair("noise, the same without scores", players.NoisyWithoutScores, QUANTISED),
    Fair("noise by shape, boundary, batch 8", players.Shaped, UNQUANTISED, batch=8),
    Fair("noise by shape, boundary, batch 64, no scores", players.ShapedWithoutScores, UNQUANTISED, batch=64),
    Fair("ends on certain pictures", players.Crashing),
    Fair("ends on certain pictures, batch 8", players.Crashing, batch=8),
    Fair("ends at its 250th question", players.Leaking),
    Fair("ends now and then", players.Stumbling),
    Fair("deadlines pass now and then", players.Interrupted),
)
"""Bisected, unquantised pictures do not exist in this system. Here they are the worst case for a question's shape."""


@dataclass(frozen=True)
class Class:
    """One class of cheat at about 1 %: what changes its answers, and the contest in which it has something to gain."""

    name: str
    kind: Kind
    named: tuple[FindingKind, ...]
    isolation: Isolation = Isolation.ATTACK
    batch: int = 1
    cells: int = 3
    pictures: int = 500

    def run(self, power: float, seed: int) -> tuple[DeterminismVerdict, float]:
        """Returns what became of one run, and which share of the answers in play the cheat had changed."""
        gallery = Gallery.drawn(seed, cells=self.cells, pictures=self.pictures)
        lab = Laboratory(
            self.kind, gallery, seed, isolation=self.isolation, batch=self.batch, design=SamplingDesign(power=power)
        )
        play = lab.play()
        honest = Laboratory(players.Honest, gallery, seed).ask(play.rows[:, :2], 1)
        return lab.examine(play), float((play.rows[:, 2] != honest.answers).mean())


CLASSES = (
    Class("counter", players.counter(100), (FindingKind.STATE,)),
    Class("late in a sandbox", players.late(495), (FindingKind.STATE,)),
    Class("recent pictures", players.recent(4, 20), (FindingKind.STATE,)),
    Class("memory of other versions", players.memory(60), (FindingKind.MEMORY,), isolation=Isolation.ROUND),
    Class("company, batch of 8", players.company(100), (FindingKind.COMPANY,), batch=8),
    Class("drawn at start", players.environment(100), (FindingKind.ENVIRONMENT,)),
    Class("chance", players.chance(100), (FindingKind.CHANCE,)),
    Class("chance, false margins", players.false_margins(players.chance(2), 50), (FindingKind.CHANCE,)),
    Class("time since start", players.uptime(0.5, 50), (FindingKind.CLOCK,)),
    Class("time of day", players.time_of_day(0.7, 25), (FindingKind.CLOCK,)),
)
