"""A form that asks about one picture in steps. On the server, the answers so far decide the next step."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.domain.human_grading import Question

BOX_EDGES = ("left", "top", "right", "bottom")
"""The edges of a box. Its fields have the names `box.left` and so on, and hold whole pixels of the picture."""


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """An answer of an earlier step: the field's name and value, and the question and answer in words."""

    name: str
    value: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class FormStep:
    """One step of the form.

    Attributes:
        name: of the step; a form sends it as the field `step`.
        questions: the questions besides the box; the name of a question is that of its field.
        box: the question that a box answers, "" if the step asks for none.
        introduction: a text above the questions, "" for none.
        earlier: the answers of earlier steps, which a form sends again.
        values: the values that were sent for the fields of this step, by name.
        problems: what is wrong with a field, or with `box`, by name; empty for a new step.
    """

    name: str
    questions: tuple[Question, ...]
    box: str = ""
    introduction: str = ""
    earlier: tuple[EarlierAnswer, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


class MultiStepForm(ABC):
    """All questions to one rater about one picture of `height` x `width` pixels."""

    height: int
    width: int

    @abstractmethod
    def next_step(self, sent: Mapping[str, str]) -> FormStep | None:
        """Returns the step to answer next, given the fields that were sent; None if all answers are complete and valid.

        Without fields, or if `step` is missing, it is the first step; its fields keep the values that were sent.
        """

    @abstractmethod
    def document(self, sent: Mapping[str, str]) -> dict[str, object]:
        """Returns the fields that were sent as a JSON object, without fields that were not asked for."""
