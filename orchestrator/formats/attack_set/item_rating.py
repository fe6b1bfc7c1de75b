"""Grading item by item on the site, with the same plan, items, order and answers as on the grading page (C7)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from orchestrator.domain.contest_events import FormatEvent
from orchestrator.domain.human_grading import (
    Choice,
    GivenAnswer,
    ItemForm,
    OwnAnswers,
    PictureOf,
    Question,
    RatedItem,
    Rating,
)
from orchestrator.domain.samples import Pixels
from orchestrator.domain.tasks import Task
from orchestrator.errors import Problem, Rejected
from orchestrator.formats.attack_set.events import GradeGiven, GradesReceived, GradingPlanned, ScoresReleased
from orchestrator.formats.attack_set.grading.answers import misfit
from orchestrator.formats.attack_set.grading.page import NO_CLASS_KEY, PROPER_KEYS, class_keys, picture_scale
from orchestrator.formats.attack_set.grading.plan import GradingPlan, PlannedItem
from orchestrator.formats.attack_set.grading.rules import GradingRules
from orchestrator.formats.attack_set.grading.sheet_making import item_pictures
from orchestrator.formats.attack_set.grading.sheets import MINIMUM_MILLISECONDS, Answer, AnswerFile, GradingTask

UNDO_KEY = "u"
"""The key that takes the last answer back, so it chooses no class."""
OWN_PACE_FROM = 5
_NO_CLASS = "none"


@dataclass
class _AnsweredItem:
    """The time of the first answer to an item, and its state. Answers that were too fast do not count."""

    first: datetime
    counts: bool = False
    too_fast: int = 0
    last_too_fast: bool = False

    @property
    def comes_back(self) -> bool:
        """Whether the item is shown once more: its last answer was too fast, and no other one was."""
        return self.last_too_fast and self.too_fast == 1


@dataclass
class _Sheet:
    """The items of one rater, in the order in which they are asked, and the rater's progress."""

    items: list[tuple[str, PlannedItem]] = field(default_factory=list)
    """The items, each with the digest of its plan."""
    times: list[datetime] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    """The durations, in milliseconds, of answers that were not too fast."""
    last: str = ""
    """The token of the item that was answered last on the site, "" after a file of the rater was received."""


