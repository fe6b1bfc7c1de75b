"""What raters are asked about a picture, and what they answer (U6).

The questions are those of the proposal of 2018 (docs/unrestricted.md), word for word, except the third: the proposal
judges by a bounding box, so question 3 asks for the box and not for the object's pixels. Questions 3 and 4 are asked
only if the rater said that one class definitely is not in the picture, and is sure or guesses that the other one is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.domain.field_errors import FieldError, field_errors
from orchestrator.domain.human_grading import Choice, Question
from orchestrator.domain.text import printable
from orchestrator.errors import Problem
from orchestrator.formats.unrestricted.bounding_boxes import Box, PictureSize

_MAX_PROBLEMS: Final = 20


class Certainty(StrEnum):
    """How sure a rater is that a picture contains a class."""

    DEFINITELY_YES = "definitely_yes"
    PROBABLY_YES = "probably_yes"
    PROBABLY_NO = "probably_no"
    DEFINITELY_NO = "definitely_no"


_CERTAINTY_LABELS: Final = {
    Certainty.DEFINITELY_YES: "Definitely yes (and I am confident that no other tasker will guess “no”)",
    Certainty.PROBABLY_YES: "I'm not sure, but my best guess is yes",
    Certainty.PROBABLY_NO: "I'm not sure, but my best guess is no",
    Certainty.DEFINITELY_NO: "Definitely no (and I am confident that no other tasker will guess “yes”)",
}
_KEYS: Final = "12345678"
"""The keys that choose the answers on a page, in the order of the answers."""


class ObjectClass(BaseModel):
    """One of the two classes of the contest, with the words of the questions about it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    article: str = "a"
    depictions: str
    """Examples of objects that do not count as real, such as "a toy bird, a painting of a bird"."""
    real: str
    """The words for a real object, such as "real, live bird"."""

    @property
    def with_article(self) -> str:
        """Returns the name with its article: "a bird"."""
        return f"{self.article} {self.name}"


BIRD: Final = ObjectClass(
    name="bird",
    depictions="a toy bird, a painting of a bird, a stuffed animal bird, a cartoon bird",
    real="real, live bird",
)
BICYCLE: Final = ObjectClass(
    name="bicycle", depictions="a drawing of a bicycle, a model bicycle, a toy bicycle", real="real bicycle"
)


class Statements(BaseModel):
    """Which of the three statements about the object in the box are true."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    complete: Annotated[bool, Field(strict=True)]
    unoccluded: Annotated[bool, Field(strict=True)]
    real: Annotated[bool, Field(strict=True)]


class Answers(BaseModel):
    """What one rater answered about one picture. `Questionnaire.problems` checks it against the questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    presence: dict[str, Certainty]
    """Name of each class -> how sure the rater is that the picture contains it."""
    box: Box | None = None
    """The smallest box around the largest object; None if it was not asked for."""
    statements: Statements | None = None
    """None if they were not asked for."""


