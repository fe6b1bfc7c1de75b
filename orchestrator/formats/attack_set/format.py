"""The attack-set contest (rules C1 to C9): submitted pictures, scored by a hidden model and by people."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.contest_format import (
    Eligibility,
    Format,
    Observations,
    PlayRules,
    RoundOfSeason,
    RuleInWords,
    SeasonRound,
    base_eligibility,
)
from orchestrator.domain.human_grading import NOT_GRADED, HumanGrading
from orchestrator.domain.leaderboard import Column, Leaderboard, Row, Value, rank_rows
from orchestrator.domain.outcomes import Answers, Scores
from orchestrator.domain.plan import Cell
from orchestrator.domain.samples import Pixels
from orchestrator.domain.season import Entry, Season
from orchestrator.domain.submissions import PictureFormat, Roster, Side, Submission
from orchestrator.domain.tasks import Task
from orchestrator.domain.text import counted_noun
from orchestrator.errors import Problem
from orchestrator.formats.attack_set.contest_grading import AttackSetGrading, graded
from orchestrator.formats.attack_set.events import GradeGiven, GradesReceived, GradingPlanned, ScoresReleased
from orchestrator.formats.attack_set.grading.planning import sample_problems
from orchestrator.formats.attack_set.grading.quality import HUMAN_WEIGHT, MEASURED_WEIGHT, total_score
from orchestrator.formats.attack_set.grading.round_grades import GradingResult, SubmissionGrades
from orchestrator.formats.attack_set.human_scores import grading_notes, human_columns, human_remarks, human_values
from orchestrator.formats.attack_set.objective_scores import (
    DECIMALS,
    PERCENT,
    PictureScores,
    ScoreIntervals,
    bootstrap_intervals,
    percent_limits,
    picture_scores,
    rounded,
)
from orchestrator.formats.attack_set.rules import (
    AttackSetRules,
    CountReading,
    NteReading,
)
from orchestrator.formats.attack_set.rules_in_words import WINDOWS, rules_in_words
from orchestrator.measures.margins import Probabilities, prediction_margins
from orchestrator.measures.similarity import size_problem, structural_similarity

OBJECTIVE_COLUMNS = (
    Column("asr", "ASR", "percent", more_is_better=True, measure="pictures that the hidden model misclassifies"),
    Column("ssim", "SSIM", "", more_is_better=True, measure="of the pictures that it misclassifies"),
    Column("nte", "NTE", "", more_is_better=True, measure="probability of the predicted class less the next"),
    Column("nte_fooled", "NTE fooled", "", measure="of the pictures that it misclassifies"),
    Column("nte_unfooled", "NTE unfooled", "", measure="of the others"),
    Column("score_m", "Score_M", "points", more_is_better=True, measure="100 x ASR x SSIM x NTE"),
)


class AttackSet(Format[AttackSetRules]):
    """The attack-set contest."""

    name = "attack_set"
    rules_type = AttackSetRules
    programs = ()
    withholds_outcomes = True
    judges_pictures = True
    event_types = (GradingPlanned, GradesReceived, GradeGiven, ScoresReleased)
    organizer_events = (ScoresReleased,)

    def __init__(self, rules: AttackSetRules) -> None:
        super().__init__(rules)
        self._last_graded: tuple[Observations | None, GradingResult | None] = None, None

    def play_rules(self) -> PlayRules:
        """Returns that the hidden model's scores are kept: NTE is computed from them (C5)."""
        return PlayRules(keep_scores=True)

    def rules_in_words(self) -> list[RuleInWords]:
        """Returns the rules of the contest."""
        return rules_in_words(self.rules)

    def picture_formats(self) -> tuple[PictureFormat, ...]:
        """Returns the kinds of files of the rules (C2)."""
        return self.rules.formats

    def submissions_per_day(self) -> int | None:
        """Returns the limit of the rules (C9)."""
        return self.rules.tries_per_day

    def rounds(self, season: Season, task: str) -> Sequence[SeasonRound]:
        """Returns the only round, which is played again when new pictures are received."""
        del season, task
        return (SeasonRound("board", reveals_labels=True),)

    def reopening_obstacle(self, season: Season) -> str:
        """Returns that grading is planned, "" if it is not: a plan has only the submissions of its time (C7)."""
        planned = [event.task for event, _ in season.format_events if isinstance(event, GradingPlanned)]
        return f"the grading of {planned[0]} is already planned" if planned else ""

    def eligibility(self, entry: Entry, where: RoundOfSeason) -> Eligibility:
        """Returns the eligibility of an entry: the latest one of a team is ranked, its earlier ones are only shown."""
        own = [e.id for e in where.season.entries_of_task(where.task) if e.team == entry.team and e.is_active]
        if entry.is_active and own[-1] != entry.id:
            return Eligibility(f"replaced by {own[-1]}", counts_in_means=False, receipt_number=entry.receipt_number)
        return base_eligibility(entry)

    def task_problems(self, task: Task) -> list[Problem]:
        """Returns a problem if pictures are too small for the similarity's window (C4), or too few to grade (C7)."""
        found = []
        if problem := size_problem(task.shape, self.rules.ssim):
            found.append(Problem(task.name, f"has {problem}", "choose another value of `rules.ssim`"))
        few = [] if self.rules.grading is None else sample_problems(self.rules.grading, task.count)
        return found + [Problem(task.name, f"cannot be graded: {each.what}", each.remedy) for each in few]

    def roster_problems(self, roster: Roster, round_name: str = "") -> list[Problem]:
        """Returns a problem if there is not exactly one hidden model, or if an attack is a program."""
        del round_name
        problems = [
            Problem("submissions", f"{attack.id} is a program; attacks of this contest are pictures (C2)", "remove it")
            for attack in roster.by_side(Side.ATTACK)
            if not attack.is_pictures
        ]
        models = [defence.id for defence in roster.by_side(Side.DEFENCE)]
        if len(models) != 1:
            found = f"there are {len(models)} ({', '.join(models)})" if models else "there is none"
            remedy = "list exactly one defence under `baselines:`; only the copy for participants has none"
            problems.append(Problem("baselines", f"one hidden model is needed (C3), and {found}", remedy))
        return problems

    def scores_released(self, observed: Observations) -> bool:
        """Returns whether organizers recorded the release. A round by itself has nobody to hide scores from (C9)."""
        return not observed.round or any(isinstance(event, ScoresReleased) for event in observed.season_events)

    def measure_pictures(self, originals: Pixels, pictures: Pixels) -> dict[str, float]:
        """Returns the mean SSIM by the contest's reading (C4), over all pictures: it is not known which count."""
        return {"ssim": float(structural_similarity(originals, pictures, self.rules.ssim).mean())}

    def human_grading(self) -> HumanGrading | None:
        """Returns the grading by people, None if the rules have none (C7)."""
        return None if self.rules.grading is None else AttackSetGrading(self.rules.grading)

    def publish_problems(self, season: Season, *, full: bool, pictures: bool) -> list[Problem]:
        """Returns a problem as long as scores are not released, for a full bundle or if grading is planned.

        A bundle would show raters whose pictures they are grading (C7), and a full bundle shows teams the hidden
        model's answers (C9).
        """
        del pictures
        events = [event for event, _ in season.format_events]
        released = any(isinstance(event, ScoresReleased) for event in events)
        planned = any(isinstance(event, GradingPlanned) for event in events)
        remedy = "when the contest is over, run `sparring contest record DIR attack_set.scores_released`"
        if planned and not released:
            what = "scores are not released, and a bundle would show raters whose pictures they grade (C7)"
            return [Problem("grading", what, remedy)]
        if full and not released:
            what = "scores are not released, and a full bundle shows the hidden model's answer to every picture (C9)"
            return [Problem("scores", what, remedy)]
        return []

    def rule_warnings(self) -> list[str]:
        """Returns warnings about rules that reward something that an attack did not do."""
        found = []
        if self.rules.count is CountReading.ALL:
            found.append(
                "rules.count: all (C3, as written) also counts a picture as a success that the attack did not change, "
                "if the hidden model misclassifies it; `correct` does not"
            )
        if self.rules.nte is NteReading.ALL:
            found.append(
                "rules.nte: all (C5, as written) also rewards pictures that the hidden model classifies correctly with "
                "a high probability; `successful` does not"
            )
        return found

    def task_warnings(self, task: Task) -> list[str]:
        """Returns a warning if the classes are numbers, which raters would be asked for (C7)."""
        if self.rules.grading is None or not all(name.isdecimal() for name in task.classes):
            return []
        asked = f"task {task.name}: raters are asked which of the classes {', '.join(task.classes)} they see (C7)"
        return [f"{asked}; name them with `classes` of the dataset, unless the pictures show numbers"]

    def schedule(self, roster: Roster, where: RoundOfSeason | None = None) -> tuple[Cell, ...]:
        """Returns the cells of the hidden model: one of the originals, and one for each submission."""
        del where
        attacks = (None, *(attack.id for attack in roster.by_side(Side.ATTACK)))
        return tuple(Cell(model.id, attack) for model in roster.by_side(Side.DEFENCE) for attack in attacks)

    def leaderboards(self, observed: Observations) -> tuple[Leaderboard, ...]:
        """Returns the leaderboard: by Score_M (C6), or by Score once grading is planned (C8)."""
        measured, human = self._measure(observed), self._human(observed)
        rows = [
            self._row(observed, attack, measured.get(attack.id), human)
            for attack in observed.roster.by_side(Side.ATTACK)
        ]
        by_people = human is not None
        board = Leaderboard(
            name="attacks",
            title="Attack sets",
            measure=self._score_measure() if by_people else "Score_M = 100 x ASR x SSIM x NTE",
            unit="points",
            more_is_better=True,
            rules=("C3", "C4", "C5", "C6", *(("C7", "C8") if by_people else ()), "A16"),
            rows=rank_rows(rows, more_is_better=True),
            columns=(*OBJECTIVE_COLUMNS, *(() if human is None else human_columns(human))),
        )
        return (board,)

    def _score_measure(self) -> str:
        return (
            f"Score = 0.6 x Score_H x {self.rules.human_scale} + 0.4 x Score_M, Score_H = valid share x mean grade / 5"
        )

    def _human(self, observed: Observations) -> GradingResult | None:
        """Returns the result of grading, None if none is planned, or if pictures and labels are withheld.

        The leaderboard and the notes are of the same observations, and drawing the intervals takes most of the time.
        """
        last, result = self._last_graded
        if last is not observed:
            result = None
            if observed.labels is not None and observed.originals is not None:
                result = graded(observed.season_events, observed.task, observed.labels, len(observed.classes))
            self._last_graded = observed, result
        return result

    def notes(self, observed: Observations) -> list[str]:
        """Returns notes on findings against the hidden model, the readings of the rules (C3 to C5), and grading."""
        counted = {
            CountReading.ALL: "ASR is a share of all pictures, also of those that the hidden model misreads unchanged",
            CountReading.CORRECT: "ASR is a share of the pictures that the hidden model classifies correctly unchanged",
        }[self.rules.count]
        tolerance = "all pictures that count" if self.rules.nte is NteReading.ALL else "the pictures that fool it"
        softmax = " (softmax of its scores)" if self.rules.probabilities is Probabilities.SOFTMAX else ""
        similarity = f"SSIM uses {WINDOWS[self.rules.ssim]} (C4)"
        nte = f"NTE is a mean over {tolerance}, of the hidden model's probabilities{softmax} (C5)"
        human = self._human(observed)
        models = {model.id for model in observed.roster.by_side(Side.DEFENCE)}
        doubts = [
            f"The determinism check accuses the hidden model (finding {finding.id}): its answers may not be repeatable."
            for finding in observed.findings
            if finding.submission in models
        ]
        readings = f"{counted} (C3). {similarity}. {nte}."
        return [*doubts, readings, *([] if human is None else grading_notes(human))]

    def _measure(self, observed: Observations) -> dict[str, "_Measured"]:
        """Returns the scores of each submission that was played completely, by id."""
        found: dict[str, _Measured] = {}
        if observed.labels is None or observed.originals is None:
            return found
        for model in observed.roster.by_side(Side.DEFENCE):
            scores, answers = observed.scores_of(model.id), observed.answers_of(model.id)
            clean = answers.get(Cell(model.id))
            for attack in observed.roster.by_side(Side.ATTACK):
                cell = Cell(model.id, attack.id)
                examples = observed.examples_of(cell)
                played = cell in scores and cell in answers
                if examples is None or not played or (clean is None and self.rules.count is CountReading.CORRECT):
                    continue
                try:
                    margins = self._margins(scores[cell], answers[cell])
                except ValueError as error:
                    found[attack.id] = _Measured(problem=f"{error}; see rules.probabilities")
                    continue
                alike = structural_similarity(observed.originals, examples.pixels, self.rules.ssim)
                each = picture_scores(
                    answers[cell],
                    observed.labels,
                    clean,
                    margins,
                    alike,
                    count=self.rules.count,
                    nte=self.rules.nte,
                )
                found[attack.id] = _Measured(each, bootstrap_intervals(each), int(np.isnan(margins).sum()))
        return found

    def _margins(self, scores: Scores, answers: Answers) -> NDArray[np.float64]:
        """Returns the margins [n] of the hidden model's probabilities, NaN where it gave no answer.

        Raises:
            ValueError: it gives no scores, or the rules take them for probabilities and they are none.
        """
        margins = np.full(len(answers), np.nan)
        answered = (answers >= 0) & ~np.isnan(scores).any(axis=1)
        if answered.any():
            margins[answered] = prediction_margins(scores[answered], answers[answered], self.rules.probabilities)
        elif (answers >= 0).any():
            raise ValueError("the hidden model gives labels without scores, which are needed for NTE (C5)")
        return margins

    def _row(
        self, observed: Observations, attack: Submission, measured: "_Measured | None", human: GradingResult | None
    ) -> Row:
        standing = observed.eligibility(attack.id)
        reason = standing.unranked_reason or self.disqualification(observed, attack)
        reason = "baseline" if attack.baseline else reason
        unmeasured = "withheld until the full bundle" if observed.originals is None else "not played yet"
        missing = unmeasured if measured is None else measured.problem
        scores = None if measured is None else measured.scores
        sure = None if measured is None else measured.intervals
        objective = None if scores is None else rounded(scores.score)
        interval, score, remark = None if sure is None else sure.score, objective, measured.remark if measured else ""
        values = _objective_values(measured)
        if human is not None:
            grades = next((found for found in human.submissions if found.submission == attack.id), None)
            values |= human_values(grades, human)
            score = self._score(objective, grades)
            interval = self._score_interval(interval, grades)
            missing = missing or ("" if score is not None else NOT_GRADED)
            remark = "; ".join(filter(None, (remark, *human_remarks(grades, human))))
        return Row(
            submission=attack.id,
            score=score,
            interval=interval,
            reason=reason or missing,
            remark=remark,
            values=values,
            receipt_number=standing.receipt_number,
            submitted=attack.submitted,
        )

    def _score(self, objective: Fraction | None, grades: SubmissionGrades | None) -> Fraction | None:
        """Returns Score (C8), None while Score_H or Score_M is missing."""
        if objective is None or grades is None or grades.score is None:
            return None
        return total_score(grades.score, objective, self.rules.human_scale)

    def _score_interval(
        self, objective: tuple[float, float] | None, grades: SubmissionGrades | None
    ) -> tuple[float, float] | None:
        """Returns the interval of Score. Its parts vary independently, so the squares of their widths are added."""
        if objective is None or grades is None or grades.interval is None or grades.score is None:
            return None
        human_scale = float(HUMAN_WEIGHT * self.rules.human_scale)
        human = human_scale * grades.interval[0], human_scale * grades.interval[1]
        machine = float(MEASURED_WEIGHT) * objective[0], float(MEASURED_WEIGHT) * objective[1]
        middle = (human[0] + human[1] + machine[0] + machine[1]) / 2
        half = np.hypot(human[1] - human[0], machine[1] - machine[0]) / 2
        return round(float(middle - half), DECIMALS), round(float(middle + half), DECIMALS)


