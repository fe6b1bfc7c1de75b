"""The attack-defence tournament (rules A1 to A17): every attack meets every defence.

A season has two rounds. In the initial round every submission meets the organizers' baselines: an attack's delta
against their FGSM-trained classifier (A11) and a defence's weighted loss under FGSM, BIM and PGD (A12) decide who goes
on. In the final round the score is the mean decrease in accuracy over the finalists of the other side (A13). A round by
itself has all four leaderboards, and every ranked submission counts as a finalist.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from orchestrator.domain.contest_events import FormatEvent, SubmissionReceived
from orchestrator.domain.contest_format import (
    Eligibility,
    Format,
    Observations,
    PlayRules,
    RoundOfSeason,
    RuleInWords,
    SeasonRound,
    SourceRelease,
    base_eligibility,
)
from orchestrator.domain.findings import OnFinding
from orchestrator.domain.leaderboard import Column, Leaderboard, Row, ScoreTerms, Value, rank_rows
from orchestrator.domain.organizer_attacks import OrganizerAttack
from orchestrator.domain.outcomes import OnMissing, OnViolation
from orchestrator.domain.plan import Cell
from orchestrator.domain.season import Entry, Person, Season
from orchestrator.domain.submissions import Roster, Side, Submission
from orchestrator.domain.tasks import Norm, Task
from orchestrator.domain.text import unequal_numbers
from orchestrator.errors import Problem
from orchestrator.formats.tournament import entry_rules
from orchestrator.formats.tournament.events import FINAL, INITIAL, FinalistsPromoted
from orchestrator.formats.tournament.gradient_attacks import GRADIENT_ATTACKS
from orchestrator.formats.tournament.rules import TournamentRules
from orchestrator.formats.tournament.rules_in_words import rules_in_words

OVER_BUDGET = Column("violations", "Over budget", "pictures", more_is_better=False)
NO_ANSWER = Column("violations", "No answer", "pictures", more_is_better=False)
NOT_PLAYED_YET = "not every picture that its score is made of is played yet"
_TEAM_STANDS_BY = "stands for this team (A4)"


class Tournament(Format[TournamentRules]):
    """Round-robin between attacks and defences."""

    name = "tournament"
    rules_type = TournamentRules
    rules_of_play = ("on_missing", "on_violation", "initial.crafted_on")
    event_types = (FinalistsPromoted,)
    promotes_from = INITIAL
    report = "orchestrator.formats.tournament.report.blocks:TournamentBlocks"

    def play_rules(self) -> PlayRules:
        """Returns the settings of the rules A8, A12 and A14."""
        return PlayRules(self.rules.on_missing, self.rules.on_violation, needs_gradients=self._crafts_on_defences)

    def rules_in_words(self) -> list[RuleInWords]:
        """Returns the rules of the season."""
        return rules_in_words(self.rules)

    @property
    def _crafts_on_defences(self) -> bool:
        return self.rules.initial.crafted_on == "self"

    def organizer_attacks(self) -> tuple[OrganizerAttack, ...]:
        """Returns the three attacks of rule A12 if they are crafted on each defence itself, else none."""
        return GRADIENT_ATTACKS if self._crafts_on_defences else ()

    def task_problems(self, task: Task) -> list[Problem]:
        """Returns a problem if the three attacks of rule A12 are the format's own and cannot use the task's budget."""
        if not self._crafts_on_defences or (task.budget and task.budget.norm is Norm.LINF and task.budget.epsilon >= 1):
            return []
        what = "has a budget that FGSM, BIM and PGD cannot use (rules.initial.crafted_on: self)"
        return [Problem(task.name, what, "take the norm `linf` and an epsilon of at least 1")]

    def rounds(self, season: Season, task: str) -> Sequence[SeasonRound]:
        """Returns the initial round and the final round, which is blocked until finalists are promoted."""
        blocked = "" if finalists(season, task) else f"nobody was promoted on {task} yet"
        return SeasonRound(INITIAL), SeasonRound(FINAL, blocked, reveals_labels=True)

    def schedule(self, roster: Roster, where: RoundOfSeason | None = None) -> tuple[Cell, ...]:
        """Returns, for every defence that plays, its cell of clean pictures and one for each attack it meets (A3).

        In the initial round every submission meets the organizers' baselines of the other side. In the final round, and
        in a round by itself, every attack meets every defence; in a final round among finalists only, these and the
        baselines.
        """
        promoted = where and finalists(where.season, where.task)
        few = where is not None and where.name == FINAL and self.rules.final == "finalists"

        def takes_part(submission: Submission) -> bool:
            return not few or submission.baseline or bool(promoted and submission.id in promoted.submissions)

        def meet(attack: Submission, defence: Submission) -> bool:
            return where is None or where.name != INITIAL or attack.baseline or defence.baseline

        attacks = [attack for attack in roster.by_side(Side.ATTACK) if takes_part(attack)]
        cells: list[Cell] = []
        for defence in filter(takes_part, roster.by_side(Side.DEFENCE)):
            cells += [Cell(defence.id), *(Cell(defence.id, a.id) for a in attacks if meet(a, defence))]
        return tuple(cells)

    def roster_problems(self, roster: Roster, round_name: str = "") -> list[Problem]:
        """Returns every reason why this roster cannot play: an empty side, or no baseline of a name in the rules."""
        problems = [
            Problem("submissions", f"no {side} takes part", "add one under `baselines:` or `submissions:`")
            for side in Side
            if not roster.by_side(side)
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
        return problems + (self._missing_baselines(roster) if round_name == INITIAL else [])

    def _missing_baselines(self, roster: Roster) -> list[Problem]:
        """Returns a problem for missing baselines of the initial round: without them nobody could be promoted."""
        requirements = (
            ("classifier", {self.rules.initial.classifier}, Side.DEFENCE),
            ("weights", set(self.rules.initial.weights), Side.ATTACK),
        )
        return [
            Problem(
                f"rules.initial.{key}",
                f"the initial round is measured with {', '.join(sorted(missing))}, not among the baselines",
                "add it under `baselines:`, or name another",
            )
            for key, names, side in requirements
            if (missing := names - _baseline_ids(roster, side))
        ]

    def submissions_per_team(self) -> int:
        """Returns the limit of rule A4."""
        return self.rules.submissions_per_team

    def entry_problems(self, season: Season, team: str, task: str, side: Side) -> list[Problem]:
        """Returns every reason why a team may not submit on a task and side now (rules A1 and A4)."""
        unknown_team = super().entry_problems(season, team, task, side)
        return unknown_team or entry_rules.entry_problems(season, self.rules, team, task, side)

    def membership_problems(self, season: Season, team: str, people: Iterable[Person]) -> list[Problem]:
        """Returns every reason why these people may not be the members of this team (rule A1)."""
        return entry_rules.membership_problems(season, self.rules, team, people)

    def submission_warnings(self, season: Season, event: SubmissionReceived) -> list[str]:
        """Returns warnings: a missing licence or source (A6), and that finalists are promoted already (A11, A12)."""
        warnings = self.release_warnings(event)
        if finalists(season, event.task) is not None:
            warnings.append(
                f"the finalists of {event.task} were named before this came: it is ranked in the final round only if "
                f"the organizers play the initial round with it and promote again"
            )
        return warnings

    def reopening_obstacle(self, season: Season) -> str:
        """Returns that finalists were promoted from the submissions that there were (A11, A12), "" if none were."""
        promoted = [event.task for event, _ in season.format_events if isinstance(event, FinalistsPromoted)]
        return f"the finalists of {promoted[0]} are named" if promoted else ""

    def release_problems(self, submission: SourceRelease) -> list[Problem]:
        """Returns what is missing of the licence and source, without which a finalist is not ranked (A6)."""
        return entry_rules.release_problems(submission.licence, submission.source)

    def eligibility(self, entry: Entry, where: RoundOfSeason) -> Eligibility:
        """Returns the eligibility of a submission; after a promotion it depends on that too (A6, A11, A12)."""
        eligibility_now = replace(
            base_eligibility(entry), no_prize=entry_rules.prize_ineligibility(where.season, entry)
        )
        promoted = None if where.name == INITIAL else finalists(where.season, where.task)
        if eligibility_now.has_left or promoted is None:
            return replace(eligibility_now, no_prize="") if eligibility_now.has_left else eligibility_now
        if entry.id not in promoted.submissions:
            reason = promoted.superseded.get(entry.id, "not among the finalists (A11, A12)")
            return replace(eligibility_now, unranked_reason=reason, counts_in_means=False)
        missing = self.release_problems(entry)
        return replace(eligibility_now, unranked_reason="; ".join(f"{p.place} {p.what}" for p in missing))

    def leaderboards(self, observed: Observations) -> tuple[Leaderboard, ...]:
        """Returns the leaderboards of the round; for a round by itself all of those whose baselines play."""
        boards = []
        if observed.round != INITIAL:
            boards += [self._final_attacks(observed), self._final_defences(observed)]
        if observed.round != FINAL:
            if self.rules.initial.classifier in _baseline_ids(observed.roster, Side.DEFENCE):
                boards.append(self._initial_attacks(observed))
            if self.rules.initial.weights.keys() <= _baseline_ids(observed.roster, Side.ATTACK):
                boards.append(self._initial_defences(observed))
        return tuple(boards)

    def round_outcome(self, observed: Observations, *, actor: str, task: str, reason: str = "") -> FinalistsPromoted:
        """Returns the first `finalists` of both initial boards, and all that share the last rank (A11, A12, A16)."""
        attacks, defences = self._initial_attacks(observed), self._initial_defences(observed)
        rows = {row.submission: row.reason for board in (attacks, defences) for row in board.rows}
        return FinalistsPromoted(
            actor=actor,
            task=task,
            attacks=list(self._top_ranked(attacks)),
            defences=list(self._top_ranked(defences)),
            superseded={name: row_reason for name, row_reason in rows.items() if row_reason.endswith(_TEAM_STANDS_BY)},
            reason=reason,
        )

    def outcome_warnings(self, season: Season, outcome: FormatEvent) -> list[str]:
        """Returns a warning for a side without finalists, and for finalists that will not be ranked yet (A6)."""
        if not isinstance(outcome, FinalistsPromoted):
            return []
        return entry_rules.promotion_warnings(season, outcome)

    def _top_ranked(self, board: Leaderboard) -> tuple[str, ...]:
        return tuple(row.submission for row in board.rows if row.rank and row.rank <= self.rules.finalists)

    def _final_attacks(self, observed: Observations) -> Leaderboard:
        others = self._completely_played(observed)
        unscored = self._unscored_reason(observed, Side.DEFENCE)
        if unscored == NOT_PLAYED_YET and not others:
            unscored = "of no defence every picture was played, so there is nothing to score against (A7)"

        def score(attack: Submission) -> ScoreTerms | None:
            return self._mean_terms_of(observed, attack, _creditable_pairs(observed, attack, others))

        return self._leaderboard(
            "attacks",
            "Attacks",
            f"mean decrease in accuracy over the {_opponent_group(observed)} defences",
            ("A13", "A16"),
            self._rows(observed, Side.ATTACK, score, lambda _: unscored),
        )

    def _final_defences(self, observed: Observations) -> Leaderboard:
        others = self._counting_submissions(observed, Side.ATTACK)
        unscored = self._unscored_reason(observed, Side.ATTACK)

        def score(defence: Submission) -> ScoreTerms | None:
            return self._mean_terms_of(observed, defence, [(defence.id, attack) for attack in others])

        return self._leaderboard(
            "defences",
            "Defences",
            f"mean decrease in accuracy over the {_opponent_group(observed)} attacks",
            ("A13", "A16", "A17"),
            self._rows(observed, Side.DEFENCE, score, lambda _: unscored),
        )

    def _initial_attacks(self, observed: Observations) -> Leaderboard:
        classifier = self.rules.initial.classifier

        def score(attack: Submission) -> ScoreTerms | None:
            pairs = _creditable_pairs(observed, attack, [classifier])
            return _mean_terms([self._delta_terms(observed, *pair) for pair in pairs])

        def unscored(attack: Submission) -> str:
            if _creditable_pairs(observed, attack, [classifier]):
                return NOT_PLAYED_YET
            return f"not every picture of {classifier} was played: its faults took too long (A7)"

        return self._leaderboard(
            "attacks_initial",
            "Attacks, initial round",
            f"decrease in accuracy of the organizers' {classifier}",
            ("A4", "A11", "A16"),
            best_of_each_team(observed.roster, self._rows(observed, Side.ATTACK, score, unscored), more_is_better=True),
        )

    def _initial_defences(self, observed: Observations) -> Leaderboard:
        weights = self.rules.initial.weights

        def score(defence: Submission) -> ScoreTerms | None:
            return self._weighted_terms(observed, defence.id, weights)

        rows = self._rows(observed, Side.DEFENCE, score, lambda _: NOT_PLAYED_YET)
        return self._leaderboard(
            "defences_initial",
            "Defences, initial round",
            "weighted decrease: "
            + " + ".join(f"{weight} x {attack}" for attack, weight in weights.items())
            + (", crafted on each defence itself" if self._crafts_on_defences else ""),
            ("A4", "A12", "A16", "A17"),
            best_of_each_team(observed.roster, rows, more_is_better=False),
        )

    def _leaderboard(self, name: str, title: str, measure: str, rules: tuple[str, ...], rows: list[Row]) -> Leaderboard:
        of_attacks = name.startswith("attacks")
        return Leaderboard(
            name=name,
            title=title,
            measure=measure,
            unit="points",
            more_is_better=of_attacks,
            rules=rules,
            rows=rank_rows(rows, more_is_better=of_attacks),
            columns=(OVER_BUDGET if of_attacks else NO_ANSWER,),
        )

    def _rows(
        self,
        observed: Observations,
        side: Side,
        score: Callable[[Submission], ScoreTerms | None],
        unscored_reason: Callable[[Submission], str],
    ) -> list[Row]:
        rows = []
        for submission in observed.roster.by_side(side):
            terms, count = score(submission), self._tie_break_count(observed, submission)
            reason = self._unranked_reason(observed, submission)
            if terms is None and not reason:
                reason = unscored_reason(submission)
            rows.append(
                Row(
                    submission=submission.id,
                    score=None if terms is None else _score_of_terms(observed, terms),
                    reason=reason,
                    values={"violations": Value(count)},
                    tie_break=count,
                    receipt_number=observed.eligibility(submission.id).receipt_number,
                    submitted=submission.submitted,
                    score_terms=terms or {},
                    no_prize=observed.eligibility(submission.id).no_prize,
                )
            )
        return rows

    def _unscored_reason(self, observed: Observations, opponents: Side) -> str:
        """Returns why a submission has no mean over its opponents: none of them counts, or a cell is missing."""
        if not self._counting_submissions(observed, opponents):
            return f"no {opponents} is ranked, so there is nothing to score against"
        return NOT_PLAYED_YET

    def _unranked_reason(self, observed: Observations, submission: Submission) -> str:
        """Returns why a submission is not ranked, "" if it is."""
        return self._exclusion_reason(observed, submission) or observed.eligibility(submission.id).unranked_reason

    def _exclusion_reason(self, observed: Observations, submission: Submission) -> str:
        """Returns why a submission is neither ranked nor counted in means, "" if it is counted."""
        standing = observed.eligibility(submission.id)
        if submission.baseline:
            return "baseline"
        if not standing.counts_in_means:
            return standing.unranked_reason
        if reason := self.disqualification(observed, submission):
            return reason
        if submission.side is Side.ATTACK:
            return self._undelivered_reason(observed, submission)
        return _incomplete_reason(observed, submission) or self._floor_reason(observed, submission)

    def disqualification(self, observed: Observations, submission: Submission) -> str:
        """Returns why a finding, or a candidate beyond the budget, disqualifies a submission (A9, A10, A14)."""
        count = observed.violations.get(submission.id, 0)
        if count and self.rules.on_violation is OnViolation.DISQUALIFY:
            return super().disqualification(observed, submission) or (
                f"disqualified: {count} candidates beyond the budget (A14)"
            )
        return super().disqualification(observed, submission)

    def _undelivered_reason(self, observed: Observations, attack: Submission) -> str:
        """Returns why an attack is excluded that delivered no picture that counts, "" if it delivered some.

        If all its pictures count as held, its delta is a defence's clean accuracy less 100 points. In a mean, that
        would reward defences for misclassified clean pictures.
        """
        if self.rules.on_missing is OnMissing.HELD and attack.id in observed.undelivered_attacks:
            return "delivered no picture that counts (A8)"
        return ""

    def _floor_reason(self, observed: Observations, defence: Submission) -> str:
        floor = self.rules.clean_floor
        if floor is None:
            return ""
        accuracy, base = observed.accuracy(defence.id), observed.accuracy(floor.baseline)
        if accuracy is None or base is None:
            return ""
        least = base - Fraction(floor.points) / 100
        if accuracy >= least:
            return ""
        found, wanted = unequal_numbers(float(accuracy), float(least), kind="%")
        return f"clean accuracy {found} is below the floor of {wanted} (A17)"

    def _counting_submissions(self, observed: Observations, side: Side) -> list[str]:
        return [s.id for s in observed.roster.by_side(side) if not self._exclusion_reason(observed, s)]

    def _completely_played(self, observed: Observations) -> list[str]:
        """Returns the defences that attacks are scored against: those for which every picture was played.

        Pictures that were not played are never credited to an attack (A7), and all attacks are scored against the same
        defences.
        """
        cells = [None, *self._counting_submissions(observed, Side.ATTACK)]
        return [
            d for d in self._counting_submissions(observed, Side.DEFENCE) if all(observed.complete(d, a) for a in cells)
        ]

    def _tie_break_count(self, observed: Observations, submission: Submission) -> int:
        """Returns the number that breaks ties (A16): an attack's violations, or a defence's faults (A7)."""
        if submission.side is Side.ATTACK:
            return observed.violations.get(submission.id, 0)
        return observed.faults.get(submission.id, 0)

    def _delta_terms(self, observed: Observations, defence: str, attack: str) -> dict[Cell, int] | None:
        """Returns how often each cell counts in delta (A11). Under `zero`, a defence with a finding holds nothing."""
        clean, attacked = Cell(defence), Cell(defence, attack)
        if clean not in observed.tallies or attacked not in observed.tallies:
            return None
        found = self.rules.on_finding is OnFinding.ZERO and any(f.submission == defence for f in observed.findings)
        return {clean: 1} if found else {clean: 1, attacked: -1}

    def _loss_terms(self, observed: Observations, defence: str, attack: str) -> Mapping[Cell, int] | None:
        """Returns the terms of delta for a defence's own score: none is below 0 because nothing was delivered (A8).

        An attack that queries makes other pictures for each defence, and may deliver none against one of them. If all
        of them count as held, delta is the defence's clean accuracy less 100 points, which would reward it for
        misclassified clean pictures.
        """
        terms, tally = self._delta_terms(observed, defence, attack), observed.tally(defence, attack)
        if terms is None or tally is None or self.rules.on_missing is not OnMissing.HELD:
            return terms
        clean = Cell(defence)
        gains = len(terms) > 1 and tally.accuracy > observed.tallies[clean].accuracy
        return {clean: 0} if gains and tally.forfeits == tally.total else terms

    def _mean_terms_of(
        self, observed: Observations, submission: Submission, pairs: list[tuple[str, str]]
    ) -> ScoreTerms | None:
        """Returns a submission's mean over these pairs; if it left the contest, over those that were played."""
        if observed.eligibility(submission.id).has_left:
            pairs = [pair for pair in pairs if Cell(*pair) in observed.tallies]
        terms = self._loss_terms if submission.side is Side.DEFENCE else self._delta_terms
        return _mean_terms([terms(observed, *pair) for pair in pairs])

    def _weighted_terms(
        self, observed: Observations, defence: str, weights: Mapping[str, Decimal]
    ) -> ScoreTerms | None:
        total: dict[Cell, Fraction] = {}
        for attack, weight in weights.items():
            terms = self._loss_terms(observed, defence, attack)
            if terms is None:
                return None
            for cell, count in terms.items():
                total[cell] = total.get(cell, Fraction(0)) + Fraction(weight) * count
        return total or None


