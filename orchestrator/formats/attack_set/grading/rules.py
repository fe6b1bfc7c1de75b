"""The settings of a contest's human grading (C7), and the constants that are the same in every contest."""

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.formats.attack_set.grading.sheets import GradingTask

MINIMUM_RATERS_PER_PICTURE = 3
"""How many grades, and how many answers about validity, of raters who count a picture needs."""
SPLIT_RATERS = 5
"""How many answers decide on validity if the first three do not agree."""
RANKED_RATERS = 15
"""With fewer raters who count, human scores are only indicative (ITU-R BT.500, ITU-T P.910)."""
HIDDEN_SHARE = Fraction(15, 100)
"""The share of hidden items: originals, anchors and repeats, in equal parts."""
MINIMUM_HIDDEN = 15
"""How many originals, and how many anchors, a rater has to grade for the rule that removes raters."""
MINIMUM_HIDDEN_VALID = 5
"""How many originals, and how many anchors, are among the questions about validity. They remove nobody."""
MINIMUM_GAP = Fraction(3, 2)
"""A rater is removed whose mean grade of originals exceeds that of anchors by less than this."""
PRACTICE_ITEMS = 10
"""The number of practice items before each of the two tasks; they are not counted."""
APPEALED_PICTURES = 5
"""The largest number of pictures of one submission in an appeal."""
APPEAL_RATERS = 5
"""How many further raters grade an appealed picture, for both tasks."""

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
    """How many pictures of each submission are graded: the same positions for all, drawn from the round's secret."""
    raters_per_picture: Annotated[int, Field(ge=MINIMUM_RATERS_PER_PICTURE)] = MINIMUM_RATERS_PER_PICTURE
    """How many raters grade the quality of each picture. Five are a reserve in case raters are removed."""
    distance: Annotated[int, Field(ge=1)] = 20
    """The smallest number of other items between two versions of one picture."""
    session_size: Annotated[int, Field(ge=1)] = 300
    """Items after which the page proposes a break."""
    wording: dict[GradingTask, str] = QUESTIONS
    """The questions to raters."""
    grades: Annotated[list[str], Field(min_length=5, max_length=5)] = GRADES
    """What the grades 1 to 5 mean, worst first."""
