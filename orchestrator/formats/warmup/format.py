"""The warm-up (rules B1 to B8): classifiers with two classes against fixed attacks of the organizers.

A spatial grid, SPSA and the boundary attack attack each defence. It may abstain on the fifth of the pictures that it is
least sure of; its accuracy on the others counts, and it is ranked by its worst column.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from orchestrator.domain.contest_format import (
    Format,
    Observations,
    PlayRules,
    RoundOfSeason,
    RuleInWords,
    SeasonRound,
)
from orchestrator.domain.leaderboard import Column, Leaderboard, Row, Value, rank_rows
from orchestrator.domain.outcomes import NOT_ATTACKED, NOT_PLAYED, Answers, Scores
from orchestrator.domain.plan import Cell
from orchestrator.domain.samples import Labels
from orchestrator.domain.season import Season
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Task
from orchestrator.domain.text import unequal_numbers
from orchestrator.errors import Problem
from orchestrator.formats.warmup.coverage import CoveredAccuracy, accuracy_at_coverage
from orchestrator.formats.warmup.organizer_attacks import GeneratorAttack, organizer_attacks
from orchestrator.formats.warmup.rules import WarmupRules
from orchestrator.formats.warmup.rules_in_words import rules_in_words
from orchestrator.measures import uncertainty

CLEAN = "clean"
TITLES = {CLEAN: "Clean", "spatial": "Spatial", "spsa": "SPSA", "boundary": "Boundary", "corruptions": "Corruptions"}
THROUGHPUT = Column("throughput", "Throughput", "pictures per second", measure="while it was queried")
GIVEN_UP = Column("given_up", "Given up", "pictures", measure="on which the boundary attack could not start")
DISTINCT = Column("distinct_scores", "Distinct scores", "values", measure="of the larger score, on clean pictures")
FEW_SCORES = 10
"""A defence withholds its scores if it has at most this many distinct scores on clean pictures, and at most half as
many as pictures: they tell an attack hardly more than its labels."""
_PERCENT = 100
_DIGITS = 6


class Warmup(Format[WarmupRules]):
    """The warm-up."""

    name = "warmup"
    rules_type = WarmupRules
    rules_of_play = ("transform", "spatial", "spsa", "boundary", "corruptions")
    programs = (Side.DEFENCE,)

    def play_rules(self) -> PlayRules:
        """Returns that defences' scores are kept and decide: accuracy at 80 % coverage is computed from them (B3)."""
        return PlayRules(keep_scores=True, decides_by_scores=True)

    def rules_in_words(self) -> list[RuleInWords]:
        """Returns the rules of the warm-up."""
        return rules_in_words(self.rules)

    def organizer_attacks(self) -> tuple[GeneratorAttack, ...]:
        """Returns the attacks that the rules describe (B2)."""
        return organizer_attacks(self.rules)

    def rounds(self, season: Season, task: str) -> Sequence[SeasonRound]:
        """Returns the only round, which is played again when new defences are received."""
        del season, task
        return (SeasonRound("board", reveals_labels=True),)

    def submissions_per_team(self) -> int:
        """Returns the limit of the rules."""
        return self.rules.submissions_per_team

    def entry_problems(self, season: Season, team: str, task: str, side: Side) -> list[Problem]:
        """Returns a problem if the team is unknown, or has submitted as many defences as it may."""
        problems = super().entry_problems(season, team, task, side)
        allowed = self.rules.submissions_per_team
        if season.count_attempts(team, task, side) >= allowed:
            what = f"{team} has used its submissions on {task}, {allowed} of {allowed} (A4)"
            problems.append(Problem("submission", what, "the organizers may raise `rules.submissions_per_team`"))
        return problems

    def roster_problems(self, roster: Roster, round_name: str = "") -> list[Problem]:
        """Returns a problem if there is no defence, or an attack that is not the format's own."""
        del round_name
        problems = [
            Problem("submissions", f"{attack.id} is an attack, and the warm-up has its own", "leave it out")
            for attack in roster.by_side(Side.ATTACK)
            if attack.image
        ]
        if not self.organizer_attacks():
            problems.append(Problem("rules", "every attack is left out", "leave one of them in"))
        if not roster.by_side(Side.DEFENCE):
            remedy = "add one under `baselines:` or `submissions:`"
            problems.append(Problem("submissions", "no defence takes part", remedy))
        return problems

    def task_problems(self, task: Task) -> list[Problem]:
        """Returns a problem if the task does not have two classes (B1)."""
        if len(task.classes) == 2:  # noqa: PLR2004
            return []
        remedy = "choose two with `only: [6, 7]` under `dataset:`, or take another dataset"
        return [Problem(task.name, f"has {len(task.classes)} classes, and the warm-up needs two (B1)", remedy)]

    def schedule(self, roster: Roster, where: RoundOfSeason | None = None) -> tuple[Cell, ...]:
        """Returns, for every defence, its cell of clean pictures and one for every attack."""
        del where
        attacks = (None, *(attack.name for attack in self.organizer_attacks()))
        return tuple(Cell(defence.id, attack) for defence in roster.by_side(Side.DEFENCE) for attack in attacks)

    def leaderboards(self, observed: Observations) -> tuple[Leaderboard, ...]:
        """Returns the leaderboard (B5)."""
        attacks = [attack.name for attack in self.organizer_attacks()]
        covered = "at 80 % coverage"
        columns = [
            Column(name, TITLES[name], "percent", more_is_better=True, measure=f"accuracy {covered}")
            for name in (CLEAN, *attacks)
        ]
        rows = [self._row(observed, defence, attacks) for defence in observed.roster.by_side(Side.DEFENCE)]
        extra = [THROUGHPUT, DISTINCT, *([GIVEN_UP] if "boundary" in attacks else [])]
        board = Leaderboard(
            name="defences",
            title="Defences",
            measure=f"accuracy {covered} under the attack that it does worst against",
            unit="percent",
            more_is_better=True,
            rules=("B3", "B4", "B5", "A16"),
            rows=rank_rows(rows, more_is_better=True),
            columns=(*columns, *extra),
        )
        return (board,)

    def notes(self, observed: Observations) -> list[str]:
        """Returns notes for readers of the leaderboard: withheld scores (B8), and reduced sizes of attacks (B2)."""
        notes = [
            f"{defence.id} withholds its scores, with {found} on all clean pictures. Attacks that follow scores learn "
            "little from it, and its accuracy under them says little."
            for defence in observed.roster.by_side(Side.DEFENCE)
            if (found := _withheld_scores(observed, defence))
        ]
        if observed.labels is not None:
            count = len(observed.labels)
            notes += [
                f"{attack.name} attacked {count} of {attack.wanted_pictures} pictures: the task has no more."
                for attack in self.organizer_attacks()
                if attack.wanted_pictures > count
            ]
        if reduced := self.rules.reduced_sizes():
            notes.append(f"The attacks are smaller than by default (B2): {', '.join(reduced)}.")
        return notes

    def _row(self, observed: Observations, defence: Submission, attacks: Sequence[str]) -> Row:
        scores, answers = observed.scores_of(defence.id), observed.answers_of(defence.id)
        results: dict[str, CoveredAccuracy | None] = {}
        for name in (CLEAN, *attacks):
            cell = Cell(defence.id, None if name == CLEAN else name)
            results[name] = None
            if observed.labels is not None and cell in scores and cell in answers:
                results[name] = self._accuracy(scores[cell], answers[cell], observed.labels)
        values = {name: Value(None) if found is None else _value(found) for name, found in results.items()}
        speed = _throughput(observed, defence.id, attacks)
        values |= {THROUGHPUT.name: Value(None if speed is None else _rounded(speed))}
        values |= {DISTINCT.name: Value(_distinct_scores(scores.get(Cell(defence.id))))}
        if "boundary" in attacks:
            asked = observed.queries_of(Cell(defence.id, "boundary"))
            values |= {GIVEN_UP.name: Value(None if asked is None else int(asked.given_up.sum()))}
        played = [(found.accuracy, found) for name, found in results.items() if name != CLEAN and found is not None]
        complete = len(played) == len(attacks)
        worst = min(played, key=lambda pair: pair[0])[1] if played and complete else None
        return Row(
            submission=defence.id,
            score=None if worst is None else worst.accuracy * _PERCENT,
            interval=None if worst is None else _interval(worst),
            reason=self._unranked_reason(observed, defence, speed) or ("" if complete else "not played yet"),
            remark=self._remark(observed, defence),
            values=values,
            receipt_number=observed.eligibility(defence.id).receipt_number,
            submitted=defence.submitted,
        )

    def _accuracy(self, scores: Scores, answers: Answers, labels: Labels) -> CoveredAccuracy:
        """Returns the accuracy of a defence in one cell, from its scores [n, 2] and answers [n]."""
        attacked = answers != NOT_ATTACKED
        # If faults took longer than they may, nothing of the cell counts (A7): no score is valid.
        valid = np.full_like(scores, np.nan) if (answers == NOT_PLAYED).any() else scores
        reading = self.rules.coverage
        return accuracy_at_coverage(valid[attacked].astype(np.float64), labels[attacked], reading=reading)

    def _remark(self, observed: Observations, defence: Submission) -> str:
        """Returns the remark about a defence that does not affect its rank: findings and withheld scores (B8)."""
        found = [f"finding {finding.id}" for finding in observed.findings if finding.submission == defence.id]
        if withheld := _withheld_scores(observed, defence):
            found.append(f"scores withheld: {withheld}")
        return "; ".join(found)

    def _unranked_reason(self, observed: Observations, defence: Submission, speed: float | None) -> str:
        if defence.baseline:
            return "baseline"
        reason = observed.eligibility(defence.id).unranked_reason or self.disqualification(observed, defence)
        floor = self.rules.throughput
        if not reason and floor is not None and speed is not None and speed < floor:
            return f"too slow: {unequal_numbers(speed, floor)[0]} of {floor:g} pictures per second (B4)"
        return reason


