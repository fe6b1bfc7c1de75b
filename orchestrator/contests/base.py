"""What a contest format owes.

A new format is one file in this folder whose last line is `plugin = TheClass`. It is rules only: it sees tallies, never
bytes, and it neither reads a clock nor draws at random.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from orchestrator.domain.findings import Finding, OnFinding
from orchestrator.domain.plan import Cell
from orchestrator.domain.rulings import OnMissing, OnViolation, Tally
from orchestrator.domain.standings import Board
from orchestrator.domain.submissions import Roster
from orchestrator.errors import Problem


class Rules(BaseModel):
    """The rules that every format shares, as the contest file's `rules:` writes them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on_missing: OnMissing = OnMissing.HELD
    """Rule A8."""
    on_violation: OnViolation = OnViolation.FORFEIT
    """Rule A14."""
    on_finding: OnFinding = OnFinding.DISQUALIFY
    """Rules A9 and A10."""


R = TypeVar("R", bound=Rules)


@dataclass(frozen=True)
class Records:
    """Everything that was decided in a round so far. Cells that are not played yet are absent."""

    roster: Roster
    tallies: Mapping[Cell, Tally]
    findings: tuple[Finding, ...] = ()
    violations: Mapping[str, int] = field(default_factory=dict)
    """Candidates beyond the budget, per attack (rule A14)."""

    def tally(self, defence: str, attack: str | None = None) -> Tally | None:
        """Returns one cell's counts, None when it is not played yet."""
        return self.tallies.get(Cell(defence, attack))

    def accuracy(self, defence: str, attack: str | None = None) -> Fraction | None:
        """Returns one cell's accuracy, None when it is not played yet."""
        found = self.tally(defence, attack)
        return None if found is None else found.accuracy


class Format(ABC, Generic[R]):
    """One contest format, made with its rules."""

    name: ClassVar[str]
    rules_type: ClassVar[type[Rules]]

    def __init__(self, rules: R) -> None:
        self.rules = rules

    @abstractmethod
    def cells(self, roster: Roster) -> tuple[Cell, ...]:
        """Returns every cell that has to be played, clean cells included."""

    @abstractmethod
    def boards(self, records: Records) -> tuple[Board, ...]:
        """Returns the boards of what is decided so far."""

    def objections(self, roster: Roster) -> list[Problem]:
        """Returns why this roster cannot play this format. Default: nothing."""
        del roster
        return []