def finalists(season: Season, task: str) -> FinalistsPromoted | None:
    """Returns the latest promotion to the final round of a task, None if there is none."""
    promotions = (event for event, _ in reversed(season.format_events) if isinstance(event, FinalistsPromoted))
    return next((event for event in promotions if event.task == task), None)


def best_of_each_team(roster: Roster, rows: list[Row], *, more_is_better: bool) -> list[Row]:
    """Returns the rows; all but the best of each team have the reason that another one stands for the team (A4)."""
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


def _incomplete_reason(observed: Observations, defence: Submission) -> str:
    """Returns why a defence is not ranked if some clean pictures were not played, "" if all were (A7)."""
    clean = observed.tally(defence.id)
    if clean is None or clean.complete:
        return ""
    return f"{clean.not_played} of {clean.total} clean pictures were not played: its faults took too long (A7)"


def _creditable_pairs(observed: Observations, attack: Submission, defences: Iterable[str]) -> list[tuple[str, str]]:
    """Returns the pairs of these defences and an attack, without those of which a picture was not played (A7)."""
    return [(d, attack.id) for d in defences if observed.complete(d) and observed.complete(d, attack.id)]


def _mean_terms(deltas: Sequence[Mapping[Cell, int] | None]) -> ScoreTerms | None:
    """Returns the terms of the mean of these deltas; None if there are none, or one of them is not known yet."""
    counts: dict[Cell, int] = {}
    for delta in deltas:
        if delta is None:
            return None
        for cell, count in delta.items():
            counts[cell] = counts.get(cell, 0) + count
    # Fractions are slow, and there are few different counts.
    shares = {count: Fraction(count, len(deltas)) for count in set(counts.values())}
    return {cell: shares[count] for cell, count in counts.items()} or None


def _score_of_terms(observed: Observations, terms: ScoreTerms) -> Fraction:
    """Returns the score of these terms, in points. It adds up the held pictures of a weight before it multiplies.

    It distinguishes weights by identity: hashing a fraction is slow, and many cells share a weight.
    """
    weights = {id(weight): weight for weight in terms.values()}
    credited: Counter[tuple[int, int]] = Counter()
    for cell, weight in terms.items():
        tally = observed.tallies[cell]
        credited[id(weight), tally.total] += tally.credited
    shares = (weights[name] * Fraction(count, total) for (name, total), count in credited.items())
    return 100 * sum(shares, Fraction(0))


def _opponent_group(observed: Observations) -> str:
    return "finalist" if observed.round == FINAL else "ranked"


def _baseline_ids(roster: Roster, side: Side) -> set[str]:
    """Returns the ids of the organizers' baselines on a side. A team's submission of the same name does not count."""
    return {submission.id for submission in roster.by_side(side) if submission.baseline}
