"""Whether a picture is valid, by what all of its raters answered (U6), and by an appeal's new raters (U8).

Raters are known by their ids alone. What tests the raters themselves is apart (`rater_tests`).
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
    """What a valid picture has to have; the defaults are those of the proposal of 2018."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    raters_per_picture: Annotated[int, Field(ge=3)] = 3
    """Raters who answer before a picture is ruled on; one more answers where their boxes disagree."""
    minimum_area_percent: Percent = 25
    """The share of the picture that the largest object covers at least."""
    minimum_iou_percent: Percent = 50
    """Intersection over union of a rater's box with the median box, below which the box disagrees."""
    appeal_raters: Annotated[int, Field(ge=1)] = 5
    """New raters who answer where a ruling is appealed."""
    appeal_majority: Annotated[int, Field(ge=1)] = 4
    """How many of them have to say the same."""

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
    """What one rater said of a picture: `answers` that fit the questionnaire, or None for a report.

    A rater reports what nobody should be shown, such as illegal content, and then answers nothing.
    """

    rater: str
    answers: Answers | None


class Outcome(StrEnum):
    """What follows from the ratings of a picture."""

    VALID = "valid"
    INVALID = "invalid"
    MORE_RATERS = "more_raters"
    """`Ruling.more_raters` have to answer first."""
    REPORTED = "reported"
    """It is shown to no further rater until the board has looked at it."""
    UNDECIDED = "undecided"
    """Of an appeal only: too few of its raters say the same. The ruling stands unless the board decides otherwise."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the ratings of a picture say.

    Attributes:
        outcome: what follows.
        reasons: why, in words, each a sentence without its full stop; empty for a valid picture.
        raters: ids of those whose ratings count, sorted.
        class_name: what a valid picture shows; None for any other.
        more_raters: how many further raters have to answer.
        share: of the picture in the smallest box that counts, None where the boxes did not matter.
        set_aside: the rater whose box does not count because it alone disagrees with the others; "" for none.
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
    """Rules on pictures of one size under one contest's rules. The order of ratings never matters."""

    size: PictureSize
    rules: ValidityRules
    questionnaire: Questionnaire

    def rule_on_picture(self, ratings: Sequence[Rating]) -> Ruling:
        """Returns what the ratings of a picture say (U6). Reports that the board dismissed are left out by the caller.

        Where the boxes of the least number of raters disagree, one more rater answers first. If then a single box
        disagrees with the median, it does not count: enough others drew theirs. If more do, the smallest of all
        counts, as the proposal of 2018 writes.

        Raises:
            ValueError: two ratings that count are of the same rater, or one does not answer what was asked.
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
        """Returns what an appeal's raters say: enough of them have to find the picture valid, or not valid (U8).

        Each judges by the same questionnaire, and the box of each has to be large enough by itself.

        Args:
            panel: the ratings of the appeal's raters.
            earlier: ids of the raters who rated the picture before.

        Raises:
            ValueError: two ratings that count are of the same rater, one does not answer what was asked, a rater is
                not new, or there are too many.
        """
        counting = _counting(panel)
        raters = _raters(counting)
        if old := sorted({*raters} & {*earlier}):
            raise ValueError(f"{', '.join(old)} rated the picture before; an appeal's raters are new")
        if len(raters) > self.rules.appeal_raters:
            raise ValueError(f"{len(raters)} raters of an appeal, which has {self.rules.appeal_raters}")
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
            f"{counted_noun(count, 'rater')} of {len(raters)} for a valid {seen}"
            for seen, count in sorted(votes.items())
        ]
        return Ruling(Outcome.UNDECIDED, (*said, *against), raters)

    def _view(self, rating: Rating) -> "_View":
        """Returns what a rater sees in the picture, and why that makes it invalid, the size of the box left apart."""
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
            raise ValueError(f"the answers of {rater} have no box or no statements, and were asked for both")
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
        """Returns the ruling where all raters see the same class and nothing but the boxes is left to judge."""
        boxes = {view.rater: view.box for view in views if view.box}
        median = median_box(list(boxes.values()))
        least = Fraction(self.rules.minimum_iou_percent, 100)
        disagreeing = [rater for rater, box in boxes.items() if intersection_over_union(box, median) < least]
        if disagreeing and len(boxes) == self.rules.raters_per_picture:
            reason = f"boxes disagree: {', '.join(disagreeing)} with the median of all"
            return Ruling(Outcome.MORE_RATERS, (reason,), tuple(boxes), more_raters=1)
        set_aside = disagreeing[0] if len(disagreeing) == 1 else ""
        rater = min((each for each in boxes if each != set_aside), key=lambda each: boxes[each].area)
        share = area_share(boxes[rater], self.size)
        if reasons := self._too_small(boxes[rater], rater):
            return Ruling(Outcome.INVALID, reasons, tuple(boxes), share=share, set_aside=set_aside)
        seen = next(view.seen.name for view in views if view.seen)
        return Ruling(Outcome.VALID, (), tuple(boxes), seen, share=share, set_aside=set_aside)

    def _too_small(self, box: Box, rater: str) -> tuple[str, ...]:
        """Returns the reason why an object in a box is too small; nothing where it is exactly large enough, or more."""
        share, percent = area_share(box, self.size), self.rules.minimum_area_percent
        if share >= Fraction(percent, 100):
            return ()
        pixels = self.size.height * self.size.width
        return (f"the box of {rater} covers {box.area} of {pixels} pixels, less than {percent} %",)


@dataclass(frozen=True, slots=True)
class _View:
    """What one rater sees: a class that is definitely there alone, or None; the box; and why it makes it invalid."""

    rater: str
    seen: ObjectClass | None
    box: Box | None
    reasons: tuple[str, ...]


def _counting(ratings: Sequence[Rating]) -> list[Rating]:
    """Returns the ratings, by rater. Raises ValueError where a rater has two."""
    counting = sorted(ratings, key=lambda each: each.rater)
    if twice := [one.rater for one, other in pairwise(counting) if one.rater == other.rater]:
        raise ValueError(f"several ratings of {', '.join(twice)}; give the one that counts")
    return counting


def _raters(ratings: Sequence[Rating]) -> tuple[str, ...]:
    return tuple(each.rater for each in ratings)


def _waiting(counting: Sequence[Rating], needed: int) -> Ruling | None:
    """Returns why nothing can be ruled yet: a report, or too few ratings. None where there are enough."""
    if reporters := [each.rater for each in counting if each.answers is None]:
        return Ruling(
            Outcome.REPORTED, tuple(f"{rater} reported the picture" for rater in reporters), _raters(counting)
        )
    missing = needed - len(counting)
    if missing <= 0:
        return None
    reason = f"{counted_noun(len(counting), 'rater')} of {needed} answered"
    return Ruling(Outcome.MORE_RATERS, (reason,), _raters(counting), more_raters=missing)
