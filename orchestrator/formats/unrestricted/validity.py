"""Decides whether a picture is valid, by the answers of its raters (U6), and of an appeal's new raters (U8).

Raters are known by their ids only. The module `rater_tests` tests the raters themselves.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from orchestrator.domain.text import counted_noun
from orchestrator.formats.unrestricted.bounding_boxes import (
    Box,
    PictureSize,
    area_share,
    intersection_over_union,
    median_box,
)
from orchestrator.formats.unrestricted.questionnaire import Answers, Certainty, ObjectClass, Questionnaire

_DEFINITE = (Certainty.DEFINITELY_YES, Certainty.DEFINITELY_NO)
Percent = Annotated[int, Field(ge=1, le=100)]


class ValidityRules(BaseModel):
    """When a picture counts as valid; the defaults are those of the proposal of 2018."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    raters_per_picture: Annotated[int, Field(ge=3)] = 3
    """How many raters answer before a picture is ruled on; one more answers if their boxes disagree."""
    minimum_area_percent: Percent = 25
    """The share of the picture that the box around the largest object has to cover."""
    minimum_iou_percent: Percent = 50
    """A box disagrees if its intersection over union with the median box is below this."""
    appeal_raters: Annotated[int, Field(ge=1)] = 5
    """How many new raters answer if a team appeals against a ruling."""
    appeal_majority: Annotated[int, Field(ge=1)] = 4
    """How many of them have to agree."""

    @model_validator(mode="after")
    def _appeals_can_be_decided_in_one_way(self) -> Self:
        if not self.appeal_raters < 2 * self.appeal_majority <= 2 * self.appeal_raters:
            raise ValueError(
                f"appeal_majority is {self.appeal_majority}; write more than half of the {self.appeal_raters} "
                "appeal_raters, and at most all of them"
            )
        return self


@dataclass(frozen=True, slots=True)
class Rating:
    """What one rater said about a picture: `answers` that fit the questionnaire, or None for a report.

    A rater reports a picture that nobody should see, such as illegal content, and then answers no question.
    """

    rater: str
    answers: Answers | None


class Outcome(StrEnum):
    """The outcome of the ratings of a picture."""

    VALID = "valid"
    INVALID = "invalid"
    MORE_RATERS = "more_raters"
    """`Ruling.more_raters` further raters have to answer first."""
    REPORTED = "reported"
    """No further rater sees it until the board has decided about the report."""
    UNDECIDED = "undecided"
    """Only for an appeal: too few of its raters agree. The ruling stands unless the board decides otherwise in time."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What follows from the ratings of a picture.

    Attributes:
        outcome: the outcome.
        reasons: why, each a sentence without its full stop; empty for a valid picture.
        raters: ids of the raters whose ratings count, sorted.
        class_name: the class that a valid picture shows; None for any other picture.
        more_raters: how many further raters have to answer.
        share: the share of the picture in the smallest box that counts; None if the boxes did not matter.
        set_aside: the rater whose box does not count because it alone disagrees with the median; "" for none.
    """

    outcome: Outcome
    reasons: tuple[str, ...] = ()
    raters: tuple[str, ...] = ()
    class_name: str | None = None
    more_raters: int = 0
    share: Fraction | None = None
    set_aside: str = ""


