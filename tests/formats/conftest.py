"""Rounds as a contest format sees them: who plays, and how many pictures of each cell held."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from orchestrator import plugins
from orchestrator.domain.contest_format import Eligibility, Format, Observations
from orchestrator.domain.findings import Finding, FindingKind
from orchestrator.domain.leaderboard import Leaderboard, Row
from orchestrator.domain.outcomes import Tally
from orchestrator.domain.plan import Cell
from orchestrator.domain.submissions import Roster, Side, Submission

TOTAL = 100


def entry(name: str, side: Side, *, baseline: bool = False, submitted: str = "", team: str = "") -> Submission:
    """Returns a submission with an id. Its team is its own unless one is given."""
    return Submission(
        id=name,
        name=name,
        team=team or name,
        side=side,
        digest=name,
        image=name,
        baseline=baseline,
        submitted=submitted,
    )


@dataclass
class Table:
    """A played round as a table: for each defence, by attack, how many of 100 pictures held; None is clean pictures."""

    defences: Mapping[str, Mapping[str | None, int]]
    baselines: frozenset[str] = frozenset()
    submitted: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    violations: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[tuple[str, str | None], int] = field(default_factory=dict)
    not_played: Mapping[tuple[str, str | None], int] = field(default_factory=dict)
    forfeits: Mapping[str | tuple[str, str], int] = field(default_factory=dict)
    """By attack, or by defence and attack."""
    total: int = TOTAL
    teams: Mapping[str, str] = field(default_factory=dict)
    standings: Mapping[str, Eligibility] = field(default_factory=dict)
    phase: str = ""

    def roster(self) -> Roster:
        """Returns attacks and defences in the order in which the table names them."""
        attacks = dict.fromkeys(a for row in self.defences.values() for a in row if a is not None)
        sides = [(a, Side.ATTACK) for a in attacks] + [(d, Side.DEFENCE) for d in self.defences]
        return Roster(
            tuple(
                entry(
                    name,
                    side,
                    baseline=name in self.baselines,
                    submitted=self.submitted.get(name, ""),
                    team=self.teams.get(name, ""),
                )
                for name, side in sides
            )
        )

    def records(self) -> Observations:
        """Returns the arguments of a format's methods. A cell that the table lacks is not played yet."""
        tallies = {
            Cell(defence, attack): Tally(
                total=self.total,
                held=held,
                fooled=self.total - held - self.not_played.get((defence, attack), 0),
                abstained=0,
                forfeits=self.forfeits.get((defence, attack or ""), self.forfeits.get(attack or "", 0)),
                faults=self.faults.get((defence, attack), 0),
                not_played=self.not_played.get((defence, attack), 0),
            )
            for defence, row in self.defences.items()
            for attack, held in row.items()
        }
        findings = tuple(
            Finding(f"f-{defence}", defence, FindingKind.STATE, ("A9", "A10"), "changed", 10, (), "", "replay", (0,))
            for defence in self.findings
        )
        return Observations(self.roster(), tallies, findings, self.violations, self.phase, self.standings)


@pytest.fixture(scope="session")
def table() -> Callable[..., Table]:
    """Makes a table of a played round."""
    return Table


@pytest.fixture(scope="session")
def submission() -> Callable[..., Submission]:
    """Makes a submission."""
    return entry


@pytest.fixture(scope="session")
def tournament() -> Callable[..., Format]:
    """Returns a function that makes the tournament with these rules, without a clean floor unless they set one."""

    def make(**rules: object) -> Format:
        kind = plugins.load_plugin("formats", "tournament")
        return kind(kind.rules_type.model_validate({"clean_floor": None, **rules}))

    return make


@pytest.fixture(scope="session")
def played(tournament) -> Callable[..., dict[str, dict[str, Row]]]:
    """Returns the rows of every board by the board's name and the submission, under these rules."""

    def rows(records: Observations | Table, **rules: object) -> dict[str, dict[str, Row]]:
        given = records.records() if isinstance(records, Table) else records
        boards: tuple[Leaderboard, ...] = tournament(**rules).leaderboards(given)
        return {board.name: {row.submission: row for row in board.rows} for board in boards}

    return rows
