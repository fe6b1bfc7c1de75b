"""Evidence that a rule was broken, fit to show its authors."""

from dataclasses import dataclass
from enum import StrEnum


class FindingKind(StrEnum):
    """What the evidence shows."""

    CHANCE = "chance"
    """The same picture, asked twice in one sandbox, got two decisions (rule A10)."""
    STATE = "state"
    """A picture got another decision in a fresh sandbox and another order, and kept it there (rules A9, A10)."""


class OnFinding(StrEnum):
    """What a finding leads to: out of the ranking, every attacked picture counted as fooled, or a mark only."""

    DISQUALIFY = "disqualify"
    ZERO = "zero"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One picture with different decisions: the first asked in play, then as replayed, then repeated there.

    A label is shown as itself, an abstention as -1, a fault as -2. `attack` is None for the clean picture.
    """

    attack: str | None
    picture: int
    played: int
    replayed: int
    repeated: int | None


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, against whom, and by what."""

    id: str
    submission: str
    kind: FindingKind
    rules: tuple[str, ...]
    summary: str
    compared: int
    disagreements: tuple[Disagreement, ...]
