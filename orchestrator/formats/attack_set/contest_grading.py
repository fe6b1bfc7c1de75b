"""Human grading of an attack-set contest: plans, pages, answers and scores from its ledger's events (rule C7)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pydantic import ValidationError

from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.field_errors import field_errors
from orchestrator.domain.human_grading import (
    GradedTask,
    GradingProgress,
    HumanGrading,
    PictureOf,
    PngOf,
    RaterProgress,
    Rating,
    ReceivedAnswers,
)
from orchestrator.domain.samples import Labels
from orchestrator.domain.tasks import Task
from orchestrator.errors import Problem, Rejected
from orchestrator.formats.attack_set.events import GradesReceived, GradingPlanned, answers_of, plans_of
from orchestrator.formats.attack_set.grading.answers import read_answers
from orchestrator.formats.attack_set.grading.answers_csv import read_answers_csv
from orchestrator.formats.attack_set.grading.intervals import DRAWS
from orchestrator.formats.attack_set.grading.page import grading_page
from orchestrator.formats.attack_set.grading.planning import MoreRaters, make_plan, make_supplement
from orchestrator.formats.attack_set.grading.rater_exclusion import RaterStatus
from orchestrator.formats.attack_set.grading.round_grades import Appeal, GradingResult, GradingRound, grade_round
from orchestrator.formats.attack_set.grading.rules import APPEAL_RATERS, GradingRules
from orchestrator.formats.attack_set.grading.sheet_making import SheetHeading, sheet_for
from orchestrator.formats.attack_set.grading.sheets import AnswerFile, GradingTask
from orchestrator.formats.attack_set.item_rating import AttackSetRating
from orchestrator.formats.attack_set.objective_scores import BOOTSTRAP_SEED


def graded(
    events: Sequence[FormatEvent], task: str, labels: Labels, class_count: int, draws: int = DRAWS
) -> GradingResult | None:
    """Returns the human scores of a task's submissions, None if no grading is planned; no intervals for 0 draws.

    Raises:
        Rejected: plans and answers do not fit together.
    """
    round_ = grading_round(events, task, labels, class_count)
    return None if round_ is None else grade_round(round_, answers_of(events, task), BOOTSTRAP_SEED, draws)


def grading_round(events: Sequence[FormatEvent], task: str, labels: Labels, class_count: int) -> GradingRound | None:
    """Returns the plans in force for a task, with their appeals; None if no grading is planned."""
    plans = plans_of(events, task)
    if not plans:
        return None
    first, *others = plans
    appeals: dict[str, list[int]] = {}
    for planned in others:
        for submission, positions in planned.appeals.items():
            appeals.setdefault(submission, []).extend(positions)
    return GradingRound(
        first.plan,
        tuple(int(label) for label in labels),
        class_count,
        tuple(planned.plan for planned in others),
        tuple(Appeal(submission, tuple(positions)) for submission, positions in appeals.items()),
    )


class AttackSetGrading(HumanGrading):
    """Grading by two separate questions: is the picture valid, and how much does it differ from the original?"""

    def __init__(self, rules: GradingRules) -> None:
        self._rules = rules

    def plan(self, graded: GradedTask, submissions: Sequence[str], raters: Sequence[str], secret: bytes) -> FormatEvent:
        """See `HumanGrading.plan`."""
        plan = make_plan(self._rules, submissions, graded.task.count, raters, secret)
        if answers_of(_events(graded), graded.task.name):
            what = "raters have answered items of the current plan, and a new plan would discard their answers"
            raise Rejected("grading plan", [Problem("grading", what, "ask for more grades with `sparring grade more`")])
        return GradingPlanned(actor=graded.actor, task=graded.task.name, plan=plan)

    def supplement(
        self, graded: GradedTask, appeals: Mapping[str, Sequence[int]], raters: Sequence[str], secret: bytes
    ) -> FormatEvent:
        """See `HumanGrading.supplement`."""
        round_, result = _require_plan(graded), self._result(graded)
        wanted = [request for request in result.more if not request.appeal]
        wanted += [
            MoreRaters(submission, position, task, APPEAL_RATERS, appeal=True)
            for submission, positions in appeals.items()
            for position in positions
            for task in GradingTask
        ]
        if not wanted:
            problem = Problem(
                "grading", "raters were already asked for every missing answer", "see `sparring grade status`"
            )
            raise Rejected("grading plan", [problem])
        removed = {report.rater for report in result.raters if report.status is RaterStatus.REMOVED}
        asked = [rater for rater in raters if rater not in removed]
        plan = make_supplement(round_.plan, round_.supplements, wanted, asked, secret)
        event = GradingPlanned(
            actor=graded.actor,
            task=graded.task.name,
            plan=plan,
            appeals={submission: list(positions) for submission, positions in appeals.items()},
        )
        after = grading_round([*_events(graded), event], graded.task.name, graded.labels, len(graded.task.classes))
        if after is not None and (problems := after.problems()):
            raise Rejected("grading plan", problems)
        return event

    def pages(self, graded: GradedTask, picture_of: PictureOf, png_of: PngOf) -> Iterator[tuple[str, str]]:
        """See `HumanGrading.pages`."""
        round_, (_, height, width) = _require_plan(graded), graded.task.shape
        heading = SheetHeading(graded.contest, graded.task.classes, height, width, self._rules)
        latest = round_.plans[-1]
        for rater in latest.raters:
            yield f"{rater}.html", grading_page(sheet_for(latest, rater, heading, picture_of, png_of))

    def answers(
        self, graded: GradedTask, text: str, *, csv: bool, before: Sequence[FormatEvent] = ()
    ) -> ReceivedAnswers:
        """See `HumanGrading.answers`."""
        round_ = _require_plan(graded)
        event = GradesReceived(actor=graded.actor, task=graded.task.name, file=_read_file(text, csv=csv))
        plans = {planned.plan.digest for planned in plans_of(_events(graded), graded.task.name)}
        if event.file.plan not in plans:
            what = "the answers belong to a plan that was replaced"
            raise Rejected(
                "answers", [Problem("plan", what, "ask the rater to fill in the page that was exported last")]
            )
        result = self._result(graded, [*before, event])  # raises Rejected with everything that does not fit
        earlier = answers_of([*_events(graded), *before], graded.task.name)
        known = {
            given.item.token for given in read_answers(round_.plans, earlier, round_.class_count) if not given.too_fast
        }
        [report] = [report for report in result.raters if report.rater == event.file.rater]
        removed = report.reason if report.status is RaterStatus.REMOVED else ""
        return ReceivedAnswers(event, len(known & {answer.token for answer in event.file.answers}), removed)

    def rating(self, task: Task) -> Rating:
        """See `HumanGrading.rating`."""
        return AttackSetRating(task, self._rules)

    def progress(self, graded: GradedTask) -> GradingProgress:
        """See `HumanGrading.progress`."""
        round_, result = _require_plan(graded), self._result(graded)
        answered: dict[str, set[str]] = {}
        for file in answers_of(_events(graded), graded.task.name):
            answered.setdefault(file.rater, set()).update(answer.token for answer in file.answers)
        asked = Counter(rater for plan in round_.plans for rater, _ in plan.items())
        raters = tuple(
            RaterProgress(
                report.rater,
                len(answered.get(report.rater, ())),
                asked[report.rater],
                report.status.value,
                report.reason,
                report.in_words(),
            )
            for report in result.raters
        )
        return GradingProgress(raters, result.outstanding, sum(request.count for request in result.more))

    def _result(self, graded_task: GradedTask, more: Sequence[FormatEvent] = ()) -> GradingResult:
        """Returns the result without intervals, which take most of the time and of which nothing here makes use."""
        events, task = [*_events(graded_task), *more], graded_task.task
        result = graded(events, task.name, graded_task.labels, len(task.classes), draws=0)
        if result is None:
            raise _nothing_planned()
        return result


def _events(graded: GradedTask) -> list[FormatEvent]:
    return [event for event, _ in graded.season.format_events]


def _require_plan(graded: GradedTask) -> GradingRound:
    round_ = grading_round(_events(graded), graded.task.name, graded.labels, len(graded.task.classes))
    if round_ is None:
        raise _nothing_planned()
    return round_


def _nothing_planned() -> Rejected:
    problem = Problem("grading", "the grading is not planned yet", "run `sparring grade plan` first")
    return Rejected("grading", [problem])


def _read_file(text: str, *, csv: bool) -> AnswerFile:
    if csv:
        return read_answers_csv(text)
    try:
        return AnswerFile.model_validate_json(text)
    except ValidationError as error:
        remedy = "submit the file as the grading page saved it"
        problems = [each.problem("file", remedy) for each in field_errors(error, AnswerFile)[:20]]
        raise Rejected("answers", problems) from None
