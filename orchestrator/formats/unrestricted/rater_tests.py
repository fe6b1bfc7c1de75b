"""Practice and hidden items: pictures whose class is known, which test whether a rater looks carefully (U6).

They are the public pictures of the contest's task. A rater first answers some as practice, and is told what each shows.
Later ones are hidden among the pictures of a week. A rater who is wrong too often about these is removed and asked no
more. The rater's earlier answers stay, because rulings and prizes follow from them, and a team may appeal.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.formats.unrestricted.bounding_boxes import PictureSize
from orchestrator.formats.unrestricted.questionnaire import Answers, Certainty
from orchestrator.formats.unrestricted.validity import Percent

_YES = (Certainty.DEFINITELY_YES, Certainty.PROBABLY_YES)
_PERCENT = 100


class RaterRules(BaseModel):
    """How raters are tested. They are not tested if the task has no public pictures."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    practice_items: Annotated[int, Field(ge=0)] = 5
    """How many practice items a rater answers first; the rater is told the class of each."""
    hidden_percent: Annotated[int, Field(ge=0, le=50)] = 10
    """The percentage of hidden items among the items that a rater is asked later."""
    hidden_minimum: Annotated[int, Field(ge=1)] = 10
    """After how many hidden items a rater can be removed."""
    right_percent: Percent = 80
    """The percentage of hidden items that a rater has to be right about."""


@dataclass(frozen=True, slots=True)
class KnownPicture:
    """A picture whose class is known. `pixels` is the digest of its pixels."""

    pixels: str
    size: PictureSize
    shows: str


@dataclass
class RaterRecord:
    """A rater's record so far. Of `hidden` answers about hidden items, `hidden_right` are right.

    `published` has both numbers at the time when the last week closed. Newer numbers are not published, because they
    would show the rater which items are hidden.
    """

    rated: int = 0
    practised: int = 0
    hidden: int = 0
    hidden_right: int = 0
    seen: set[str] = field(default_factory=set)
    """Digests of the known pictures that the rater answered about."""
    is_removed: bool = False
    published: tuple[int, int] = (0, 0)

    def add_answer(self, rules: RaterRules, pixels: str, *, right: bool, practice: bool) -> None:
        """Counts an answer about a known picture, and removes a rater who is wrong too often. Removal is permanent."""
        self.seen.add(pixels)
        if practice:
            self.practised += 1
            return
        self.hidden += 1
        self.hidden_right += right
        if self.hidden >= rules.hidden_minimum and self.hidden_right * _PERCENT < self.hidden * rules.right_percent:
            self.is_removed = True


def is_right(answers: Answers | None, shows: str) -> bool:
    """Returns whether a rater sees the class that is there and not the other one, whether definitely or probably.

    An unsure rater is careful, and counts as right. A report of the picture counts as wrong.
    """
    return answers is not None and all(
        (certainty in _YES) is (name == shows) for name, certainty in answers.presence.items()
    )


def next_test(
    rules: RaterRules, record: RaterRecord, known: Collection[KnownPicture], draw: int
) -> tuple[KnownPicture, bool] | None:
    """Returns the known picture that a rater is asked about next, and whether it is practice; None for no such picture.

    `draw` is a large number that depends on the rater and on the number of answered items, so it is the same until the
    rater answers. Nobody can predict it.
    """
    unseen = [each for each in known if each.pixels not in record.seen]
    practice = record.practised < rules.practice_items
    picked, share = divmod(draw, _PERCENT)
    if record.is_removed or not unseen or (not practice and share >= rules.hidden_percent):
        return None
    return unseen[picked % len(unseen)], practice
