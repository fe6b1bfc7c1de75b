"""Computes human scores from plans and answers (C7): raters who count, decisions, intervals, missing answers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import Problem, Rejected
from orchestrator.formats.attack_set.grading import quality
from orchestrator.formats.attack_set.grading.agreement import Agreement, measure_agreement
from orchestrator.formats.attack_set.grading.answers import GivenAnswer, read_answers
from orchestrator.formats.attack_set.grading.intervals import DRAWS, Interval, ScoreDraws, draw_scores, interval_of
from orchestrator.formats.attack_set.grading.plan import GradingPlan
from orchestrator.formats.attack_set.grading.planning import MoreRaters
from orchestrator.formats.attack_set.grading.rater_exclusion import (
    RaterReport,
    RaterStatus,
    bt500_outliers,
    is_valid,
    report_rater,
)
from orchestrator.formats.attack_set.grading.rules import (
    APPEAL_RATERS,
    APPEALED_PICTURES,
    MINIMUM_RATERS_PER_PICTURE,
    RANKED_RATERS,
)
from orchestrator.formats.attack_set.grading.sheets import AnswerFile, GradingTask
from orchestrator.formats.attack_set.grading.validity import Votes, appeal_votes_missing, decide, votes_missing


@dataclass(frozen=True, slots=True)
class Appeal:
    """An appeal for at most five pictures of a submission, which five more raters grade."""

    submission: str
    positions: tuple[int, ...]


@dataclass(frozen=True)
class GradingRound:
    """The plans of a round of grading, and what belongs to them.

    Args:
        plan: the plan of the round.
        labels: the true class of every picture of the task.
        class_count: how many classes there are.
        supplements: the plans that asked for more, in the order in which they were made.
        appeals: at most one for each submission.
    """

    plan: GradingPlan
    labels: tuple[int, ...]
    class_count: int
    supplements: tuple[GradingPlan, ...] = ()
    appeals: tuple[Appeal, ...] = ()

    @property
    def plans(self) -> tuple[GradingPlan, ...]:
        """The plan and its supplements."""
        return (self.plan, *self.supplements)

    def problems(self) -> list[Problem]:
        """Returns every inconsistency between labels, plans and appeals."""
        found = []
        if len(self.labels) != self.plan.picture_count:
            what = f"there are {len(self.labels)} labels for {self.plan.picture_count} pictures"
            found.append(Problem("labels", what, "give those of the task that the plan was made for"))
        for number, supplement in enumerate(self.supplements, start=1):
            if supplement.supplements != self.plan.digest:
                what = "it supplements another plan"
                found.append(Problem(f"supplement {number}", what, "give the plan that it was made for"))
        for submission, count in Counter(appeal.submission for appeal in self.appeals).items():
            if count > 1:
                found.append(
                    Problem(
                        f"appeal of {submission}",
                        "there are several appeals of this submission",
                        "put their pictures into one appeal",
                    )
                )
        for appeal in self.appeals:
            unknown = sorted({*appeal.positions} - {*self.plan.positions})
            if appeal.submission not in self.plan.submissions or unknown:
                what = f"it names a submission or pictures that are not graded: {unknown or appeal.submission}"
                found.append(Problem(f"appeal of {appeal.submission}", what, "name pictures of the plan"))
            if len({*appeal.positions}) > APPEALED_PICTURES:
                what = f"it names {len({*appeal.positions})} pictures, and {APPEALED_PICTURES} are allowed"
                found.append(Problem(f"appeal of {appeal.submission}", what, "name fewer pictures"))
        return found


@dataclass(frozen=True, slots=True)
class SubmissionGrades:
    """The human scores of one submission.

    Scores are provisional until every picture is decided and has three grades of raters who count: `missing` names the
    pictures that lack some. Until then the share of valid pictures is that among the decided ones, and quality is the
    mean over those that have a grade.

    Args:
        submission: its id.
        valid: Score_valid, the share of valid pictures, 0 to 1.
        quality: Score_quality, 0.2 to 1.
        score: Score_H, their product.
        quality_with_removed: Score_quality with the grades of removed raters.
        corrected: Score_quality of grades from which the raters' own levels are subtracted.
        modelled: Score_quality of the maximum likelihood model.
        differential: mean differential grade (DMOS); 5 is no worse than hidden originals.
        robust: whether the rank by score is the same by plain and by corrected grades.
        quality_interval: of `quality`.
        interval: of `score`.
        missing: the positions and tasks that lack answers.
    """

    submission: str
    valid: Fraction | None
    quality: Fraction | None
    score: Fraction | None
    quality_with_removed: Fraction | None
    corrected: float | None
    modelled: float | None
    differential: float | None
    robust: bool
    quality_interval: Interval | None
    interval: Interval | None
    missing: tuple[tuple[int, GradingTask], ...]

    @property
    def provisional(self) -> bool:
        """Whether answers are still missing."""
        return bool(self.missing)


@dataclass(frozen=True, slots=True)
class NeighbourDifference:
    """A submission and the next one. Their Score_H differ significantly if the difference's interval is above 0."""

    better: str
    worse: str
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class GradingResult:
    """The human scores of a round of grading, and how reliable they are.

    Args:
        submissions: the scores of each submission, in the plan's order.
        neighbours: the difference of each submission with a score to the next one, best first.
        raters: a report on each rater, in the order of the plans.
        indicative: whether fewer than 15 raters count, so that human scores should not rank.
        more: pictures that need further raters; `make_supplement` plans these.
        outstanding: how many answers are expected from raters who have been asked.
        quality_agreement: the agreement of grades, ordinal.
        valid_agreement: the agreement of answers about validity, nominal.
        bt500: the raters whom the screening of ITU-R BT.500 would drop; None if it cannot be applied.
    """

    submissions: tuple[SubmissionGrades, ...]
    neighbours: tuple[NeighbourDifference, ...]
    raters: tuple[RaterReport, ...]
    indicative: bool
    more: tuple[MoreRaters, ...]
    outstanding: int
    quality_agreement: Agreement
    valid_agreement: Agreement
    bt500: tuple[str, ...] | None


