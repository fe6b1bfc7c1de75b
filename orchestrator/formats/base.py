"""What a contest format owes.

A new format is one file in this folder whose last line is `plugin = TheClass`. It is rules only: it sees tallies, never
bytes, and it neither reads a clock nor draws at random.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from orchestrator.domain.entry_rules import EntryLimits
from orchestrator.domain.findings import Finding, OnFinding
from orchestrator.domain.leaderboard import Leaderboard
from orchestrator.domain.outcomes import OnMissing, OnViolation, Tally
from orchestrator.domain.plan import Cell
from orchestrator.domain.submissions import Roster
from orchestrator.errors import Problem


class FormatRules(BaseModel):
    """The rules that every format shares, as the contest file's `rules:` writes them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on_missing: OnMissing = OnMissing.HELD
    """Rule A8."""
    on_violation: OnViolation = OnViolation.FORFEIT
    """Rule A14."""
    on_finding: OnFinding = OnFinding.DISQUALIFY
    """Rules A9 and A10."""


R = TypeVar("R", bound=FormatRules)


@dataclass(frozen=True, slots=True)
class Promotion:
    """Who goes on, best first, and which submissions do not stand because another of their team does (rule A4)."""

    attacks: tuple[str, ...]
    defences: tuple[str, ...]
    not_standing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Eligibility:
    """What a season says of a submission beyond what was played.

    `unranked` is why it is shown only. `counts`: whether means over its side include it all the same. `no_prize` is
    why it gets no prize (rule A5). `disqualified`: whether the organizers took it out of the ranking. `left`:
    whether it was withdrawn or disqualified, and so meets nobody who came later. `received`:
    its place among all submissions in the order of the contest's ledger, None where the ledger does not have it.
    """

    unranked: str = ""
    counts: bool = True
    no_prize: str = ""
    disqualified: bool = False
    left: bool = False
    received: int | None = None


@dataclass(frozen=True)
class RoundTallies:
    """Everything that was decided in a round so far. Cells that are not played yet are absent."""

    roster: Roster
    tallies: Mapping[Cell, Tally]
    findings: tuple[Finding, ...] = ()
    violations: Mapping[str, int] = field(default_factory=dict)
    """Candidates beyond the budget, per attack (rule A14)."""
    phase: str = ""
    """The round of a season, one of the format's `phases`; empty for a round that is a contest by itself."""
    standings: Mapping[str, Eligibility] = field(default_factory=dict)
    """What the season says of a submission; an absent one stands."""

    def standing(self, submission: str) -> Eligibility:
        """Returns what the season says of a submission."""
        return self.standings.get(submission, Eligibility())

    @cached_property
    def faults(self) -> Mapping[str, int]:
        """The pictures that each defence failed to classify (rule A7), over all cells."""
        found: Counter[str] = Counter()
        for cell, tally in self.tallies.items():
            found[cell.defence] += tally.faults
        return found

    @cached_property
    def undelivered(self) -> frozenset[str]:
        """The attacks of which no picture counts as delivered (rules A8 and A14)."""
        attacked = ((cell.attack, tally) for cell, tally in self.tallies.items())
        return frozenset(attack for attack, tally in attacked if attack and tally.forfeits == tally.total)

    def tally(self, defence: str, attack: str | None = None) -> Tally | None:
        """Returns one cell's counts, None when it is not played yet."""
        return self.tallies.get(Cell(defence, attack))

    def complete(self, defence: str, attack: str | None = None) -> bool:
        """Returns whether no picture of a cell was left out because faults of the defence took too long (A7)."""
        found = self.tally(defence, attack)
        return found is None or found.complete

    def accuracy(self, defence: str, attack: str | None = None) -> Fraction | None:
        """Returns one cell's accuracy, None when it is not played yet."""
        found = self.tally(defence, attack)
        return None if found is None else found.accuracy


class Format(ABC, Generic[R]):
    """One contest format, made with its rules."""

    name: ClassVar[str]
    rules_type: ClassVar[type[FormatRules]]

    def __init__(self, rules: R) -> None:
        self.rules = rules

    phases: ClassVar[tuple[str, ...]] = ()
    """The rounds of a season in order; who plays in one is promoted from the one before."""

    @abstractmethod
    def cells(self, roster: Roster, phase: str = "", finalists: AbstractSet[str] = frozenset()) -> tuple[Cell, ...]:
        """Returns every cell that has to be played, clean cells included.

        Args:
            roster: who takes part.
            phase: the round of a season; empty for a round by itself.
            finalists: who was promoted to it; empty in the first.
        """

    @abstractmethod
    def boards(self, records: RoundTallies) -> tuple[Leaderboard, ...]:
        """Returns the boards of what is decided so far."""

    def promoted(self, records: RoundTallies) -> Promotion:
        """Returns who goes on to the next phase. Default: nobody, because there is none."""
        del records
        return Promotion((), ())

    def allowance(self) -> EntryLimits | None:
        """Returns how much people and teams may enter, None without a limit."""
        return None

    def objections(self, roster: Roster, phase: str = "") -> list[Problem]:
        """Returns why this roster cannot play this format, or this round of a season. Default: nothing."""
        del roster, phase
        return []
