"""How many questions must be asked again so that a cheat of a stated size is caught with a stated probability.

The questions of a replay are drawn uniformly and without replacement from all questions of a defence's play, so the
number of deviating answers among them is hypergeometric: with k of N answers deviating and n drawn, one at least is
drawn with probability 1 - C(N-k, n) / C(N, n). This holds for every class of cheat whose deviating answers are among
the N, wherever they lie; docs/replay.md says for which classes a drawn one also shows.
"""

from dataclasses import dataclass
from math import ceil

AGAIN = 100
"""So many questions are asked a second time at the end of the same sandbox."""
TWIN = 100
"""So many questions are asked again in the order of the play."""
ALONE = 100
"""So many questions are asked one at a time where play asked several at once."""


@dataclass(frozen=True, slots=True)
class Design:
    """What a contest asks of its replays.

    A defence that changes a share `cheat` of its answers is caught with probability `power`; 0 turns replays off.
    `noise` is how often two sandboxes of an honest defence may disagree. `attacks` is the share of an attack's
    questions that is played again, where a contest wants reproducible attacks.
    """

    power: float = 0.99
    cheat: float = 0.01
    noise: float = 0.001
    attacks: float = 0.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What the planned replays of one defence cost, in questions, before anybody is suspected.

    `drawn` is the sample, `companions` are the clean pictures shown before it, `sandboxes` what that takes (both upper
    bounds before play: where one sandbox saw everything, as many as one picture has versions).
    """

    questions: int
    drawn: int
    companions: int
    again: int
    twin: int
    alone: int
    sandboxes: int
    power: float

    @property
    def asked(self) -> int:
        """All questions of the planned replays."""
        return self.drawn + self.companions + self.again + self.twin + self.alone

    @property
    def share(self) -> float:
        """Asked again, as a share of the questions of the play; 0 where nothing was played."""
        return self.asked / self.questions if self.questions else 0.0


def deviating(questions: int, cheat: float) -> int:
    """Returns how many of `questions` answers a cheat of this size changes: at least one."""
    return max(1, ceil(round(cheat * questions, 9)))


def catch(questions: int, changed: int, drawn: int) -> float:
    """Returns the probability that at least one of `changed` answers is among `drawn` of `questions`."""
    from scipy.stats import hypergeom  # noqa: PLC0415  takes a second to import

    return float(hypergeom.sf(0, questions, min(changed, questions), min(drawn, questions)))


def sample_size(questions: int, design: Design) -> int:
    """Returns the smallest number of questions to draw that catches with the design's power; 0 without replays."""
    if not questions or not design.power:
        return 0
    changed = deviating(questions, design.cheat)
    low, high = 1, questions
    while low < high:
        middle = (low + high) // 2
        if catch(questions, changed, middle) >= design.power:
            high = middle
        else:
            low = middle + 1
    return low


def cost(questions: int, pictures: int, design: Design, *, batch: int = 1, mixed: bool = False) -> Cost:
    """Returns what replays cost at most, for a play of `questions` questions on `pictures` pictures."""
    drawn = sample_size(questions, design)
    waves = min(drawn, -(-questions // pictures)) if mixed and pictures else 1
    return Cost(
        questions=questions,
        drawn=drawn,
        companions=0 if mixed else min(drawn, pictures),
        again=min(AGAIN, drawn),
        twin=min(-(-TWIN // batch) * batch, questions) if drawn else 0,
        alone=min(ALONE, drawn) if batch > 1 else 0,
        sandboxes=(waves + 1 + (batch > 1)) if drawn else 0,
        power=catch(questions, deviating(questions, design.cheat), drawn) if drawn else 0.0,
    )
