"""How many questions must be asked again so that a cheat of a stated size has a mismatch with a stated probability.

The questions of a replay are drawn uniformly and without replacement from all questions of a defence's play, so the
number of deviating answers among them is hypergeometric: with k of N answers deviating and n drawn, one at least is
drawn with probability 1 - C(N-k, n) / C(N, n). This holds for every class of cheat whose deviating answers are among
the N, wherever they lie; docs/replay.md says for which classes a drawn one also shows.

A mismatch is not an accusation. A cheat that leaves a sequence is accused by it. One that leaves none is accused by the
rates, which need many disagreements: `promise` says how probable an accusation is for each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil

import numpy as np

SAME_ORDER_QUESTIONS = 100
"""So many questions are asked again in the order of the play."""
SINGLE_QUESTIONS = 100
"""So many questions are asked one at a time where play asked several at once."""
ALPHA = 1e-4
"""How often an honest defence, whose device disagrees as often as the contest allows, fails one test of rates."""
MIN_RATE_QUESTIONS = 2000
"""So many questions are asked, at least, to measure rates; or all where there are fewer."""
TOLERANCE = 1e-9
"""Powers that differ by less are the same."""
REPEATED_QUESTIONS = 500
"""So many of these are asked a second time in the same sandbox."""


@dataclass(frozen=True, slots=True)
class SamplingDesign:
    """What a contest asks of its replays.

    A defence that changes a share `cheat` of its answers has a mismatch with probability `power`; 0 turns replays off.
    `noise` is how often two sandboxes of an honest defence may disagree. `attacks` is the share of an attack's
    questions that is played again, where a contest wants reproducible attacks.
    """

    power: float = 0.99
    cheat: float = 0.01
    noise: float = 0.001
    attacks: float = 0.0

    @property
    def disagreement_rate(self) -> float:
        """How often two answers disagree where each is changed by itself: twice the cheat, less what both change."""
        return 2 * self.cheat * (1 - self.cheat)


@dataclass(frozen=True, slots=True)
class DetectionPower:
    """With what probability a cheat of the contest's size is accused, and with what it has a mismatch at all.

    `sequence`: its answers change again whenever a sequence of questions is asked again (state, memory, time since the
    start). `chance`: each answer is changed by itself. `start`: what is changed is drawn when a sandbox starts, or by
    the company in a question. The last two are accused by rates alone.
    """

    mismatch: float
    sequence: float
    chance: float
    start: float

    def is_below(self, power: float) -> bool:
        """Returns whether some of these are below a planned power."""
        return min(self.sequence, self.chance, self.start) < power - TOLERANCE


@dataclass(frozen=True, slots=True)
class ReplayCost:
    """What the planned replays of one defence cost, in questions, before anybody is suspected.

    `drawn` is the sample, `clean_first` are the clean pictures shown before it, `sandboxes` what that takes (both upper
    bounds before play: where one sandbox saw everything, as many as one picture has versions).
    """

    questions: int
    drawn: int
    clean_first: int
    repeated: int
    same_order: int
    single: int
    sandboxes: int
    detection_power: DetectionPower

    @property
    def asked(self) -> int:
        """All questions of the planned replays."""
        return self.drawn + self.clean_first + self.repeated + self.same_order + self.single

    @property
    def share(self) -> float:
        """Asked again, as a share of the questions of the play; 0 where nothing was played."""
        return self.asked / self.questions if self.questions else 0.0


def changed_answer_count(questions: int, cheat: float) -> int:
    """Returns how many of `questions` answers a cheat of this size changes: at least one."""
    return max(1, ceil(round(cheat * questions, 9)))


def mismatch_probability(questions: int, changed: int, drawn: int) -> float:
    """Returns the probability that at least one of `changed` answers is among `drawn` of `questions`."""
    # The hypergeometric distribution at zero: the shorter of its two products.
    fewer, more = sorted((min(changed, questions), min(drawn, questions)))
    if fewer + more > questions:
        return 1.0
    number = np.arange(fewer)
    return float(1 - np.prod((questions - more - number) / (questions - number)))


def sample_size(questions: int, design: SamplingDesign) -> int:
    """Returns the fewest questions whose sample has a mismatch with the design's power; 0 without replays."""
    if not questions or not design.power:
        return 0
    changed = changed_answer_count(questions, design.cheat)
    return _smallest(1, questions, lambda drawn: mismatch_probability(questions, changed, drawn) >= design.power)