@dataclass(frozen=True, slots=True)
class _Measured:
    """The scores of one submission, and how many pictures the hidden model gave no answer on.

    If it has no scores although it was played, `problem` says why.
    """

    scores: PictureScores | None = None
    intervals: ScoreIntervals | None = None
    unanswered: int = 0
    problem: str = ""

    @property
    def remark(self) -> str:
        """The remark for readers of the leaderboard, "" for none."""
        if not self.unanswered:
            return ""
        return f"the hidden model gave no answer to {counted_noun(self.unanswered, 'picture')}"


def _objective_values(measured: _Measured | None) -> dict[str, Value]:
    if measured is None or measured.scores is None or measured.intervals is None:
        return {column.name: Value(None) for column in OBJECTIVE_COLUMNS}
    scores, sure = measured.scores, measured.intervals
    return {
        "asr": Value(scores.success_rate * PERCENT, interval=percent_limits(sure.success_rate)),
        "ssim": Value(rounded(scores.mean_similarity), interval=sure.similarity),
        "nte": Value(rounded(scores.noise_tolerance), interval=sure.noise_tolerance),
        "nte_fooled": Value(rounded(scores.fooled_tolerance)),
        "nte_unfooled": Value(rounded(scores.unfooled_tolerance)),
        "score_m": Value(rounded(scores.score), interval=sure.score),
    }
