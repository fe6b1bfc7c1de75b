"""The boxes that raters draw around the largest object, in whole pixels of the picture (U6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median_low
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Edge = Annotated[int, Field(ge=0, strict=True)]


@dataclass(frozen=True, slots=True)
class PictureSize:
    """The sides of a picture in pixels."""

    height: int
    width: int


class Box(BaseModel):
    """The columns from `left` to before `right`, and the rows from `top` to before `bottom`.

    An edge is between two pixels: 0, 0, width and height are the edges of the whole picture.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    left: Edge
    top: Edge
    right: Edge
    bottom: Edge

    @model_validator(mode="after")
    def _holds_a_pixel(self) -> Self:
        faults = []
        if self.right <= self.left:
            faults.append(f"right is {self.right}, and has to be more than left, which is {self.left}")
        if self.bottom <= self.top:
            faults.append(f"bottom is {self.bottom}, and has to be more than top, which is {self.top}")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def area(self) -> int:
        """The number of pixels in the box; at least 1."""
        return (self.right - self.left) * (self.bottom - self.top)


def area_share(box: Box, size: PictureSize) -> Fraction:
    """Returns the exact share of the picture's pixels that are in the box."""
    return Fraction(box.area, size.height * size.width)


def intersection_over_union(one: Box, other: Box) -> Fraction:
    """Returns the pixels in both boxes divided by those in at least one: 1 for equal boxes, 0 for disjoint ones."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    common = max(0, width) * max(0, height)
    return Fraction(common, one.area + other.area - common)


def median_box(boxes: Sequence[Box]) -> Box:
    """Returns the box of the medians of each edge; of an even number of boxes, the lower of the two middle values.

    Raises:
        ValueError: there is no box.
    """
    edges = {name: median_low([getattr(box, name) for box in boxes]) for name in Box.model_fields} if boxes else {}
    return Box(**edges)
