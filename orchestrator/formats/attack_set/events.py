"""The attack-set contest's own events in a contest's ledger."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from orchestrator.domain.contest_events import FormatEvent
from orchestrator.formats.attack_set.grading.plan import GradingPlan
from orchestrator.formats.attack_set.grading.sheets import AnswerFile


class GradingPlanned(FormatEvent):
    """Who grades what of a task, noted before the first answer (rule C7).

    A plan whose `supplements` is a digest asks for more answers than the plan with that digest. `appeals` are the
    pictures, by submission, that it asks about because their team appealed.
    """

    kind: Literal["attack_set.grading_planned"] = "attack_set.grading_planned"
    task: str
    plan: GradingPlan
    appeals: dict[str, list[Annotated[int, Field(ge=0)]]] = Field(default_factory=dict)

    def summary(self) -> dict[str, str]:
        """Returns how much is graded by how many, and nothing of who grades what."""
        return {
            "task": self.task,
            "plan": self.plan.digest,
            "submissions": str(len(self.plan.submissions)),
            "pictures": str(len(self.plan.positions)),
            "raters": str(len(self.plan.raters)),
        }


class GradesReceived(FormatEvent):
    """What one rater answered. Of several files of a rater the later answer to an item counts."""

    kind: Literal["attack_set.grades_received"] = "attack_set.grades_received"
    task: str
    file: AnswerFile

    def summary(self) -> dict[str, str]:
        """Returns whose answers they are and how many."""
        return {"task": self.task, "rater": self.file.rater, "answers": str(len(self.file.answers))}


class ScoresReleased(FormatEvent):
    """The contest is over: from now on everybody sees the boards as they are (rule C9)."""

    kind: Literal["attack_set.scores_released"] = "attack_set.scores_released"


def plans_of(events: Sequence[FormatEvent], task: str) -> list[GradingPlanned]:
    """Returns the plans of a task, the round's first and then its supplements; a new plan replaces all before it."""
    found: list[GradingPlanned] = []
    for event in events:
        if isinstance(event, GradingPlanned) and event.task == task:
            found = [event] if event.plan.supplements is None else [*found, event]
    return found


def answers_of(events: Sequence[FormatEvent], task: str) -> list[AnswerFile]:
    """Returns what raters answered to the plans in force, in the order in which it came."""
    plans = {planned.plan.digest for planned in plans_of(events, task)}
    received = (event for event in events if isinstance(event, GradesReceived) and event.task == task)
    return [event.file for event in received if event.file.plan in plans]
