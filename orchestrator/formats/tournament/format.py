"""The attack-defence tournament (rules A1 to A17): every attack meets every defence.

A season has two rounds. In the initial one everybody meets the organizers' baselines: an attack's delta against their
FGSM-trained classifier (A11) and a defence's weighted loss under FGSM, BIM and PGD (A12) decide who goes on. In the
final one the score is the mean decrease in accuracy over the finalists of the other side (A13). A round by itself has
all four boards, and everybody who is ranked counts as a finalist.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from orchestrator.domain.entry_rules import EntryLimits
from orchestrator.domain.findings import OnFinding
from orchestrator.domain.leaderboard import Leaderboard, Row, ScoreTerms, rank_rows
from orchestrator.domain.outcomes import OnMissing, OnViolation
from orchestrator.domain.plan import Cell
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.errors import Problem
from orchestrator.formats.base import Format, FormatRules, Promotion, RoundTallies

_TEAM_STANDS_BY = "stands for this team (A4)"


class CleanFloor(BaseModel):
    """A defence below the clean accuracy of `baseline` minus `points` is shown, unranked (rule A17)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    baseline: str = "undefended"
    points: Annotated[Decimal, Field(ge=0, le=100)] = Decimal(10)


class InitialRules(BaseModel):
    """What the initial round measures with: baselines by their ids (rules A11 and A12)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    classifier: str = "fgsm_trained"
    crafted_on: Literal["surrogate"] = "surrogate"
    """What a defence's three attacks take their gradients from: the organizers' model (A12)."""
    weights: dict[str, Annotated[Decimal, Field(gt=0, le=1)]] = Field(
        default={"fgsm": Decimal("0.2"), "bim": Decimal("0.4"), "pgd": Decimal("0.4")}, min_length=1
    )

    @field_validator("crafted_on", mode="before")
    @classmethod
    def _is_built(cls, value: object) -> object:
        if value == "self":
            raise ValueError("only surrogate; a defence's own gradient comes with the access models (X6)")
        return value


class TournamentRules(FormatRules):
    """The tournament's rules, with the documents' defaults."""

    clean_floor: CleanFloor | None = CleanFloor()
    initial: InitialRules = InitialRules()
    finalists: Annotated[int, Field(ge=1)] = 5
    """So many of each side go on to the final round; a tie at the last place takes all who share it (A11, A12, A16)."""
    final: Literal["everybody", "finalists"] = "everybody"
    """Who meets whom in the final round: everybody each other (A3), or finalists only. Means run over finalists."""
    tasks_per_person: Annotated[int, Field(ge=1)] = 3
    """Rule A1."""
    submissions_per_team: Annotated[int, Field(ge=1)] = 3
    """Per task and side (rule A4)."""


class Tournament(Format[TournamentRules]):
    """Round-robin between attacks and defences."""

    name = "tournament"
    rules_type = TournamentRules
    phases = ("initial", "final")

    def cells(self, roster: Roster, phase: str = "", finalists: AbstractSet[str] = frozenset()) -> tuple[Cell, ...]:
        """Returns clean pictures and every meeting of the phase, for every defence that has one (rule A3).

        In the initial round everybody meets the organizers' baselines of the other side. In the final round, and in a
        round by itself, everybody meets everybody, or finalists and baselines only where the rules say so.
        """
        few = phase == "final" and self.rules.final == "finalists"

        def in_it(submission: Submission) -> bool:
            return not few or submission.baseline or submission.id in finalists

        def meet(attack: Submission, defence: Submission) -> bool:
            return phase != "initial" or attack.baseline or defence.baseline

        attacks = [attack for attack in roster.side(Side.ATTACK) if in_it(attack)]
        cells: list[Cell] = []
        for defence in filter(in_it, roster.side(Side.DEFENCE)):
            cells += [Cell(defence.id), *(Cell(defence.id, a.id) for a in attacks if meet(a, defence))]
        return tuple(cells)

    def objections(self, roster: Roster, phase: str = "") -> list[Problem]:
        """Returns what keeps this roster from playing: an empty side, or a baseline that something is measured on."""
        problems = [
            Problem("submissions", f"no {side} takes part", "add one under `baselines:` or `submissions:`")
            for side in Side
            if not roster.side(side)
        ]
        floor = self.rules.clean_floor
        if floor and floor.baseline not in _baseline_ids(roster, Side.DEFENCE):
            problems.append(
                Problem(
                    "rules.clean_floor",
                    f"the floor is measured on the baseline {floor.baseline!r}, which does not take part",
                    "add that baseline, name another, or write `clean_floor: null`",
                )
            )
        return problems + (self._unmeasured(roster) if phase == "initial" else [])

    def _unmeasured(self, roster: Roster) -> list[Problem]:
        """Returns which baselines of the initial round are missing: without them nobody could be promoted."""
        wanted = (
            ("classifier", {self.rules.initial.classifier}, Side.DEFENCE),
            ("weights", set(self.rules.initial.weights), Side.ATTACK),
        )
        return [
            Problem(
                f"rules.initial.{key}",
                f"the initial round is measured with {', '.join(sorted(missing))}, not among the baselines",
                "add it under `baselines:`, or name another",
            )
            for key, names, side in wanted
            if (missing := names - _baseline_ids(roster, side))
        ]

    def allowance(self) -> EntryLimits:
        """Returns the limits of rules A1 and A4."""
        return EntryLimits(tasks=self.rules.tasks_per_person, submissions=self.rules.submissions_per_team)

    def boards(self, records: RoundTallies) -> tuple[Leaderboard, ...]:
        """Returns the boards of the phase; of a round by itself all whose baselines play."""
        boards = []
        if records.phase != "initial":
            boards += [self._final_attacks(records), self._final_defences(records)]
        if records.phase != "final":
            if self.rules.initial.classifier in _baseline_ids(records.roster, Side.DEFENCE):
                boards.append(self._initial_attacks(records))
            if self.rules.initial.weights.keys() <= _baseline_ids(records.roster, Side.ATTACK):
                boards.append(self._initial_defences(records))
        return tuple(boards)

    def promoted(self, records: RoundTallies) -> Promotion:
        """Returns the first `finalists` of both initial boards, with all who share the last place (A11, A12, A16)."""
        attacks, defences = self._initial_attacks(records), self._initial_defences(records)
        rows = {row.submission: row.reason for board in (attacks, defences) for row in board.rows}
        others = {s: reason for s, reason in rows.items() if reason.endswith(_TEAM_STANDS_BY)}
        return Promotion(self._first(attacks), self._first(defences), others)

    def _first(self, board: Leaderboard) -> tuple[str, ...]:
        return tuple(row.submission for row in board.rows if row.rank and row.rank <= self.rules.finalists)

    def _final_attacks(self, records: RoundTallies) -> Leaderboard:
        others = self._played_wholly(records)
        return self._board(
            "attacks",
            "Attacks",
            f"mean decrease in accuracy over the {_opponent_group(records)} defences",
            ("A13", "A16"),
            self._rows(records, Side.ATTACK, lambda a: self._mean_of(records, a, [(d, a.id) for d in others])),
        )

    def _final_defences(self, records: RoundTallies) -> Leaderboard:
        others = self._finalists(records, Side.ATTACK)
        return self._board(
            "defences",
            "Defences",
            f"mean decrease in accuracy over the {_opponent_group(records)} attacks",
            ("A13", "A16", "A17"),
            self._rows(records, Side.DEFENCE, lambda d: self._mean_of(records, d, [(d.id, a) for a in others])),
        )

    def _initial_attacks(self, records: RoundTallies) -> Leaderboard:
        classifier = self.rules.initial.classifier
        rows = self._rows(records, Side.ATTACK, lambda a: self._mean(records, [(classifier, a.id)]))
        return self._board(
            "attacks_initial",
            "Attacks, initial round",
            f"decrease in accuracy of the organizers' {classifier}",
            ("A4", "A11", "A16"),
            best_of_each_team(records.roster, rows, more_is_better=True),
        )

    def _initial_defences(self, records: RoundTallies) -> Leaderboard:
        weights = self.rules.initial.weights
        rows = self._rows(records, Side.DEFENCE, lambda d: self._weighted(records, d.id, weights))
        return self._board(
            "defences_initial",
            "Defences, initial round",
            "weighted decrease: " + " + ".join(f"{weight} x {attack}" for attack, weight in weights.items()),
            ("A4", "A12", "A16", "A17"),
            best_of_each_team(records.roster, rows, more_is_better=False),
        )

    def _board(self, name: str, title: str, measure: str, rules: tuple[str, ...], rows: list[Row]) -> Leaderboard:
        more_is_better = name.startswith("attacks")
        return Leaderboard(
            name, title, measure, "points", more_is_better, rules, rank_rows(rows, more_is_better=more_is_better)
        )

    def _rows(self, records: RoundTallies, side: Side, score: Callable[[Submission], ScoreTerms | None]) -> list[Row]:
        rows = []
        for submission in records.roster.side(side):
            terms = score(submission)
            reason = self._unranked(records, submission) or (
                "" if terms is not None else "nothing to score against yet"
            )
            rows.append(
                Row(
                    submission=submission.id,
                    score=None if terms is None else _score_of_terms(records, terms),
                    reason=reason,
                    violations=self._violations(records, submission),
                    received=records.standing(submission.id).received,
                    submitted=submission.submitted,
                    terms=terms or {},
                    no_prize=records.standing(submission.id).no_prize,
                )
            )
        return rows

    def _unranked(self, records: RoundTallies, submission: Submission) -> str:
        """Returns why a submission is not ranked, "" when it is."""
        return self._out(records, submission) or records.standing(submission.id).unranked

    def _out(self, records: RoundTallies, submission: Submission) -> str:
        """Returns why a submission is not ranked and no mean runs over it."""
        standing = records.standing(submission.id)
        if submission.baseline:
            return "baseline"
        if not standing.counts:
            return standing.unranked
        if self.rules.on_finding is OnFinding.DISQUALIFY:
            for finding in records.findings:
                if finding.submission == submission.id:
                    return f"disqualified: finding {finding.id} ({', '.join(finding.rules)})"
        if submission.side is Side.ATTACK:
            count = records.violations.get(submission.id, 0)
            if count and self.rules.on_violation is OnViolation.DISQUALIFY:
                return f"disqualified: {count} candidates beyond the budget (A14)"
            return self._undelivered(records, submission)
        return _incomplete_reason(records, submission) or self._below_floor(records, submission)

    def _undelivered(self, records: RoundTallies, attack: Submission) -> str:
        """Returns why an attack is out that delivered nothing: where all of it counts as held, it is no measure.

        Its delta is a defence's clean accuracy less 100 points, so in a mean it would reward misread clean pictures.
        """
        if self.rules.on_missing is OnMissing.HELD and attack.id in records.undelivered:
            return "delivered no picture that counts (A8)"
        return ""

    def _below_floor(self, records: RoundTallies, defence: Submission) -> str:
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

    def _finalists(self, records: RoundTallies, side: Side) -> list[str]:
        return [s.id for s in records.roster.side(side) if not self._out(records, s)]

    def _played_wholly(self, records: RoundTallies) -> list[str]:
        """Returns the defences that the attacks are measured on: those of which every picture was played.

        What was not played is never credited to an attack (A7), and all attacks are measured on the same defences.
        """
        cells = [None, *self._finalists(records, Side.ATTACK)]
        return [d for d in self._finalists(records, Side.DEFENCE) if all(records.complete(d, a) for a in cells)]

    def _violations(self, records: RoundTallies, submission: Submission) -> int:
        """Returns what A16 breaks ties by: candidates beyond the budget, or pictures not classified (A7)."""
        if submission.side is Side.ATTACK:
            return records.violations.get(submission.id, 0)
        return records.faults.get(submission.id, 0)

    def _delta(self, records: RoundTallies, defence: str, attack: str) -> dict[Cell, int] | None:
        """Returns how often each cell counts in delta (A11); under `zero` a finding means to hold against nothing."""
        clean, attacked = Cell(defence), Cell(defence, attack)
        if clean not in records.tallies or attacked not in records.tallies:
            return None
        found = self.rules.on_finding is OnFinding.ZERO and any(f.submission == defence for f in records.findings)
        return {clean: 1} if found else {clean: 1, attacked: -1}

    def _mean_of(
        self, records: RoundTallies, submission: Submission, pairs: list[tuple[str, str]]
    ) -> ScoreTerms | None:
        """Returns a submission's mean over these pairs; of one that left the contest over those that were played."""
        if records.standing(submission.id).left:
            pairs = [pair for pair in pairs if Cell(*pair) in records.tallies]
        return self._mean(records, pairs)

    def _mean(self, records: RoundTallies, pairs: list[tuple[str, str]]) -> ScoreTerms | None:
        counts: dict[Cell, int] = {}
        for defence, attack in pairs:
            delta = self._delta(records, defence, attack)
            if delta is None:
                return None
            for cell, count in delta.items():
                counts[cell] = counts.get(cell, 0) + count
        # Fractions are slow, and there are few different counts.
        shares = {count: Fraction(count, len(pairs)) for count in set(counts.values())}
        return {cell: shares[count] for cell, count in counts.items()} or None

    def _weighted(self, records: RoundTallies, defence: str, weights: Mapping[str, Decimal]) -> ScoreTerms | None:
        return _weighted_sum([(Fraction(w), self._delta(records, defence, attack)) for attack, w in weights.items()])


