"""Questions about one picture that are asked in steps: what was answered decides, on the server, what is asked next."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.domain.human_grading import Question

BOX_EDGES = ("left", "top", "right", "bottom")
"""The fields of a box are called `box.left` and so on. They hold whole pixels of the picture."""


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """What was answered in an earlier step: the field's name and value, and the question and answer in words."""

    name: str
    value: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class FormStep:
    """What is asked at a time.

    Attributes:
        name: of the step; a form sends it as the field `step`.
        questions: what is asked beside the box; the name of a question is that of its field.
        box: the question that a box answers, "" where none is asked for.
        introduction: what stands above the questions, "" for nothing.
        earlier: what was answered before; a form sends it along.
        values: what was sent for the fields of this step, by their names.
        problems: what is wrong with a field, or with `box`, by its name; empty for a step that is new.
    """

    name: str
    questions: tuple[Question, ...]
    box: str = ""
    introduction: str = ""
    earlier: tuple[EarlierAnswer, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


class SteppedForm(ABC):
    """All that one rater is asked about one picture of `height` x `width` pixels."""

    height: int
    width: int

    @abstractmethod
    def next_step(self, sent: Mapping[str, str]) -> FormStep | None:
        """Returns what has to be answered next after what was sent, None where everything is answered rightly.

        Nothing sent, or fields without `step`, gives the first step; its fields keep the values that were sent.
        """

    @abstractmethod
    def document(self, sent: Mapping[str, str]) -> dict[str, object]:
        """Returns what was sent as JSON has it; fields that were not asked for are left out."""
