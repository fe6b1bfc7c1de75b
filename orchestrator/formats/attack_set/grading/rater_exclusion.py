"""The rule that removes raters, fixed before any answer is read, and reports on raters."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from orchestrator.domain.text import counted_noun
from orchestrator.formats.attack_set.grading.answers import GivenAnswer
from orchestrator.formats.attack_set.grading.plan import ItemKind
from orchestrator.formats.attack_set.grading.rules import MINIMUM_GAP, MINIMUM_HIDDEN
from orchestrator.formats.attack_set.grading.sheets import GradingTask

TIME_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BT500_MINIMUM = 6
"""Grades that a picture needs before one of them can be two standard deviations from their mean."""
_NORMAL_KURTOSIS = (2.0, 4.0)
_OUTLIER_SHARE = 0.05
_BALANCE = 0.3


class RaterStatus(StrEnum):
    """Whether a rater's answers count."""

    COUNTED = "counted"
    REMOVED = "removed"
    WAITING = "waiting"
    """The rater has answered too few hidden items for a decision."""


@dataclass(frozen=True, slots=True)
class RaterReport:
    """How well a rater graded the hidden items, and whether the rater's answers count.

    Args:
        rater: the rater's id.
        status: whether the answers count.
        reason: why they do not count, "" if they do.
        originals: mean grade of hidden originals, None without any.
        anchors: mean grade of anchors.
        repeats: how many pictures were graded twice.
        repeats_equal: how many of these got the same grade twice. It is reported, and never a reason to remove a rater.
        valid_originals: how many hidden originals were called valid, and how many there were.
        too_fast: how many items have only answers that were too fast.
        milliseconds: quantiles of the answer times, by `TIME_QUANTILES`; empty without answers.
    """

    rater: str
    status: RaterStatus
    reason: str
    originals: Fraction | None
    anchors: Fraction | None
    repeats: int
    repeats_equal: int
    valid_originals: tuple[int, int]
    too_fast: int
    milliseconds: tuple[int, ...]

    def in_words(self) -> str:
        """Returns the report in words; "" before the first answer that it can use."""
        found = [
            f"mean grade of {name} {float(mean):.2f}"
            for name, mean in (("originals", self.originals), ("anchors", self.anchors))
            if mean is not None
        ]
        if self.repeats:
            found.append(f"{self.repeats_equal} of {counted_noun(self.repeats, 'repeat')} graded the same")
        if self.valid_originals[1]:
            found.append(f"{self.valid_originals[0]} of {self.valid_originals[1]} originals called valid")
        if self.too_fast:
            found.append(f"{self.too_fast} answered too fast")
        if self.milliseconds:
            found.append(f"half of the answers within {self.milliseconds[TIME_QUANTILES.index(0.5)] / 1000:.1f} s")
        return ", ".join(found)


def is_valid(given: GivenAnswer, labels: Sequence[int]) -> bool:
    """Returns whether the answer calls a picture valid: it names the true class, and says that it is proper."""
    return bool(given.answer.proper) and given.answer.class_index == labels[given.item.position]


def report_rater(rater: str, given: Iterable[GivenAnswer], labels: Sequence[int]) -> RaterReport:
    """Returns the report on a rater. `given` are the rater's answers without practice."""
    answers = list(given)
    counted = [each for each in answers if not each.too_fast]
    quality = [each for each in counted if each.item.task is GradingTask.QUALITY]
    originals, anchors = (_mean(_grades(quality, kind)) for kind in (ItemKind.ORIGINAL, ItemKind.ANCHOR))
    status, reason = _judge_in_order(quality)
    by_token = {each.item.token: each.answer.grade for each in quality}
    pairs = [(each.answer.grade, by_token[each.item.repeat_of]) for each in quality if each.item.repeat_of in by_token]
    shown = [e for e in counted if e.item.task is GradingTask.VALID and e.item.kind is ItemKind.ORIGINAL]
    return RaterReport(
        rater=rater,
        status=status,
        reason=reason,
        originals=originals,
        anchors=anchors,
        repeats=len(pairs),
        repeats_equal=sum(first == second for first, second in pairs),
        valid_originals=(sum(is_valid(each, labels) for each in shown), len(shown)),
        too_fast=len(answers) - len(counted),
        milliseconds=time_quantiles(answers),
    )


