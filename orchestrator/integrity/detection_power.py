"""How many questions must be asked again so that a cheat of a stated size has a mismatch with a stated probability.

The questions of a replay are drawn uniformly and without replacement from all questions of a defence's play, so the
number of deviating answers among them is hypergeometric: with k of N answers deviating and n drawn, at least one is
drawn with probability 1 - C(N-k, n) / C(N, n). This holds for every class of cheat whose deviating answers are among
the N, wherever they are; docs/replay.md says for which classes a drawn deviation also shows.

A mismatch is not an accusation. A cheat that a sequence shows is accused by the sequence. Any other is accused by the
rates, which need many disagreements. `detection_power` gives the probability of an accusation for each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil

import numpy as np

SAME_ORDER_QUESTIONS = 100
"""How many questions are asked again in the order of the play."""
SINGLE_QUESTIONS = 100
"""How many questions are asked one at a time, if play asked several at once."""
ALPHA = 1e-4
"""The most often that an honest defence, whose device disagrees as the contest allows, fails one test of rates."""
MIN_RATE_QUESTIONS = 2000
"""The fewest questions that are asked to measure rates, or all if there are fewer."""
TOLERANCE = 1e-9
"""Powers that differ by less are equal."""
REPEATED_QUESTIONS = 500
"""How many of the questions that measure rates are asked again in the same sandbox."""


@dataclass(frozen=True, slots=True)
class SamplingDesign:
    """A contest's requirements for its replays.

    A defence that changes a share `cheat` of its answers has a mismatch with probability `power`; 0 turns replays off.
    `noise` is how often two sandboxes of an honest defence may disagree. `attacks` is the share of an attack's
    questions that is played again, if a contest wants reproducible attacks.
    """

    power: float = 0.99
    cheat: float = 0.01
    noise: float = 0.001
    attacks: float = 0.0

    @property
    def disagreement_rate(self) -> float:
        """How often two answers disagree if each is changed independently: when exactly one of them is changed."""
        return 2 * self.cheat * (1 - self.cheat)


@dataclass(frozen=True, slots=True)
class DetectionPower:
    """The probability that a cheat of the contest's size has a mismatch, and that it is accused, by class of cheat.

    `sequence`: its answers change again whenever a sequence of questions is asked again (state, memory, time since the
    start). `chance`: each answer is changed independently. `start`: the changed answers are drawn when a sandbox
    starts, or by the company in a question. The last two are accused by rates alone.
    """

    mismatch: float
    sequence: float
    chance: float
    start: float

    def is_below(self, power: float) -> bool:
        """Returns whether the probability of an accusation is below a planned power for some class."""
        return min(self.sequence, self.chance, self.start) < power - TOLERANCE


@dataclass(frozen=True, slots=True)
class ReplayCost:
    """The questions that the planned replays of one defence take, without those that follow a mismatch.

    `drawn` counts the sample, `clean_first` the clean pictures shown before it, `sandboxes` the sandboxes needed. The
    last two are upper bounds before play: if one sandbox saw everything, there is one for each version of a picture.
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
        """The questions asked as a share of those of the play; 0 if nothing was played."""
        return self.asked / self.questions if self.questions else 0.0


def changed_answer_count(questions: int, cheat: float) -> int:
    """Returns how many of `questions` answers a cheat of this size changes: at least one."""
    return max(1, ceil(round(cheat * questions, 9)))


def mismatch_probability(questions: int, changed: int, drawn: int) -> float:
    """Returns the probability that at least one of `changed` answers is among `drawn` of `questions`."""
    # The hypergeometric distribution at zero, by the shorter of its two products.
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

    At least `MIN_RATE_QUESTIONS`, or all if there are fewer or all are not enough. The rates may miss a cheat with half
    of the probability that the power leaves; the other half is for the mismatch without which no rates are measured.
    """
    least, target_power = min(MIN_RATE_QUESTIONS, questions), (1 + design.power) / 2
    return _smallest(least, questions, lambda count: _rate_test_power(count, design)[1] >= target_power)


def detection_power(questions: int, drawn: int, design: SamplingDesign) -> DetectionPower:
    """Returns the detection power if `drawn` questions were drawn and decided; docs/replay.md explains the terms."""
    if not questions or not drawn:
        return DetectionPower(0.0, 0.0, 0.0, 0.0)
    meets = mismatch_probability(questions, changed_answer_count(questions, design.cheat), drawn)
    # Answers of the replay are changed as well: a pair disagrees if one of the two is.
    meets_rates = max(meets, 1 - (1 - design.disagreement_rate) ** drawn)
    chance, start = _rate_test_power(rate_sample_size(questions, design), design)
    return DetectionPower(meets, meets, meets_rates * chance, meets_rates * start)


@cache
def _rate_test_power(questions: int, design: SamplingDesign) -> tuple[float, float]:
    """Returns the probability that two twins of so many questions exceed the noise, for the classes chance and start.

    An effect that is drawn at a start changes a repeated question in the same way, so repeats do not count for it.
    """
    pairs = questions + min(REPEATED_QUESTIONS, questions)
    least = critical_count(pairs, design.noise)
    chance, start = (binomial_tail(least, number, design.disagreement_rate) for number in (pairs, questions))
    return chance, start


def critical_count(pairs: int, noise: float) -> int:
    """Returns the fewest disagreements in `pairs` that an honest device has with a probability of at most `ALPHA`."""
    return _smallest(0, pairs + 1, lambda count: binomial_tail(count, pairs, noise) <= ALPHA)


def binomial_tail(least: int, trials: int, probability: float) -> float:
    """Returns the probability that at least `least` of `trials` succeed, each with `probability`."""
    from scipy.special import bdtrc  # noqa: PLC0415  takes a quarter of a second to import

    if least <= 0:
        return 1.0
    return 0.0 if least > trials else float(bdtrc(least - 1, trials, probability))


def _smallest(low: int, high: int, enough: Callable[[int], bool]) -> int:
    """Returns the smallest number from `low` to `high` for which `enough` is true, or `high`."""
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def round_up(count: int, batch: int) -> int:
    """Returns the smallest multiple of `batch` that is at least `count`."""
    return -(-count // batch) * batch


def replay_cost(
    questions: int, pictures: int, design: SamplingDesign, *, batch: int = 1, mixed: bool = False
) -> ReplayCost:
    """Returns the most that replays cost, for a play of `questions` questions on `pictures` pictures."""
    drawn = sample_size(questions, design)
    waves = min(drawn, -(-questions // pictures)) if mixed and pictures else 1
    return ReplayCost(
        questions=questions,
        drawn=drawn,
        clean_first=0 if mixed else min(drawn, pictures),
        repeated=drawn,
        same_order=min(round_up(SAME_ORDER_QUESTIONS, batch), questions) if drawn else 0,
        single=min(SINGLE_QUESTIONS, drawn) if batch > 1 else 0,
        sandboxes=(waves + 1 + (batch > 1)) if drawn else 0,
        detection_power=detection_power(questions, drawn, design),
    )