@dataclass(frozen=True, slots=True)
class Questionnaire:
    """The questions about a picture that shows one of two classes."""

    classes: tuple[ObjectClass, ObjectClass] = (BIRD, BICYCLE)

    def __post_init__(self) -> None:
        """Raises ValueError if both classes have the same name."""
        if self.classes[0].name == self.classes[1].name:
            raise ValueError(f"both classes are called {self.classes[0].name!r}; give each its own name")

    def presence_questions(self) -> tuple[Question, Question]:
        """Returns questions 1 and 2. The name of each is the path of its answer, such as `presence.bird`."""
        one, other = (
            Question(
                f"presence.{each.name}",
                f"Does this photo contain {each.with_article}, or a depiction of {each.with_article} "
                f"(e.g., {each.depictions}) anywhere in the image?",
                tuple(
                    Choice(value, label, key)
                    for (value, label), key in zip(_CERTAINTY_LABELS.items(), keys, strict=True)
                ),
            )
            for each, keys in zip(self.classes, (_KEYS[:4], _KEYS[4:]), strict=True)
        )
        return one, other

    def asked_about(self, presence: Mapping[str, Certainty]) -> ObjectClass | None:
        """Returns the class that questions 3 and 4 are about, None if they are not asked.

        They are asked if the rater says that one class definitely is not there, and that the other one is, definitely
        or as a best guess.
        """
        yes = (Certainty.DEFINITELY_YES, Certainty.PROBABLY_YES)
        for seen, other in (self.classes, self.classes[::-1]):
            if presence.get(seen.name) in yes and presence.get(other.name) is Certainty.DEFINITELY_NO:
                return seen
        return None

    def box_question(self, seen: ObjectClass) -> str:
        """Returns question 3, whose answer is a box."""
        return (
            f"For the largest single {seen.name} in the image, draw the smallest box that contains all of the "
            f"{seen.name}. (If there are multiple that are the same size, then choose one at random.)"
        )

    def statement_questions(self, seen: ObjectClass) -> tuple[Question, ...]:
        """Returns the statements of question 4. The name of each is its answer's path, such as `statements.real`."""
        name = seen.name
        texts = {
            "complete": f"This {name} is complete and not truncated. It does not go outside of the image at all",
            "unoccluded": f"This {name} is not occluded by anything else. I can see all of the {name}",
            "real": f"This is a picture of a {seen.real}. It is not a painting, drawing, sculpture, toy, stuffed "
            f"animal, or any other sort of depiction. (It is okay if the object is a photorealistic rendering of "
            f"{seen.with_article}.)",
        }
        return tuple(
            Question(
                f"statements.{field}",
                text,
                (Choice("true", "True", _KEYS[2 * number]), Choice("false", "False", _KEYS[2 * number + 1])),
            )
            for number, (field, text) in enumerate(texts.items())
        )

    def problems(self, document: object, size: PictureSize) -> list[Problem]:
        """Returns everything that is wrong or missing in the answers about a picture.

        Args:
            document: the answers as in JSON, such as `Answers.model_dump(mode="json")`.
            size: the size of the picture; the box has to lie inside it.
        """
        found = []
        try:
            Answers.model_validate(document)
        except ValidationError as error:
            found = [_problem(each) for each in field_errors(error, Answers)[:_MAX_PROBLEMS]]
        if not isinstance(document, Mapping):
            return found
        presence = document.get("presence")
        if isinstance(presence, Mapping):
            found += self._presence_problems(presence)
            found += self._branch_problems(presence, document)
        return found + _outside_problems(document.get("box"), size)

    def _presence_problems(self, presence: Mapping[object, object]) -> list[Problem]:
        names = [each.name for each in self.classes]
        unknown = [name for name in presence if name not in names][:_MAX_PROBLEMS]
        remedy = f"answer about {names[0]} and {names[1]} only"
        return [
            Problem(f"presence.{name}", "no answer to this question", "choose one of its four answers")
            for name in names
            if name not in presence
        ] + [Problem(f"presence.{printable(str(name), 60)}", "not a class of this contest", remedy) for name in unknown]

    def _branch_problems(self, presence: Mapping[str, Any], document: Mapping[str, Any]) -> list[Problem]:
        """Returns what is wrong with box and statements: they have to be there exactly if they are asked for."""
        try:
            known = {each.name: Certainty(presence[each.name]) for each in self.classes}
        except (KeyError, ValueError):
            return []
        seen = self.asked_about(known)
        given = [part for part in ("box", "statements") if document.get(part) is not None]
        if seen is None:
            what = (
                "is not asked for, because the answers do not say that one class is there and the other definitely not"
            )
            return [Problem(part, what, "leave it out") for part in given]
        missing = []
        if "box" not in given:
            missing.append(Problem("box", "no answer to this question", f"draw a box around the largest {seen.name}"))
        if "statements" not in given:
            missing += [
                Problem(f"statements.{field}", "no answer to this question", "choose true or false")
                for field in Statements.model_fields
            ]
        return missing


def _problem(error: FieldError) -> Problem:
    """Returns the problem of a field in words for raters, who answer questions and do not write keys."""
    found = error.problem("answers")
    return Problem(found.place, "no answer to this question") if found.what == "missing" else found


def _outside_problems(box: object, size: PictureSize) -> list[Problem]:
    """Returns a problem for each edge of a box that lies right of or below the picture."""
    if not isinstance(box, Mapping):
        return []
    limits = {"left": size.width, "top": size.height, "right": size.width, "bottom": size.height}
    return [
        Problem(f"box.{edge}", f"{box[edge]} lies outside the picture", f"write at most {limit}")
        for edge, limit in limits.items()
        if type(box.get(edge)) is int and box[edge] > limit
    ]
