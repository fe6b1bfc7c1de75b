"""Makes a rater's sheet from the plan and the pictures."""

from dataclasses import dataclass

import numpy as np

from orchestrator.domain.human_grading import PictureOf, PngOf
from orchestrator.domain.samples import Pixels
from orchestrator.formats.attack_set.grading.anchors import distort
from orchestrator.formats.attack_set.grading.plan import GradingPlan, ItemKind, PlannedItem
from orchestrator.formats.attack_set.grading.rules import GradingRules
from orchestrator.formats.attack_set.grading.sheets import GradingTask, Sheet, SheetItem


@dataclass(frozen=True, slots=True)
class SheetHeading:
    """The parts that all sheets of a contest share."""

    contest: str
    classes: tuple[str, ...]
    height: int
    width: int
    rules: GradingRules


def sheet_for(plan: GradingPlan, rater: str, heading: SheetHeading, picture_of: PictureOf, png_of: PngOf) -> Sheet:
    """Returns the sheet of a rater. Raises KeyError for a rater without a sheet in the plan."""
    return Sheet(
        contest=heading.contest,
        plan=plan.digest,
        rater=rater,
        classes=list(heading.classes),
        height=heading.height,
        width=heading.width,
        wording=heading.rules.wording,
        grades=heading.rules.grades,
        items=[_shown(item, picture_of, png_of) for item in plan.items_of(rater)],
        session_size=heading.rules.session_size,
    )


def item_pictures(item: PlannedItem, picture_of: PictureOf) -> tuple[Pixels, ...]:
    """Returns the pictures that an item shows: one alone, or the original and the submitted one; u8 [c, h, w]."""
    judged = _pixels(item, picture_of)
    return (picture_of(None, item.position), judged) if item.task is GradingTask.QUALITY else (judged,)


def _shown(item: PlannedItem, picture_of: PictureOf, png_of: PngOf) -> SheetItem:
    *beside, judged = map(png_of, item_pictures(item, picture_of))
    return SheetItem(
        token=item.token,
        task=item.task,
        picture=judged,
        original=beside[0] if beside else "",
        practice=item.practice,
    )


def _pixels(item: PlannedItem, picture_of: PictureOf) -> Pixels:
    if item.kind is ItemKind.ANCHOR:
        # The token seeds the noise, so that the same sheet can be made again.
        return distort(picture_of(None, item.position), np.random.default_rng(int(item.token, 16)))
    return picture_of(item.submission, item.position)