@cache
def rate_sample_size(questions: int, design: SamplingDesign) -> int:
    """Returns how many questions the rates take, so that a cheat of the contest's size exceeds what noise allows.

    At least `RATES`, or all where there are fewer or all of them are not enough. Half of what the power leaves open is
    left to the mismatch without which no rates are measured.
    """
    least, target_power = min(MIN_RATE_QUESTIONS, questions), (1 + design.power) / 2
    return _smallest(least, questions, lambda count: _rate_test_power(count, design)[1] >= target_power)


def detection_power(questions: int, drawn: int, design: SamplingDesign) -> DetectionPower:
    """Returns what replays promise where so many questions were drawn and decided; see docs/replay.md for the terms."""
    if not questions or not drawn:
        return DetectionPower(0.0, 0.0, 0.0, 0.0)
    meets = mismatch_probability(questions, changed_answer_count(questions, design.cheat), drawn)
    # Answers of the replay are changed as well: a pair disagrees where either is.
    meets_rates = max(meets, 1 - (1 - design.disagreement_rate) ** drawn)
    chance, start = _rate_test_power(rate_sample_size(questions, design), design)
    return DetectionPower(meets, meets, meets_rates * chance, meets_rates * start)


@cache
def _rate_test_power(questions: int, design: SamplingDesign) -> tuple[float, float]:
    """Returns how probably two twins of so many questions exceed the noise, for chance and for what a start draws.

    What a start draws disagrees at the same questions when they are repeated: these repeats are not counted for it.
    """
    pairs = questions + min(REPEATED_QUESTIONS, questions)
    least = critical_count(pairs, design.noise)
    chance, start = (binomial_tail(least, number, design.disagreement_rate) for number in (pairs, questions))
    return chance, start


def critical_count(pairs: int, noise: float) -> int:
    """Returns how many disagreements among so many pairs an honest device has with a probability below `ALPHA`."""
    return _smallest(0, pairs + 1, lambda count: binomial_tail(count, pairs, noise) <= ALPHA)


def binomial_tail(least: int, trials: int, probability: float) -> float:
    """Returns the probability of at least so many of `trials` that succeed with `probability` each."""
    from scipy.special import bdtrc  # noqa: PLC0415  takes a quarter of a second to import

    if least <= 0:
        return 1.0
    return 0.0 if least > trials else float(bdtrc(least - 1, trials, probability))


def _smallest(low: int, high: int, enough: Callable[[int], bool]) -> int:
    """Returns the smallest number from low to high that is enough, or high."""
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def replay_cost(
    questions: int, pictures: int, design: SamplingDesign, *, batch: int = 1, mixed: bool = False
) -> ReplayCost:
    """Returns what replays cost at most, for a play of `questions` questions on `pictures` pictures."""
    drawn = sample_size(questions, design)
    waves = min(drawn, -(-questions // pictures)) if mixed and pictures else 1
    return ReplayCost(
        questions=questions,
        drawn=drawn,
        clean_first=0 if mixed else min(drawn, pictures),
        repeated=drawn,
        same_order=min(-(-SAME_ORDER_QUESTIONS // batch) * batch, questions) if drawn else 0,
        single=min(SINGLE_QUESTIONS, drawn) if batch > 1 else 0,
        sandboxes=(waves + 1 + (batch > 1)) if drawn else 0,
        detection_power=detection_power(questions, drawn, design),
    )