_Key = tuple[GradingTask, str, int, bool]
"""Task, submission, position, and whether the question is part of an appeal."""


class _Opinions:
    """The answers of a round as arrays f64 [submissions, pictures, raters], NaN for a missing answer."""

    def __init__(self, round_: GradingRound, answers: Sequence[GivenAnswer], reports: Sequence[RaterReport]) -> None:
        self.raters = [report.rater for report in reports]
        self.counted = np.array([report.status is RaterStatus.COUNTED for report in reports], np.bool_)
        self.removed = np.array([report.status is RaterStatus.REMOVED for report in reports], np.bool_)
        self.originals = np.array([float(report.originals or np.nan) for report in reports])
        plan = round_.plan
        self.submissions = {name: place for place, name in enumerate(plan.submissions)}
        self.positions = {position: place for place, position in enumerate(plan.positions)}
        shape = (len(self.submissions), len(self.positions), len(self.raters))
        self.grades, self.votes = np.full(shape, np.nan), np.full(shape, np.nan)
        self.planned = np.zeros(shape, np.bool_)
        self.counts: Counter[_Key] = Counter()
        self.valid_votes: Counter[_Key] = Counter()
        places = {rater: place for place, rater in enumerate(self.raters)}
        in_plan = {item.token for _, item in plan.items()}
        for given in answers:
            item = given.item
            if not item.scored or given.too_fast or item.submission is None:
                continue
            cell = (self.submissions[item.submission], self.positions[item.position], places[given.rater])
            vote = is_valid(given, round_.labels)
            if item.task is GradingTask.QUALITY:
                self.grades[cell] = given.answer.grade
                self.planned[cell] = item.token in in_plan
            else:
                self.votes[cell] = vote
            if self.counted[cell[2]]:
                key = (item.task, item.submission, item.position, item.appeal)
                self.counts[key] += 1
                self.valid_votes[key] += vote

    def votes_of(self, submission: str, position: int, *, appeal: bool) -> Votes:
        """Returns the votes of raters who count."""
        key = (GradingTask.VALID, submission, position, appeal)
        return Votes(self.valid_votes[key], self.counts[key] - self.valid_votes[key])


