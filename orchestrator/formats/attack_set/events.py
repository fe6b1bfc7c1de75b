"""The attack-set contest's own events in a contest's ledger."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from orchestrator.domain.contest_events import FormatEvent, NameOf
from orchestrator.domain.text import counted_noun
from orchestrator.formats.attack_set.grading.plan import GradingPlan
from orchestrator.formats.attack_set.grading.sheets import Answer, AnswerFile, Digest, RaterId


class GradingPlanned(FormatEvent):
    """It was planned who grades what of a task; recorded before the first answer (rule C7).

    A plan whose `supplements` is a digest asks for answers in addition to the plan with that digest. `appeals` are the
    pictures, by submission, that it asks about because their team appealed.
    """

    kind: Literal["attack_set.grading_planned"] = "attack_set.grading_planned"
    task: str
    plan: GradingPlan
    appeals: dict[str, list[Annotated[int, Field(ge=0)]]] = Field(default_factory=dict)

    def summary(self) -> dict[str, str]:
        """Returns the sizes of the plan, without who grades what."""
        return {
            "task": self.task,
            "plan": self.plan.digest,
            "submissions": str(len(self.plan.submissions)),
            "pictures": str(len(self.plan.positions)),
            "raters": str(len(self.plan.raters)),
        }

    def in_words(self, _: NameOf) -> str:
        """Returns what was planned in words, without who grades what."""
        plan = self.plan
        did = "planned the grading" if plan.supplements is None else "asked raters for more grades"
        sizes = ((plan.positions, "picture"), (plan.submissions, "submission"), (plan.raters, "rater"))
        return f"{did} of {self.task}: {', '.join(counted_noun(len(each), one) for each, one in sizes)}"


class GradesReceived(FormatEvent):
    """A file of one rater's answers was received. Of several answers to an item, that in the first such file counts."""

    kind: Literal["attack_set.grades_received"] = "attack_set.grades_received"
    task: str
    file: AnswerFile

    def summary(self) -> dict[str, str]:
        """Returns the rater and the number of answers."""
        return {"task": self.task, "rater": self.file.rater, "answers": str(len(self.file.answers))}

    def in_words(self, _: NameOf) -> str:
        """Returns in words which rater's answers were received."""
        answers = counted_noun(len(self.file.answers), "answer")
        return f"took in a file of the rater {self.file.rater}: {answers} about {self.task}"


class GradeGiven(FormatEvent):
    """One rater answered one item on the site.

    A later answer to the same item replaces it: the site accepts one within a minute, and none after a file of the
    rater.

    `actor` is the rater's id, because it is published and the person's id is not.
    """

    changes_boards: ClassVar[bool] = False
    kind: Literal["attack_set.grade_given"] = "attack_set.grade_given"
    task: str
    plan: Digest
    rater: RaterId
    answer: Answer

    def summary(self) -> dict[str, str]:
        """Returns the rater, and that it is one answer."""
        return {"task": self.task, "rater": self.rater, "answers": "1"}

    def in_words(self, _: NameOf) -> str:
        """Returns in words what was answered, without the grade."""
        return f"graded a picture of {self.task}"


class ScoresReleased(FormatEvent):
    """The contest is over: from now on everybody sees exact leaderboards (rule C9)."""

    kind: Literal["attack_set.scores_released"] = "attack_set.scores_released"

    def in_words(self, _: NameOf) -> str:
        """Returns in words that the scores are released."""
        return "released the scores: everybody sees the boards as they are"


def plans_of(events: Sequence[FormatEvent], task: str) -> list[GradingPlanned]:
    """Returns the plans of a task in force: the latest plan of the round, then its supplements."""
    found: list[GradingPlanned] = []
    for event in events:
        if isinstance(event, GradingPlanned) and event.task == task:
            found = [event] if event.plan.supplements is None else [*found, event]
    return found


def answers_of(events: Sequence[FormatEvent], task: str) -> list[AnswerFile]:
    """Returns the raters' answers to the plans in force; those of one rater are in the order of the ledger.

    Answers that a rater gave one by one are combined into files like those that the grading page saves.
    """
    plans = {planned.plan.digest for planned in plans_of(events, task)}
    found: list[AnswerFile] = []
    single: dict[tuple[str, str], list[Answer]] = {}

    def put_together(plan: str, rater: str) -> None:
        if answers := single.pop((plan, rater), None):
            found.append(AnswerFile(plan=plan, rater=rater, answers=answers))

    for event in events:
        if isinstance(event, GradesReceived) and event.task == task and event.file.plan in plans:
            put_together(event.file.plan, event.file.rater)
            found.append(event.file)
        elif isinstance(event, GradeGiven) and event.task == task and event.plan in plans:
            single.setdefault((event.plan, event.rater), []).append(event.answer)
    for plan, rater in list(single):
        put_together(plan, rater)
    return found