def time_quantiles(given: Sequence[GivenAnswer]) -> tuple[int, ...]:
    """Returns quantiles of the answer times in milliseconds, by `TIME_QUANTILES`; empty without answers."""
    if not given:
        return ()
    return tuple(int(time) for time in np.quantile([each.answer.milliseconds for each in given], TIME_QUANTILES))


def bt500_outliers(grades: NDArray[np.float64], raters: Sequence[str]) -> tuple[str, ...] | None:
    """Returns the raters whom one pass of the screening of ITU-R BT.500 would drop; None if no picture has six grades.

    A grade is an outlier if it is more than 2 standard deviations from the mean of its picture's grades, or sqrt(20) if
    their kurtosis is not about that of a normal distribution. A rater with more than 5 % outliers, on both sides, is
    dropped. The screening is only reported: in simulations it found 40 % of raters who click at random.

    Args:
        grades: f64 [pictures, raters], NaN for a missing grade.
        raters: the raters' ids.
    """
    rows = grades[np.isfinite(grades).sum(axis=1) >= BT500_MINIMUM]
    if not len(rows):
        return None
    deviations = rows - np.nanmean(rows, axis=1, keepdims=True)
    second, fourth = np.nanmean(deviations**2, axis=1), np.nanmean(deviations**4, axis=1)
    kurtosis = np.divide(fourth, second**2, out=np.zeros_like(fourth), where=second > 0)
    low, high = _NORMAL_KURTOSIS
    factor = np.where((kurtosis >= low) & (kurtosis <= high), 2.0, np.sqrt(20.0))
    limit = (factor * np.nanstd(rows, axis=1, ddof=1))[:, None]
    spread = (limit > 0) & np.isfinite(rows)
    above, below = (spread & (deviations >= limit)).sum(axis=0), (spread & (deviations <= -limit)).sum(axis=0)
    outliers, total = above + below, np.isfinite(rows).sum(axis=0)
    dropped = (outliers > _OUTLIER_SHARE * total) & (np.abs(above - below) < _BALANCE * outliers)
    return tuple(rater for rater, drop in zip(raters, dropped, strict=True) if drop)


def _judge_in_order(quality: Sequence[GivenAnswer]) -> tuple[RaterStatus, str]:
    """Returns whether a rater counts, and why not. A rater whom one file removes is not readmitted by a later one."""
    status, reason = _judge([], [])
    for last in sorted({each.file for each in quality}):
        known = [each for each in quality if each.file <= last]
        status, reason = _judge(_grades(known, ItemKind.ORIGINAL), _grades(known, ItemKind.ANCHOR))
        if status is RaterStatus.REMOVED:
            break
    return status, reason


def _grades(quality: Iterable[GivenAnswer], kind: ItemKind) -> list[int]:
    return [each.answer.grade or 0 for each in quality if each.item.kind is kind]


def _judge(originals: Sequence[int], anchors: Sequence[int]) -> tuple[RaterStatus, str]:
    """Returns whether a rater counts, and why not."""
    numbers = Counter({"originals": len(originals), "anchors": len(anchors)})
    if min(numbers.values()) < MINIMUM_HIDDEN:
        found = " and ".join(f"{count} {kind}" for kind, count in numbers.items())
        return RaterStatus.WAITING, f"the rater has graded {found}, and {MINIMUM_HIDDEN} of each are needed"
    gap = Fraction(sum(originals), len(originals)) - Fraction(sum(anchors), len(anchors))
    if gap < MINIMUM_GAP:
        what = f"the mean grade of originals is {float(gap):.2f} above that of anchors"
        return RaterStatus.REMOVED, f"{what}, less than {float(MINIMUM_GAP)}"
    return RaterStatus.COUNTED, ""


def _mean(grades: Sequence[int]) -> Fraction | None:
    return Fraction(sum(grades), len(grades)) if grades else None
