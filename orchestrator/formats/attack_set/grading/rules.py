"""What a contest says of its human grading (C7), and the numbers that are the same in every contest."""

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.formats.attack_set.grading.sheets import GradingTask

MINIMUM_RATERS_PER_PICTURE = 3
"""Grades and answers about validity that a picture needs, those of raters who count."""
SPLIT_RATERS = 5
"""Answers that decide on validity where the first three do not agree."""
RANKED_RATERS = 15
"""Raters who count, below which human scores are only indicative (ITU-R BT.500, ITU-T P.910)."""
HIDDEN_SHARE = Fraction(15, 100)
"""Of a session: originals, anchors and repeats, in equal parts."""
MINIMUM_HIDDEN = 15
"""Originals and anchors, of each, that a rater grades: the rule that removes raters needs so many."""
MINIMUM_HIDDEN_VALID = 5
"""Originals and anchors, of each, among the questions about validity: they are reported and remove nobody."""
MINIMUM_GAP = Fraction(3, 2)
"""A rater whose mean grade of originals is less than so much above that of anchors is removed."""
PRACTICE_ITEMS = 10
"""Shown before each of the two tasks, and not counted."""
APPEALED_PICTURES = 5
"""The most pictures that one submission may appeal for."""
APPEAL_RATERS = 5
"""Further raters who look at an appealed picture, for both tasks."""

QUESTIONS = {
    GradingTask.VALID: "Which of these classes do you see, and is this a proper picture?",
    GradingTask.QUALITY: "How much does the submitted picture differ from the original beside it?",
}
GRADES = [
    "a very annoying difference",
    "an annoying difference",
    "a slightly annoying difference",
    "a difference that does not annoy",
    "no difference seen",
]


class GradingRules(BaseModel):
    """How people grade the submitted pictures (C7)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pictures: Literal["all"] | Annotated[int, Field(ge=1)] = "all"
    """Pictures of each submission that are graded; the same positions for everybody, drawn from the round's secret."""
    raters_per_picture: Annotated[int, Field(ge=MINIMUM_RATERS_PER_PICTURE)] = MINIMUM_RATERS_PER_PICTURE
    """Raters who grade the quality of each picture. Five leave a reserve where raters are removed."""
    distance: Annotated[int, Field(ge=1)] = 20
    """Other items that lie between two versions of one picture, at least."""
    session_size: Annotated[int, Field(ge=1)] = 300
    """Items after which the page proposes a break."""
    wording: dict[GradingTask, str] = QUESTIONS
    """What raters are asked."""
    grades: Annotated[list[str], Field(min_length=5, max_length=5)] = GRADES
    """What the grades 1 to 5 mean, worst first."""
