"""The human scores of attack sets, formatted for the leaderboard (rule C7)."""

from orchestrator.domain.leaderboard import Column, Value
from orchestrator.formats.attack_set.grading.agreement import AgreementLevel
from orchestrator.formats.attack_set.grading.rater_exclusion import RaterStatus
from orchestrator.formats.attack_set.grading.round_grades import GradingResult, SubmissionGrades
from orchestrator.formats.attack_set.grading.rules import RANKED_RATERS
from orchestrator.formats.attack_set.objective_scores import PERCENT, percent_limits, rounded

HUMAN_COLUMNS = (
    Column("valid", "Valid", "percent", more_is_better=True, measure="pictures that people see the true class in"),
    Column("quality", "Quality", "percent", more_is_better=True, measure="mean grade, of 5"),
    Column("quality_corrected", "Quality, levelled", "percent", measure="corrected for raters who grade high or low"),
    Column("quality_modelled", "Quality, modelled", "percent", measure="by the model of Li et al. (2020)"),
    Column("dmos", "DMOS", "", measure="grade less the rater's mean grade of hidden originals, plus 5"),
    Column("score_h", "Score_H", "", more_is_better=True, measure="valid x quality"),
)
_WITH_REMOVED = Column("quality_all", "Quality, all raters", "percent", measure="with the grades of removed raters")


def human_columns(human: GradingResult) -> tuple[Column, ...]:
    """Returns the columns of human scores. If raters were removed, one has the quality with their grades."""
    if all(report.status is not RaterStatus.REMOVED for report in human.raters):
        return HUMAN_COLUMNS
    place = 1 + [column.name for column in HUMAN_COLUMNS].index("quality")
    return (*HUMAN_COLUMNS[:place], _WITH_REMOVED, *HUMAN_COLUMNS[place:])


def grading_notes(human: GradingResult) -> list[str]:
    """Returns notes for readers of human scores: on the raters, and how far they agree (C7)."""
    counted = sum(report.status is RaterStatus.COUNTED for report in human.raters)
    found = [f"{counted} of {len(human.raters)} raters count in human scores (C7)."]
    if human.indicative:
        found.append(f"Human scores are indicative: fewer than {RANKED_RATERS} raters count.")
    found += [f"Rater {r.rater} was removed: {r.reason}." for r in human.raters if r.status is RaterStatus.REMOVED]
    if human.bt500:
        found.append(f"The screening of ITU-R BT.500 would remove {', '.join(human.bt500)}; it is only reported here.")
    alike = [pair for pair in human.neighbours if pair.interval is None or pair.interval[0] <= 0]
    if alike:
        named = ", ".join(f"{pair.better} and {pair.worse}" for pair in alike)
        found.append(
            f"These pairs may differ in Score_H only by chance: {named}. "
            "The 95 % interval of each difference contains 0 (X5)."
        )
    if human.outstanding or human.more:
        awaited = human.outstanding + sum(request.count for request in human.more)
        found.append(f"Human scores are provisional: {awaited} answers are missing.")
    for name, agreement in (("grades", human.quality_agreement), ("validity", human.valid_agreement)):
        if agreement.alpha is not None:
            weak = ", which is weak" if agreement.level is AgreementLevel.LOW else ""
            found.append(
                f"Raters agree on {name} with Krippendorff's alpha {agreement.alpha:.2f}{weak}; "
                f"they give equal answers in {agreement.raw or 0:.0%} of pairs."
            )
    return found


def human_values(grades: SubmissionGrades | None, human: GradingResult) -> dict[str, Value]:
    """Returns the values of the columns of human scores, by column."""
    columns = human_columns(human)
    if grades is None:
        return {column.name: Value(None) for column in columns}
    values = {
        "valid": Value(None if grades.valid is None else grades.valid * PERCENT),
        "quality": Value(
            None if grades.quality is None else grades.quality * PERCENT,
            interval=percent_limits(grades.quality_interval),
        ),
        "quality_all": Value(None if grades.quality_with_removed is None else grades.quality_with_removed * PERCENT),
        "quality_corrected": Value(None if grades.corrected is None else rounded(grades.corrected * PERCENT)),
        "quality_modelled": Value(None if grades.modelled is None else rounded(grades.modelled * PERCENT)),
        "dmos": Value(rounded(grades.differential)),
        "score_h": Value(grades.score, interval=grades.interval),
    }
    return {column.name: values[column.name] for column in columns}


def human_remarks(grades: SubmissionGrades | None, human: GradingResult) -> list[str]:
    """Returns the remarks on a row's human scores."""
    if grades is None:
        return []
    found = ["provisional"] if grades.provisional else []
    found += ["indicative"] if human.indicative else []
    return found + (
        []
        if grades.robust
        else ["not robust: its rank changes if grades are corrected for raters who grade high or low"]
    )
