"""The questionnaire as a form in two steps: questions 1 and 2, then, if their answers require it, 3 and 4 (U6)."""

import re
from collections.abc import Mapping
from typing import Final

from orchestrator.domain.multi_step_form import BOX_EDGES, EarlierAnswer, FormStep, MultiStepForm
from orchestrator.errors import Problem
from orchestrator.formats.unrestricted.bounding_boxes import PictureSize
from orchestrator.formats.unrestricted.questionnaire import Certainty, ObjectClass, Questionnaire, Statements

PRESENCE_STEP: Final = "presence"
OBJECT_STEP: Final = "object"
_PIXELS: Final = re.compile("[0-9]{1,9}")
_TRUTH: Final = {"true": True, "false": False}


class RatingForm(MultiStepForm):
    """The form about one picture. The name of a field is the path of its answer in JSON, such as `presence.bird`."""

    def __init__(self, questionnaire: Questionnaire, size: PictureSize) -> None:
        self.height, self.width = size.height, size.width
        self._questionnaire, self._size = questionnaire, size

    def next_step(self, sent: Mapping[str, str]) -> FormStep | None:
        """See `MultiStepForm.next_step`."""
        came_from = sent.get("step", "")
        found = {each.place: _in_words(each) for each in self._questionnaire.problems(self.document(sent), self._size)}
        if came_from not in {PRESENCE_STEP, OBJECT_STEP}:
            return self._presence_step(sent, {})
        if any(question.name in found for question in self._questionnaire.presence_questions()):
            return self._presence_step(sent, found)
        seen = self._asked_about(sent)
        if seen is None or (came_from == OBJECT_STEP and not found):
            return None
        return self._object_step(seen, sent, found if came_from == OBJECT_STEP else {})

    def document(self, sent: Mapping[str, str]) -> dict[str, object]:
        """See `MultiStepForm.document`."""
        names = [each.name for each in self._questionnaire.classes]
        presence = {name: sent[f"presence.{name}"] for name in names if sent.get(f"presence.{name}")}
        if self._asked_about(sent) is None:
            return {"presence": presence}
        edges = {edge: sent[f"box.{edge}"].strip() for edge in BOX_EDGES if sent.get(f"box.{edge}", "").strip()}
        statements = {
            name: sent[f"statements.{name}"] for name in Statements.model_fields if sent.get(f"statements.{name}")
        }
        return {
            "presence": presence,
            "box": {edge: int(text) if _PIXELS.fullmatch(text) else text for edge, text in edges.items()},
            "statements": {name: _TRUTH.get(text, text) for name, text in statements.items()},
        }

    def _asked_about(self, sent: Mapping[str, str]) -> ObjectClass | None:
        """Returns the class of questions 3 and 4, None if they are not asked or the sent values are no answers."""
        values = {each.name: sent.get(f"presence.{each.name}", "") for each in self._questionnaire.classes}
        known = {name: Certainty(value) for name, value in values.items() if value in set(Certainty)}
        return self._questionnaire.asked_about(known)

    def _presence_step(self, sent: Mapping[str, str], problems: Mapping[str, str]) -> FormStep:
        questions = self._questionnaire.presence_questions()
        values = {each.name: sent.get(each.name, "") for each in questions}
        return FormStep(PRESENCE_STEP, questions, values=values, problems=problems)

    def _object_step(self, seen: ObjectClass, sent: Mapping[str, str], problems: Mapping[str, str]) -> FormStep:
        earlier = []
        for question in self._questionnaire.presence_questions():
            value = sent[question.name]
            answer = next(choice.label for choice in question.choices if choice.value == value)
            earlier.append(EarlierAnswer(question.name, value, question.text, answer))
        statements = self._questionnaire.statement_questions(seen)
        fields = [*(f"box.{edge}" for edge in BOX_EDGES), *(each.name for each in statements)]
        return FormStep(
            OBJECT_STEP,
            statements,
            box=self._questionnaire.box_question(seen),
            introduction=f"Please answer the following True/False statements about the labeled {seen.name}.",
            earlier=tuple(earlier),
            values={name: sent.get(name, "") for name in fields},
            problems=problems,
        )


def _in_words(problem: Problem) -> str:
    """Returns a problem as the sentence that is shown beside its field."""
    return f"{problem.what[:1].upper()}{problem.what[1:]}" + (f"; {problem.remedy}." if problem.remedy else ".")
