"""The attack-defence tournament (rules A1 to A17): every attack meets every defence.

One round-robin round gives four boards. Two are the final round's (A13): the mean decrease in accuracy over the ranked
submissions of the other side. Two are the initial round's, where the baselines they need take part: an attack's delta
against the organizers' FGSM-trained classifier (A11), and a defence's weighted loss under FGSM, BIM and PGD (A12).
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.contests.base import Format, Records, Rules
from orchestrator.domain.findings import OnFinding
from orchestrator.domain.plan import Cell
from orchestrator.domain.rulings import OnViolation, points
from orchestrator.domain.standings import Board, Row, rank
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.errors import Problem


class CleanFloor(BaseModel):
    """A defence below the clean accuracy of `baseline` minus `points` is shown, unranked (rule A17)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    baseline: str = "undefended"
    points: Annotated[Decimal, Field(ge=0, le=100)] = Decimal(10)


class Initial(BaseModel):
    """What the initial round measures with: baselines by their ids (rules A11 and A12)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    classifier: str = "fgsm_trained"
    weights: dict[str, Annotated[Decimal, Field(gt=0, le=1)]] = Field(
        default={"fgsm": Decimal("0.2"), "bim": Decimal("0.4"), "pgd": Decimal("0.4")}, min_length=1
    )


class TournamentRules(Rules):
    """The tournament's rules, with the documents' defaults."""

    clean_floor: CleanFloor | None = CleanFloor()
    initial: Initial = Initial()


class Tournament(Format[TournamentRules]):
    """Round-robin between attacks and defences."""

    name = "tournament"
    rules_type = TournamentRules

    def cells(self, roster: Roster) -> tuple[Cell, ...]:
        """Returns clean pictures and every attack, baselines included, for every defence (rule A3)."""
        attacks = (None, *(a.id for a in roster.side(Side.ATTACK)))
        return tuple(Cell(defence.id, attack) for defence in roster.side(Side.DEFENCE) for attack in attacks)

    def objections(self, roster: Roster) -> list[Problem]:
        """Returns what keeps this roster from playing: an empty side, or a clean floor without its baseline."""
        problems = [
            Problem("submissions", f"no {side} takes part", "add one under `baselines:` or `submissions:`")
            for side in Side
            if not roster.side(side)
        ]
        floor = self.rules.clean_floor
        if floor and floor.baseline not in _baselines(roster, Side.DEFENCE):
            problems.append(
                Problem(
                    "rules.clean_floor",
                    f"the floor is measured on the baseline {floor.baseline!r}, which does not take part",
                    "add that baseline, name another, or write `clean_floor: null`",
                )
            )
        return problems

    def boards(self, records: Records) -> tuple[Board, ...]:
        """Returns the final round's boards, and the initial round's where their baselines play."""
        boards = [self._final_attacks(records), self._final_defences(records)]
        if self.rules.initial.classifier in _baselines(records.roster, Side.DEFENCE):
            boards.append(self._initial_attacks(records))
        if self.rules.initial.weights.keys() <= _baselines(records.roster, Side.ATTACK):
            boards.append(self._initial_defences(records))
        return tuple(boards)

    def _final_attacks(self, records: Records) -> Board:
        finalists = self._finalists(records, Side.DEFENCE)
        return self._board(
            "attacks",
            "Attacks",
            "mean decrease in accuracy over the ranked defences",
            ("A13", "A16"),
            self._rows(records, Side.ATTACK, lambda a: self._mean(records, [(d, a.id) for d in finalists])),
        )

    def _final_defences(self, records: Records) -> Board:
        finalists = self._finalists(records, Side.ATTACK)
        return self._board(
            "defences",
            "Defences",
            "mean decrease in accuracy over the ranked attacks",
            ("A13", "A16", "A17"),
            self._rows(records, Side.DEFENCE, lambda d: self._mean(records, [(d.id, a) for a in finalists])),
        )

    def _initial_attacks(self, records: Records) -> Board:
        classifier = self.rules.initial.classifier
        return self._board(
            "attacks_initial",
            "Attacks, initial round",
            f"decrease in accuracy of the organizers' {classifier}",
            ("A11", "A16"),
            self._rows(records, Side.ATTACK, lambda a: self._delta(records, classifier, a.id)),
        )

    def _initial_defences(self, records: Records) -> Board:
        weights = self.rules.initial.weights
        return self._board(
            "defences_initial",
            "Defences, initial round",
            "weighted decrease: " + " + ".join(f"{weight} x {attack}" for attack, weight in weights.items()),
            ("A12", "A16", "A17"),
            self._rows(records, Side.DEFENCE, lambda d: self._weighted(records, d.id, weights)),
        )

    def _board(self, name: str, title: str, measure: str, rules: tuple[str, ...], rows: list[Row]) -> Board:
        more_is_better = name.startswith("attacks")
        return Board(name, title, measure, "points", more_is_better, rules, rank(rows, more_is_better=more_is_better))

    def _rows(self, records: Records, side: Side, score: Callable[[Submission], Fraction | None]) -> list[Row]:
        rows = []
        for submission in records.roster.side(side):
            value = score(submission)
            reason = self._unranked(records, submission) or (
                "" if value is not None else "nothing to score against yet"
            )
            rows.append(
                Row(
                    submission=submission.id,
                    score=value,
                    reason=reason,
                    violations=self._violations(records, submission),
                    submitted=submission.submitted,
                )
            )
        return rows

    def _unranked(self, records: Records, submission: Submission) -> str:
        """Returns why a submission is not ranked, "" when it is."""
        if submission.baseline:
            return "baseline"
        if self.rules.on_finding is OnFinding.DISQUALIFY:
            for finding in records.findings:
                if finding.submission == submission.id:
                    return f"disqualified: finding {finding.id} ({', '.join(finding.rules)})"
        if submission.side is Side.ATTACK:
            count = records.violations.get(submission.id, 0)
            if count and self.rules.on_violation is OnViolation.DISQUALIFY:
                return f"disqualified: {count} candidates beyond the budget (A14)"
            return ""
        return self._below_floor(records, submission)

    def _below_floor(self, records: Records, defence: Submission) -> str:
        floor = self.rules.clean_floor
        if floor is None:
            return ""
        own, base = records.accuracy(defence.id), records.accuracy(floor.baseline)
        if own is None or base is None:
            return ""
        least = base - Fraction(floor.points) / 100
        if own >= least:
            return ""
        return f"clean accuracy {float(own):.1%} is below the floor of {float(least):.1%} (A17)"

    def _finalists(self, records: Records, side: Side) -> list[str]:
        return [s.id for s in records.roster.side(side) if not self._unranked(records, s)]

    def _violations(self, records: Records, submission: Submission) -> int:
        """Returns what A16 breaks ties by: candidates beyond the budget, or pictures not classified (A7)."""
        if submission.side is Side.ATTACK:
            return records.violations.get(submission.id, 0)
        return sum(tally.faults for cell, tally in records.tallies.items() if cell.defence == submission.id)

    def _delta(self, records: Records, defence: str, attack: str) -> Fraction | None:
        clean, attacked = records.accuracy(defence), records.accuracy(defence, attack)
        if clean is None or attacked is None:
            return None
        found = self.rules.on_finding is OnFinding.ZERO and any(f.submission == defence for f in records.findings)
        return points(clean, Fraction(0) if found else attacked)

    def _mean(self, records: Records, pairs: list[tuple[str, str]]) -> Fraction | None:
        deltas = [self._delta(records, defence, attack) for defence, attack in pairs]
        known = [delta for delta in deltas if delta is not None]
        if not known or len(known) != len(deltas):
            return None
        return sum(known, Fraction(0)) / len(known)

    def _weighted(self, records: Records, defence: str, weights: Mapping[str, Decimal]) -> Fraction | None:
        total = Fraction(0)
        for attack, weight in weights.items():
            delta = self._delta(records, defence, attack)
            if delta is None:
                return None
            total += Fraction(weight) * delta
        return total


def _baselines(roster: Roster, side: Side) -> set[str]:
    """Returns the organizers' submissions: a team's entry of the same name measures nothing."""
    return {submission.id for submission in roster.side(side) if submission.baseline}


plugin = Tournament