class AttackSetRating(Rating):
    """Two questions, apart: is the picture valid, and how much does it differ from the original?"""

    def __init__(self, task: Task, rules: GradingRules) -> None:
        self._task, self._rules = task, rules
        self._forms = {kind: _form(kind, task, rules) for kind in GradingTask}
        self._over = False
        self._start_anew()

    def _start_anew(self) -> None:
        self._plans: set[str] = set()
        self._sheets: dict[str, _Sheet] = {}
        self._items: dict[str, tuple[str, str, PlannedItem]] = {}
        self._answered: dict[str, _AnsweredItem] = {}

    def apply(self, event: FormatEvent, time: datetime) -> None:
        """See `Rating.apply`."""
        match event:
            case ScoresReleased():
                self._over = True
            case GradingPlanned() if event.task == self._task.name:
                if event.plan.supplements is None:
                    self._start_anew()
                self._add_plan(event.plan)
            case GradesReceived() if event.task == self._task.name and event.file.plan in self._plans:
                self._add_file(event.file, time)
            case GradeGiven() if event.task == self._task.name and event.plan in self._plans:
                self._add_answer(event.rater, event.answer, time)

    def _add_plan(self, plan: GradingPlan) -> None:
        self._plans.add(plan.digest)
        for rater in plan.raters:
            items = plan.items_of(rater)
            practice_first = [*(i for i in items if i.practice), *(i for i in items if not i.practice)]
            self._sheets.setdefault(rater, _Sheet()).items += [(plan.digest, item) for item in practice_first]
            self._items |= {item.token: (rater, plan.digest, item) for item in items}

    def _add_file(self, file: AnswerFile, time: datetime) -> None:
        """Adds the answers of a file. Items keep an earlier answer, and answers of the file cannot be changed here."""
        kept = {token for token, known in self._answered.items() if known.counts}
        for answer in file.answers:
            if answer.token not in kept:
                self._add_answer(file.rater, answer, time)
        self._sheets[file.rater].last = ""

    def _add_answer(self, rater: str, answer: Answer, time: datetime) -> None:
        sheet = self._sheets[rater]
        known = self._answered.setdefault(answer.token, _AnsweredItem(time))
        known.last_too_fast = answer.milliseconds < MINIMUM_MILLISECONDS
        known.too_fast += known.last_too_fast
        if not known.last_too_fast:
            known.counts = True
            sheet.counted.append(answer.milliseconds)
        sheet.times.append(time)
        sheet.last = answer.token

    @property
    def is_over(self) -> bool:
        """Whether the scores are released: then the plan is public."""
        return self._over

    def forms(self, rater: str) -> Sequence[ItemForm]:
        """See `Rating.forms`."""
        sheet = self._sheets.get(rater, _Sheet())
        asked = {item.task for _, item in sheet.items}
        return [self._forms[kind] for kind in GradingTask if kind in asked]

    def own_answers(self, rater: str) -> OwnAnswers | None:
        """See `Rating.own_answers`."""
        sheet = self._sheets.get(rater)
        if sheet is None:
            return None
        pending = [] if self._over else self._pending(sheet)
        last = self._answered.get(sheet.last)
        counting = [item.token for _, item in sheet.items if not item.practice]
        middle = sorted(sheet.counted)[len(sheet.counted) // 2] if len(sheet.counted) >= OWN_PACE_FROM else None
        return OwnAnswers(
            next=self._shown(pending[0]) if pending else None,
            following=self._shown(pending[1]) if len(pending) > 1 else None,
            last=self._shown(self._items[sheet.last][2]) if last else None,
            last_given=last.first if last else None,
            done=len(counting) - sum(not item.practice for item in pending),
            asked=len(counting),
            practice_left=sum(item.practice for item in pending),
            times=tuple(sheet.times),
            pace=None if middle is None else timedelta(milliseconds=middle),
        )

    def _pending(self, sheet: _Sheet) -> list[PlannedItem]:
        """Returns the items to answer, practice first; after those without an answer come those answered too fast."""
        items = [item for _, item in sheet.items]
        found: list[PlannedItem] = []
        for practice in (True, False):
            own = [item for item in items if item.practice is practice]
            found += [item for item in own if item.token not in self._answered]
            found += [item for item in own if item.token in self._answered and self._answered[item.token].comes_back]
        return found

    def _shown(self, item: PlannedItem) -> RatedItem:
        return RatedItem(item.token, self._forms[item.task], item.practice)

    def item(self, rater: str, token: str) -> RatedItem | None:
        """See `Rating.item`."""
        owner, _, item = self._items.get(token, ("", "", None))
        return None if item is None or owner != rater else self._shown(item)

    def is_answered(self, token: str) -> bool:
        """See `Rating.is_answered`."""
        return token in self._answered

    def pictures(self, token: str, picture_of: PictureOf) -> Sequence[Pixels]:
        """See `Rating.pictures`."""
        return item_pictures(self._items[token][2], picture_of)

    def answer_event(self, rater: str, given: GivenAnswer) -> FormatEvent:
        """See `Rating.answer_event`."""
        _, plan, item = self._items[given.token]
        form = self._forms[item.task]
        unanswered = [
            Problem("answer", f"{question.text} has no answer", "choose one of the answers")
            for question in form.questions
            if given.choices.get(question.name) not in {choice.value for choice in question.choices}
        ]
        if unanswered:
            raise Rejected("answer", unanswered)
        answer = Answer(
            token=given.token,
            milliseconds=given.milliseconds,
            device_pixel_ratio=given.device_pixel_ratio,
            **_fields(item.task, given),
        )
        if fault := misfit(item, answer, len(self._task.classes)):
            raise Rejected("answer", [Problem("answer", fault, "load the page again")])
        return GradeGiven(actor=rater, task=self._task.name, plan=plan, rater=rater, answer=answer)


def _fields(kind: GradingTask, given: GivenAnswer) -> dict[str, int | bool | None]:
    """Returns the fields of an answer whose choices are valid for its form."""
    if kind is GradingTask.QUALITY:
        return {"grade": int(given.choices["grade"])}
    named = given.choices["class_index"]
    return {"class_index": None if named == _NO_CLASS else int(named), "proper": given.choices["proper"] == "yes"}


def _form(kind: GradingTask, task: Task, rules: GradingRules) -> ItemForm:
    _, height, width = task.shape
    scale = picture_scale(height, width)
    size = {"height": scale * height, "width": scale * width}
    if kind is GradingTask.QUALITY:
        grades = tuple(Choice(str(n), text, str(n)) for n, text in enumerate(rules.grades, start=1))
        return ItemForm(
            title="Two pictures side by side",
            wording=rules.wording[kind],
            explanation="The original is on the left, the submitted picture on the right. Choose a grade.",
            captions=("Original", "Submitted"),
            questions=(Question("grade", "Your grade", grades),),
            **size,
        )
    keys = class_keys(task.classes, without=UNDO_KEY)
    classes = [Choice(str(n), text, key) for n, (text, key) in enumerate(zip(task.classes, keys, strict=True))]
    proper = tuple(Choice("yes" if key == "y" else "no", text, key) for key, text in PROPER_KEYS.items())
    return ItemForm(
        title="A picture alone",
        wording=rules.wording[kind],
        explanation="Choose the class that you see, or “None of them”, and say whether it is a proper picture.",
        captions=("",),
        questions=(
            Question("class_index", "Which class is it?", (*classes, Choice(_NO_CLASS, "None of them", NO_CLASS_KEY))),
            Question("proper", "Is it a proper picture?", proper),
        ),
        **size,
    )
