"""Practice and hidden items: pictures whose class is known, which tell whether a rater looks (U6).

They are the public pictures of the contest's task. A rater first answers some as practice, and is told what each shows.
Later ones hide among the pictures of a week. Who is wrong too often about those is asked no more. What they answered
before stays: rulings and prizes follow from it, and a team may appeal.
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
    """How raters are tested. Without public pictures of the task they are not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    practice_items: Annotated[int, Field(ge=0)] = 5
    """What a rater answers first, and is told the class of."""
    hidden_percent: Annotated[int, Field(ge=0, le=50)] = 10
    """The share of hidden items among what a rater is asked later."""
    hidden_minimum: Annotated[int, Field(ge=1)] = 10
    """From so many hidden items on it is judged whether a rater is asked on."""
    right_percent: Percent = 80
    """The share of hidden items that a rater has to be right about."""


@dataclass(frozen=True, slots=True)
class KnownPicture:
    """A picture whose class is known, by the digest of its pixels."""

    pixels: str
    size: PictureSize
    shows: str


@dataclass
class RaterRecord:
    """What a rater has answered so far. `hidden_right` of `hidden` are right.

    `published` is how many hidden items were answered before the last week closed, and how many of them rightly: what
    is told at once would tell the rater which ones are hidden.
    """

    rated: int = 0
    practised: int = 0
    hidden: int = 0
    hidden_right: int = 0
    seen: set[str] = field(default_factory=set)
    """Digests of the known pictures that they answered about."""
    is_removed: bool = False
    published: tuple[int, int] = (0, 0)

    def learn(self, rules: RaterRules, pixels: str, *, right: bool, practice: bool) -> None:
        """Learns an answer about a known picture. Whoever is removed once stays removed."""
        self.seen.add(pixels)
        if practice:
            self.practised += 1
            return
        self.hidden += 1
        self.hidden_right += right
        if self.hidden >= rules.hidden_minimum and self.hidden_right * _PERCENT < self.hidden * rules.right_percent:
            self.is_removed = True


def is_right(answers: Answers | None, shows: str) -> bool:
    """Returns whether a rater sees the class that is there, and not the other one. How sure they are does not matter.

    Who hesitates is careful; who reports the picture is not right.
    """
    return answers is not None and all(
        (certainty in _YES) is (name == shows) for name, certainty in answers.presence.items()
    )


def next_test(
    rules: RaterRules, record: RaterRecord, known: Collection[KnownPicture], draw: int
) -> tuple[KnownPicture, bool] | None:
    """Returns the known picture that a rater is asked about next and whether it is practice; None for another picture.

    `draw` is a large number that follows from the rater and from how many items they answered, and that nobody can
    foretell: the same until they answer.
    """
    unseen = [each for each in known if each.pixels not in record.seen]
    practice = record.practised < rules.practice_items
    picked, share = divmod(draw, _PERCENT)
    if record.is_removed or not unseen or (not practice and share >= rules.hidden_percent):
        return None
    return unseen[picked % len(unseen)], practice