@dataclass(frozen=True, slots=True)
class Judge:
    """Rules on pictures of one size under the rules of one contest. The order of ratings never matters."""

    size: PictureSize
    rules: ValidityRules
    questionnaire: Questionnaire

    def rule_on_picture(self, ratings: Sequence[Rating]) -> Ruling:
        """Returns the ruling that follows from the ratings of a picture (U6).

        The caller leaves out reports that the board dismissed. If the boxes of `raters_per_picture` raters disagree,
        one more rater answers first. If then only one box disagrees with the median, it does not count, because enough
        others remain. If several do, the smallest of all boxes counts, as in the proposal of 2018.

        Raises:
            ValueError: two ratings are of the same rater, or one has no box or statements though they were asked for.
        """
        counting = _counting(ratings)
        if waiting := _waiting(counting, self.rules.raters_per_picture):
            return waiting
        views = [self._view(rating) for rating in counting]
        reasons = [reason for view in views for reason in view.reasons]
        if len({view.seen for view in views if view.seen}) > 1:
            said = ", ".join(f"{view.rater} {view.seen.with_article}" for view in views if view.seen)
            reasons.append(f"raters see different classes: {said}")
        if reasons:
            return Ruling(Outcome.INVALID, tuple(reasons), _raters(counting))
        return self._rule_on_boxes(views)

    def rule_on_appeal(self, panel: Sequence[Rating], earlier: Collection[str]) -> Ruling:
        """Returns the ruling of an appeal's raters: enough of them have to agree that it is valid, or not valid (U8).

        They answer the same questionnaire. Each of their boxes is judged alone: it has to be large enough.

        Args:
            panel: the ratings of the appeal's raters.
            earlier: ids of the raters who rated the picture before the appeal.

        Raises:
            ValueError: two ratings are of the same rater, one has no box or statements though they were asked for, a
                rater is not new, or there are too many raters.
        """
        counting = _counting(panel)
        raters = _raters(counting)
        if old := sorted({*raters} & {*earlier}):
            raise ValueError(f"{', '.join(old)} rated the picture before; an appeal needs new raters")
        if len(raters) > self.rules.appeal_raters:
            raise ValueError(f"{len(raters)} raters answered for an appeal; {self.rules.appeal_raters} are asked")
        if waiting := _waiting(counting, self.rules.appeal_raters):
            return waiting
        small = self._too_small
        views = [self._view(rating) for rating in counting]
        reasons = [(*view.reasons, *(small(view.box, view.rater) if view.box else ())) for view in views]
        against = tuple(reason for own in reasons for reason in own)
        valid = [view for view, own in zip(views, reasons, strict=True) if not own]
        votes = Counter(view.seen.name for view in valid if view.seen)
        name, most = max(votes.items(), key=lambda vote: vote[1], default=("", 0))
        if most >= self.rules.appeal_majority:
            boxes = [view.box for view in valid if view.box and view.seen and view.seen.name == name]
            share = min(area_share(box, self.size) for box in boxes)
            return Ruling(Outcome.VALID, raters=raters, class_name=name, share=share)
        if len(views) - len(valid) >= self.rules.appeal_majority:
            return Ruling(Outcome.INVALID, against, raters)
        said = [
            f"{count} of {len(raters)} raters find that it is valid and shows: {seen}"
            for seen, count in sorted(votes.items())
        ]
        return Ruling(Outcome.UNDECIDED, (*said, *against), raters)

    def _view(self, rating: Rating) -> "_View":
        """Returns what a rater sees in the picture, and why that makes it invalid, apart from the size of the box."""
        answers, rater = rating.answers, rating.rater
        if answers is None:
            raise ValueError(f"{rater} reported the picture and answered nothing")
        classes = self.questionnaire.classes
        definite = {each.name: answers.presence[each.name] for each in classes}
        reasons = [
            f"{rater} is not sure whether there is {each.with_article}"
            for each in classes
            if definite[each.name] not in _DEFINITE
        ]
        asked = self.questionnaire.asked_about(answers.presence)
        if not reasons and asked is None:
            one, other = (each.with_article for each in classes)
            both = Certainty.DEFINITELY_YES in definite.values()
            reasons.append(f"{rater} sees {one} and {other}" if both else f"{rater} sees neither {one} nor {other}")
        if asked is None:
            return _View(rater, None, None, tuple(reasons))
        if answers.box is None or answers.statements is None:
            raise ValueError(f"the answers of {rater} have no box or no statements; the questionnaire asks for both")
        faults = {
            "complete": f"the {asked.name} is truncated",
            "unoccluded": f"the {asked.name} is occluded",
            "real": f"it is no {asked.real}",
        }
        reasons += [
            f"{rater} says that {fault}" for name, fault in faults.items() if not getattr(answers.statements, name)
        ]
        sure = answers.presence[asked.name] is Certainty.DEFINITELY_YES
        return _View(rater, asked if sure else None, answers.box, tuple(reasons))

    def _rule_on_boxes(self, views: Sequence["_View"]) -> Ruling:
        """Returns the ruling in case all raters see the same class and only the boxes are left to judge."""
        boxes = {view.rater: view.box for view in views if view.box}
        median = median_box(list(boxes.values()))
        least = Fraction(self.rules.minimum_iou_percent, 100)
        disagreeing = [rater for rater, box in boxes.items() if intersection_over_union(box, median) < least]
        if disagreeing and len(boxes) == self.rules.raters_per_picture:
            reason = f"boxes that disagree with the median of all boxes: {', '.join(disagreeing)}"
            return Ruling(Outcome.MORE_RATERS, (reason,), tuple(boxes), more_raters=1)
        set_aside = disagreeing[0] if len(disagreeing) == 1 else ""
        rater = min((each for each in boxes if each != set_aside), key=lambda each: boxes[each].area)
        share = area_share(boxes[rater], self.size)
        if reasons := self._too_small(boxes[rater], rater):
            return Ruling(Outcome.INVALID, reasons, tuple(boxes), share=share, set_aside=set_aside)
        seen = next(view.seen.name for view in views if view.seen)
        return Ruling(Outcome.VALID, (), tuple(boxes), seen, share=share, set_aside=set_aside)

    def _too_small(self, box: Box, rater: str) -> tuple[str, ...]:
        """Returns the reason why an object in a box is too small; nothing if it is large enough, even exactly."""
        share, percent = area_share(box, self.size), self.rules.minimum_area_percent
        if share >= Fraction(percent, 100):
            return ()
        pixels = self.size.height * self.size.width
        return (f"the box of {rater} covers {box.area} of {pixels} pixels, less than {percent} %",)


@dataclass(frozen=True, slots=True)
class _View:
    """What one rater sees: `seen` is the only class that is definitely there, or None; `reasons`: why it is invalid."""

    rater: str
    seen: ObjectClass | None
    box: Box | None
    reasons: tuple[str, ...]


def _counting(ratings: Sequence[Rating]) -> list[Rating]:
    """Returns the ratings, sorted by rater. Raises ValueError if a rater has two."""
    counting = sorted(ratings, key=lambda each: each.rater)
    if twice := [one.rater for one, other in pairwise(counting) if one.rater == other.rater]:
        raise ValueError(f"several ratings of {', '.join(twice)}; give only the one that counts")
    return counting


def _raters(ratings: Sequence[Rating]) -> tuple[str, ...]:
    return tuple(each.rater for each in ratings)


def _waiting(counting: Sequence[Rating], needed: int) -> Ruling | None:
    """Returns why there is no ruling yet: a report, or too few ratings. None if there are enough."""
    if reporters := [each.rater for each in counting if each.answers is None]:
        return Ruling(
            Outcome.REPORTED, tuple(f"{rater} reported the picture" for rater in reporters), _raters(counting)
        )
    missing = needed - len(counting)
    if missing <= 0:
        return None
    reason = f"{len(counting)} of {counted_noun(needed, 'rater')} answered"
    return Ruling(Outcome.MORE_RATERS, (reason,), _raters(counting), more_raters=missing)