def _value(found: CoveredAccuracy) -> Value:
    return Value(found.accuracy * _PERCENT, interval=_interval(found))


def _rounded(speed: float) -> Fraction:
    """Returns pictures per second, rounded to a tenth, or from 100 on to a whole number."""
    return Fraction(round(speed)) if speed >= 100 else Fraction(round(10 * speed), 10)  # noqa: PLR2004


def _withheld_scores(observed: Observations, defence: Submission) -> str:
    """Returns how few distinct scores a defence has on clean pictures, such as `2 distinct values`.

    Empty if it has more than `FEW_SCORES` allows, and if not every clean picture was played (A7), since its scores are
    then not known.
    """
    cell = Cell(defence.id)
    scores, answers = observed.scores_of(defence.id).get(cell), observed.answers_of(defence.id).get(cell)
    distinct = _distinct_scores(scores)
    if scores is None or distinct is None or answers is None or (answers == NOT_PLAYED).any():
        return ""
    if distinct > min(FEW_SCORES, len(scores) // 2):
        return ""
    return "1 distinct value" if distinct == 1 else f"{distinct} distinct values"


def _interval(found: CoveredAccuracy) -> tuple[float, float]:
    """Returns Wilson's 95 % interval of an accuracy among the covered pictures, in percent."""
    limits = uncertainty.accuracy_intervals(found.held, found.total)
    return round(_PERCENT * float(limits.low), _DIGITS), round(_PERCENT * float(limits.high), _DIGITS)


def _throughput(observed: Observations, defence: str, attacks: Sequence[str]) -> float | None:
    """Returns how many pictures per second a defence answered while it was queried, None if it was not queried."""
    asked = [observed.queries_of(Cell(defence, attack)) for attack in attacks]
    known = [record for record in asked if record is not None]
    seconds = sum(record.seconds for record in known)
    answered = sum(int(record.queries.sum()) - record.unplayed for record in known)
    return answered / seconds if seconds else None


def _distinct_scores(scores: Scores | None) -> int | None:
    """Returns how many distinct values the larger of a defence's two scores has, None if it was not played."""
    if scores is None:
        return None
    larger = scores.max(axis=1)
    return len(np.unique(larger[~np.isnan(larger)]))