def grade_round(
    round_: GradingRound, answer_files: Sequence[AnswerFile], seed: int, draws: int = DRAWS
) -> GradingResult:
    """Returns the human scores of every submission of a round.

    Args:
        round_: the plans.
        answer_files: the raters' files; several files of one rater in the order in which they were saved.
        seed: the seed of the bootstrap.
        draws: of the bootstrap; with 0 the result has no intervals and no differences of neighbours.

    Raises:
        Rejected: plans, appeals or answers are inconsistent; names every problem.
    """
    if problems := round_.problems():
        raise Rejected("grading", problems)
    answers = [each for each in read_answers(round_.plans, answer_files, round_.class_count) if not each.item.practice]
    by_rater: dict[str, list[GivenAnswer]] = {rater: [] for plan in round_.plans for rater in plan.raters}
    for given in answers:
        by_rater[given.rater].append(given)
    reports = tuple(report_rater(rater, own, round_.labels) for rater, own in by_rater.items())
    opinions = _Opinions(round_, answers, reports)
    missing, decisions = _missing(round_, opinions), _decisions(opinions)
    awaited = _awaited(round_, answers, reports)
    counted = opinions.grades[:, :, opinions.counted]
    has_intervals = draws and counted.shape[2]
    drawn = draw_scores(counted, decisions, np.random.default_rng(seed), draws) if has_intervals else None
    submissions = _submission_grades(opinions, decisions, missing, drawn)
    width = max(1, counted.shape[2])
    votes = opinions.votes[:, :, opinions.counted]
    return GradingResult(
        submissions=submissions,
        neighbours=_neighbours(submissions, drawn),
        raters=reports,
        indicative=int(opinions.counted.sum()) < RANKED_RATERS,
        more=tuple(_requests(missing, awaited)),
        outstanding=sum(awaited.values()),
        quality_agreement=measure_agreement(counted.reshape(-1, width), "ordinal"),
        valid_agreement=measure_agreement(votes.reshape(-1, width), "nominal"),
        bt500=bt500_outliers(opinions.grades.reshape(-1, len(reports)), opinions.raters),
    )


def _decisions(opinions: _Opinions) -> NDArray[np.float64]:
    """Returns 1 for valid, 0 for not, NaN for undecided, f64 [submissions, pictures]."""
    decided = np.full((len(opinions.submissions), len(opinions.positions)), np.nan)
    for submission, row in opinions.submissions.items():
        for position, column in opinions.positions.items():
            votes = opinions.votes_of(submission, position, appeal=False)
            appeal = opinions.votes_of(submission, position, appeal=True)
            valid = decide(votes, appeal)
            decided[row, column] = np.nan if valid is None else valid
    return decided


def _missing(round_: GradingRound, opinions: _Opinions) -> dict[_Key, int]:
    """Returns how many answers are missing for each picture that lacks some."""
    appealed = {(appeal.submission, position) for appeal in round_.appeals for position in appeal.positions}
    missing: dict[_Key, int] = {}
    for submission in opinions.submissions:
        for position in opinions.positions:
            valid, grades = (GradingTask.VALID, submission, position), (GradingTask.QUALITY, submission, position)
            missing[*valid, False] = votes_missing(opinions.votes_of(submission, position, appeal=False))
            missing[*grades, False] = MINIMUM_RATERS_PER_PICTURE - opinions.counts[*grades, False]
            if (submission, position) in appealed:
                missing[*valid, True] = appeal_votes_missing(opinions.votes_of(submission, position, appeal=True))
                missing[*grades, True] = APPEAL_RATERS - opinions.counts[*grades, True]
    return {key: count for key, count in missing.items() if count > 0}


