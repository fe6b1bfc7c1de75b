"""Reads raters' answer files, and checks them against the plan."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.errors import Problem, Rejected
from orchestrator.formats.attack_set.grading.plan import GradingPlan, PlannedItem
from orchestrator.formats.attack_set.grading.sheets import MINIMUM_MILLISECONDS, Answer, AnswerFile, GradingTask


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """A rater's answer to an item, which may be practice. `file` is the number of its answer file, from 0."""

    rater: str
    item: PlannedItem
    answer: Answer
    file: int = 0

    @property
    def too_fast(self) -> bool:
        """Whether the answer came too fast for somebody who looked; then it does not count."""
        return self.answer.milliseconds < MINIMUM_MILLISECONDS


def read_answers(plans: Sequence[GradingPlan], files: Iterable[AnswerFile], class_count: int) -> list[GivenAnswer]:
    """Returns one answer for each item that was answered. An answer that was too fast is replaced by any other.

    The first file with an answer to an item counts, and no later file replaces it: otherwise a rater who learns that
    the hidden items removed them could grade those again. Within one file the last answer counts: a rater may correct
    answers until the file is submitted.

    Raises:
        Rejected: names every answer to an unknown plan or item, to another rater's item, or of the wrong form.
    """
    by_digest = {plan.digest: plan for plan in plans}
    owners = {item.token: rater for plan in plans for rater, item in plan.items()}
    given: dict[str, GivenAnswer] = {}
    problems: list[Problem] = []
    for number, file in enumerate(files):
        plan, place = by_digest.get(file.plan), f"answers of {file.rater}"
        if plan is None or file.rater not in plan.raters:
            what = "they belong to another plan" if plan is None else "the plan has no sheet for this rater"
            problems.append(Problem(place, what, "import the file that was saved with this round's sheet"))
            continue
        items = {item.token: item for item in plan.items_of(file.rater)}
        for answer in file.answers:
            item = items.get(answer.token)
            if item is None:
                problems.append(_foreign_token(place, answer.token, owners))
            elif fault := misfit(item, answer, class_count):
                problems.append(Problem(f"{place}, {answer.token}", fault, "save the file from the page again"))
            else:
                new, old = GivenAnswer(file.rater, item, answer, number), given.get(answer.token)
                if old is None or old.too_fast or (old.file == number and not new.too_fast):
                    given[answer.token] = new
    if problems:
        raise Rejected("grading answers", problems)
    return list(given.values())


def _foreign_token(place: str, token: str, owners: dict[str, str]) -> Problem:
    owner = owners.get(token)
    what = f"the item belongs to {owner}" if owner else "no item of the plan has this token"
    return Problem(f"{place}, {token}", what, "import the file of this rater, unchanged")


def misfit(item: PlannedItem, answer: Answer, class_count: int) -> str:
    """Returns why an answer does not fit its question, "" if it does."""
    if item.task is GradingTask.QUALITY:
        fits = answer.grade is not None and answer.proper is None and answer.class_index is None
        return "" if fits else "the question asks for a grade only"
    if answer.proper is None or answer.grade is not None:
        return "the question asks for a class and whether the picture is proper, and for no grade"
    if answer.class_index is not None and answer.class_index >= class_count:
        return f"there is no class {answer.class_index}: the classes are 0 to {class_count - 1}"
    return ""
