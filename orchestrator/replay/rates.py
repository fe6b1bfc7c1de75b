"""How often sandboxes disagree: what accuses where no single sequence can be shown.

Chance, a start's environment and the time of day cannot be repeated at will. They are accused by rates: more
disagreements than an honest device may have by the contest (`noise`), by an exact test that errs with probability
`power.ALPHA`. Two twins (same questions, same order, two fresh sandboxes, each asked some questions again at its end)
and the play itself give three rates, and the pattern says which kind it is.
"""

from dataclasses import dataclass

import numpy as np

from orchestrator.domain.findings import FindingKind
from orchestrator.domain.rulings import FAULTED
from orchestrator.replay import power, screening
from orchestrator.replay.power import ALPHA, Design
from orchestrator.replay.sessions import Examination, Played, Purpose, Questions, Said, Session, Trace, decision


@dataclass(frozen=True, slots=True)
class Rate:
    """Disagreements among pairs of decisions."""

    disagreements: int
    pairs: int

    def beyond(self, noise: float) -> float:
        """Returns how probable so many are, or more, where each pair disagrees with probability `noise`."""
        from scipy.stats import binom  # noqa: PLC0415  takes a second to import

        return float(binom.sf(self.disagreements - 1, self.pairs, noise))

    def exceeds(self, other: "Rate") -> float:
        """Returns how probable it is that this rate exceeds the other so far by chance: Fisher's exact test."""
        from scipy.stats import fisher_exact  # noqa: PLC0415  takes a second to import

        table = [
            [self.disagreements, self.pairs - self.disagreements],
            [other.disagreements, other.pairs - other.disagreements],
        ]
        return float(fisher_exact(table, alternative="greater").pvalue)


@dataclass(frozen=True, slots=True)
class Rates:
    """`within` one sandbox, between `twins`, and between `play` and its replay."""

    within: Rate
    twins: Rate
    play: Rate

    def verdict(self, noise: float) -> tuple[FindingKind, float] | None:
        """Returns the kind of cheat that these rates show and how probable they are without one; None for honest."""
        within, twins, play = self.within.beyond(noise), self.twins.beyond(noise), self.play.beyond(noise)
        if within < ALPHA:
            # What happens at the same places in both twins is no chance: it depends on what was asked before.
            return (FindingKind.CHANCE if self.twins.disagreements else FindingKind.STATE), within
        if twins < ALPHA:
            return FindingKind.ENVIRONMENT, twins
        if play < ALPHA and (more := self.play.exceeds(self.twins)) < ALPHA:
            return FindingKind.ENVIRONMENT, max(play, more)
        return None


def measure(trace: Trace, played: Played, design: Design, chance: np.random.Generator) -> Examination[Rates]:
    """Plays two twins of a large sample and returns the three rates."""
    count = power.rates_size(len(played.decided), design)
    sample = _as_in_play(played, count, chance) if played.batch > 1 else _drawn(played, count, chance)
    repeats = min(power.REPEATS, len(sample))
    repeats -= repeats % played.batch if repeats > played.batch else 0  # every question has the shape of the first time
    questions = np.concatenate([sample, sample[:repeats]])
    session = Session(Purpose.RATES, questions, played.batch)
    one = yield from trace.ask(session)
    other = yield from trace.ask(session)
    return Rates(
        within=_rate(_within(one, len(sample)) + _within(other, len(sample))),
        twins=_rate(_pairs(one.answers, other.answers)),
        play=_rate(_pairs(played.at(sample), one.answers[: len(sample)])),
    )


def in_company(trace: Trace, played: Played, design: Design, chance: np.random.Generator) -> Examination[Rate]:
    """Asks a large sample in other company than in play, in questions of the same shape; returns how often it differs.

    Last bits may honestly depend on a picture's place in its question: one answer that company changes is no cheat.
    """
    questions = _drawn(played, power.rates_size(len(played.decided), design), chance)
    said = yield from trace.ask(Session(Purpose.COMPANY, questions, played.batch))
    return _rate(_pairs(played.at(questions), said.answers))


def _drawn(played: Played, count: int, chance: np.random.Generator) -> Questions:
    """Returns so many questions as in play: one version of each picture, then the next; whole batches."""
    sample = played.decided[chance.choice(len(played.decided), count, replace=False)][:, :2]
    sample = np.concatenate(list(screening.waves(sample)))
    return sample[: count - (count % played.batch if count > played.batch else 0)]


def _as_in_play(played: Played, count: int, chance: np.random.Generator) -> Questions:
    """Returns about so many questions, each with the company and the places that it had in play, in another order."""
    size = played.batch
    units = [
        rows[at : at + size]
        for rows in played.sandboxes
        for at in range(0, len(rows) - size + 1, size)
        if (rows[at : at + size, 2] > FAULTED).all()
    ]
    if not units:
        return _drawn(played, count, chance)
    chosen = chance.permutation(len(units))[: max(1, count // size)]
    return np.concatenate([units[place] for place in chosen])[:, :2]


def _within(said: Said, count: int) -> list[tuple[int, int]]:
    again = said.answers[count:]
    return _pairs(said.answers[: len(again)], again)


def _pairs(first: "np.ndarray[tuple[int], np.dtype[np.int32]]", second: object) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in zip(first, np.asarray(second), strict=True)]


def _rate(pairs: list[tuple[int, int]]) -> Rate:
    decided = [(a, b) for a, b in pairs if decision(a) and decision(b)]
    return Rate(sum(a != b for a, b in decided), len(decided))