def _awaited(round_: GradingRound, answers: Sequence[GivenAnswer], reports: Sequence[RaterReport]) -> Counter[_Key]:
    """Returns how many answers may still come: from raters who were asked, or who have graded too few hidden items."""
    waiting = {report.rater for report in reports if report.status is RaterStatus.WAITING}
    removed = {report.rater for report in reports if report.status is RaterStatus.REMOVED}
    given = {each.item.token for each in answers if each.rater not in waiting or each.too_fast}
    awaited: Counter[_Key] = Counter()
    for plan in round_.plans:
        for rater, item in plan.items():
            if item.scored and item.submission is not None and rater not in removed and item.token not in given:
                awaited[item.task, item.submission, item.position, item.appeal] += 1
    return awaited


def _requests(missing: Mapping[_Key, int], awaited: Mapping[_Key, int]) -> list[MoreRaters]:
    """Returns how many raters are needed besides those from whom an answer is expected."""
    return [
        MoreRaters(submission, position, task, count - awaited[task, submission, position, appeal], appeal)
        for (task, submission, position, appeal), count in missing.items()
        if count > awaited[task, submission, position, appeal]
    ]


def _submission_grades(
    opinions: _Opinions, decisions: NDArray[np.float64], missing: Mapping[_Key, int], drawn: ScoreDraws | None
) -> tuple[SubmissionGrades, ...]:
    """Returns every submission's scores."""
    counted = opinions.grades[:, :, opinions.counted]
    planned = opinions.planned[:, :, opinions.counted]
    either = opinions.grades[:, :, opinions.counted | opinions.removed]
    corrected = quality.mean_quality(quality.bias_corrected(counted, planned))
    modelled = quality.model_quality(counted)
    differential = quality.mean_quality(quality.differential(counted, opinions.originals[opinions.counted]))
    shares = [_share(row) for row in decisions]
    plain = [quality.exact_quality(own) for own in counted]
    scores = {
        name: share * grade
        for name, share, grade in zip(opinions.submissions, shares, plain, strict=True)
        if share is not None and grade is not None
    }
    others = {name: float(shares[place] or 0) * corrected[place] for name, place in opinions.submissions.items()}
    shaken = quality.not_robust(scores, {name: others[name] for name in scores})
    lacking: dict[str, dict[tuple[int, GradingTask], None]] = {name: {} for name in opinions.submissions}
    for task, submission, position, _ in missing:
        lacking[submission][position, task] = None
    return tuple(
        SubmissionGrades(
            submission=name,
            valid=shares[place],
            quality=plain[place],
            score=scores.get(name),
            quality_with_removed=quality.exact_quality(either[place]),
            corrected=_known(corrected[place]),
            modelled=_known(modelled[place]),
            differential=_known(quality.BEST_GRADE * differential[place]),
            robust=name not in shaken,
            quality_interval=interval_of(drawn.quality[:, place]) if drawn else None,
            interval=interval_of(drawn.human[:, place]) if drawn else None,
            missing=tuple(lacking[name]),
        )
        for name, place in opinions.submissions.items()
    )


def _neighbours(submissions: Sequence[SubmissionGrades], drawn: ScoreDraws | None) -> tuple[NeighbourDifference, ...]:
    """Returns the difference of each submission to the next one, with its interval from the bootstrap."""
    if drawn is None:
        return ()
    scored = [(each.score, place) for place, each in enumerate(submissions) if each.score is not None]
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    return tuple(
        NeighbourDifference(
            better=submissions[first].submission,
            worse=submissions[second].submission,
            interval=interval_of(drawn.human[:, first] - drawn.human[:, second]),
        )
        for (_, first), (_, second) in pairwise(scored)
    )


def _share(decided: NDArray[np.float64]) -> Fraction | None:
    known = np.isfinite(decided)
    return Fraction(int(np.nansum(decided)), int(known.sum())) if known.any() else None


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
