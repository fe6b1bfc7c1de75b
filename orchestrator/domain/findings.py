"""Evidence that a rule was broken, fit to show its authors."""

from dataclasses import dataclass
from enum import StrEnum


class FindingKind(StrEnum):
    """What an answer was seen to depend on, other than the picture."""

    CHANCE = "chance"
    """The same picture gets different decisions in one sandbox, and in no order that repeats (rule A10)."""
    STATE = "state"
    """What was asked before changes the decision: order, counters, recent pictures (rules A9, A10)."""
    MEMORY = "memory"
    """Another version of the same picture, asked before, changes the decision (rules A9, A10)."""
    COMPANY = "company"
    """The other pictures of the same question change the decision, or the place among them (rule A9)."""
    ENVIRONMENT = "environment"
    """Sandboxes disagree, each constant in itself: its start, its surroundings, or the day it is asked (rule A10)."""
    CLOCK = "clock"
    """Time changes the decision: since the start, or of the day (rule A10)."""
    REFUSED = "refused"
    """It answered in play and ended, broke the protocol or stalled when it was asked the same again (rule A10)."""
    QUERIES = "queries"
    """Queries of an attack get other decisions than the same questions in a fresh sandbox (rules A9, A10, X6)."""
    INCONSISTENT = "inconsistent"
    """Comparisons disagree more often than noise allows; what the decision depends on could not be told (rule A10)."""


RULES_BY_KIND = {
    FindingKind.CHANCE: ("A10",),
    FindingKind.STATE: ("A9", "A10"),
    FindingKind.MEMORY: ("A9", "A10"),
    FindingKind.COMPANY: ("A9",),
    FindingKind.ENVIRONMENT: ("A10",),
    FindingKind.CLOCK: ("A10",),
    FindingKind.REFUSED: ("A10",),
    FindingKind.QUERIES: ("A9", "A10"),
    FindingKind.INCONSISTENT: ("A10",),
}
"""The rules that each kind breaks."""


class OnFinding(StrEnum):
    """What a finding leads to: out of the ranking, every attacked picture counted as fooled, or a mark only."""

    DISQUALIFY = "disqualify"
    ZERO = "zero"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One picture with two decisions: the first, mostly the one in play, and the one given when asked again.

    A label is shown as itself, an abstention as -1, a fault as -2. `attack` is None for the clean picture. `margin` is
    what the defence itself claimed when asked again: the two highest scores' difference over the largest absolute
    score; None where it gave no scores.
    """

    attack: str | None
    picture: int
    answer_in_play: int
    answer_in_replay: int
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class SequenceQuestion:
    """One question of the sequence that shows a finding, what it was answered, and seconds of silence before it."""

    attack: str | None
    picture: int
    answer: int
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, against whom, and by what.

    `sequence` is the smallest one found that shows it in a fresh sandbox, its last question the one that matters, cut
    to its ends where it is long (`length` is its full length); `batch` pictures went into one question. `answer_alone`
    is what that last picture is answered when nothing else is asked. Without such a sequence the rates accuse:
    `p_value` is how probable they are for an honest defence. `job` and `steps` are the replays on record that prove it:
    `sparring replay` plays them again.
    """

    id: str
    submission: str
    kind: FindingKind
    rules: tuple[str, ...]
    summary: str
    compared: int
    disagreements: tuple[Disagreement, ...]
    image: str
    job: str
    steps: tuple[int, ...]
    sequence: tuple[SequenceQuestion, ...] = ()
    length: int = 0
    batch: int = 1
    answer_alone: int | None = None
    p_value: float | None = None