def best_of_each_team(roster: Roster, rows: list[Row], *, more_is_better: bool) -> list[Row]:
    """Returns the rows with all but the best of each team marked as not standing (rule A4)."""
    teams = {submission.id: submission.team for submission in roster if not submission.baseline}
    best: dict[str, str] = {}
    for row in rank_rows(rows, more_is_better=more_is_better):
        if row.rank is not None and row.submission in teams:
            best.setdefault(teams[row.submission], row.submission)
    standing = set(best.values())
    return [
        row
        if row.reason or row.submission not in teams or row.submission in standing
        else replace(row, reason=f"{best[teams[row.submission]]} {_TEAM_STANDS_BY}")
        for row in rows
    ]


def _incomplete_reason(records: RoundTallies, defence: Submission) -> str:
    """Returns why a defence cannot be ranked whose clean pictures were not all played, "" where they were (A7)."""
    clean = records.tally(defence.id)
    if clean is None or clean.complete:
        return ""
    return f"{clean.not_played} of {clean.total} clean pictures were not played: its faults took too long (A7)"


def _weighted_sum(parts: Sequence[tuple[Fraction, Mapping[Cell, int] | None]]) -> ScoreTerms | None:
    total: dict[Cell, Fraction] = {}
    for weight, terms in parts:
        if terms is None:
            return None
        for cell, share in terms.items():
            total[cell] = total.get(cell, Fraction(0)) + weight * share
    return total or None


def _score_of_terms(records: RoundTallies, terms: ScoreTerms) -> Fraction:
    """Returns what terms come to, in points: what held is added up before it is weighed."""
    held: Counter[tuple[Fraction, int]] = Counter()
    for cell, weight in terms.items():
        tally = records.tallies[cell]
        held[weight, tally.total] += tally.credited
    return 100 * sum((weight * Fraction(count, total) for (weight, total), count in held.items()), Fraction(0))


def _opponent_group(records: RoundTallies) -> str:
    return "finalist" if records.phase == "final" else "ranked"


def _baseline_ids(roster: Roster, side: Side) -> set[str]:
    """Returns the organizers' submissions: a team's entry of the same name measures nothing."""
    return {submission.id for submission in roster.side(side) if submission.baseline}
