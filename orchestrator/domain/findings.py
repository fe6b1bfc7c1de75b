"""Evidence that a rule was broken, fit to show its authors."""

from dataclasses import dataclass
from enum import StrEnum


class FindingKind(StrEnum):
    """What an answer depended on, other than the picture."""

    CHANCE = "chance"
    """The same picture gets different decisions in one sandbox, in no repeatable order (rule A10)."""
    STATE = "state"
    """Earlier questions change the decision: order, counters, recent pictures (rules A9, A10)."""
    MEMORY = "memory"
    """An earlier question about another version of the same picture changes the decision (rules A9, A10)."""
    COMPANY = "company"
    """The other pictures of the same question, or the position among them, change the decision (rule A9)."""
    ENVIRONMENT = "environment"
    """Each sandbox is consistent, but sandboxes disagree: by start, environment or day (rule A10)."""
    CLOCK = "clock"
    """Time changes the decision: since the start, or of the day (rule A10)."""
    REFUSED = "refused"
    """It answered in play, but ended, broke the protocol or stalled at the same question later (rule A10)."""
    QUERIES = "queries"
    """The decisions on an attack's queries differ from those on the same questions in a fresh sandbox (A9, A10, X6)."""
    INCONSISTENT = "inconsistent"
    """Comparisons disagree more often than noise allows; no test found what the decision depends on (rule A10)."""


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
    """One picture with two decisions: the first, usually the one in play, and the one in the replay.

    A decision is a label, -1 for an abstention or -2 for a fault. `attack` is None for the clean picture. `margin` is
    computed from the defence's scores in the replay: the difference of the two highest scores divided by the largest
    absolute score; None if it gave no scores.
    """

    attack: str | None
    picture: int
    answer_in_play: int
    answer_in_replay: int
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class SequenceQuestion:
    """One question of the sequence that shows a finding, its answer, and the silence before it in seconds."""

    attack: str | None
    picture: int
    answer: int
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding against a submission, with its evidence.

    `sequence` is the shortest sequence of questions found that shows it in a fresh sandbox; its last question is the
    one whose answer changes. The middle of a long sequence is left out; `length` is its full length. `batch` pictures
    went into one question. `answer_alone` is the answer to the last picture if nothing else is asked. Without such a
    sequence, the evidence is the rates of disagreement: `p_value` is their probability for an honest defence. `job` and
    `steps` are the recorded replays that prove the finding; `sparring replay` plays them again.
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
