"""The two files of grading without a server: the sheet that a rater gets, and the answers that the rater returns.

They do not tell a rater whose picture is shown: an item has a random token, and only the plan says what it shows.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Token = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
RaterId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$", description="lower case, digits and -")]


MAXIMUM_MILLISECONDS = 2**53 - 1
"""The largest integer that the page's JavaScript, and arithmetic with 64-bit floats, can represent exactly."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GradingTask(StrEnum):
    """The two questions (C7), which are asked apart."""

    VALID = "valid"
    """A picture alone, without its label: which class is it, and is it a proper picture?"""
    QUALITY = "quality"
    """The submitted picture beside the original, whose sides are known: how much of a difference is seen?"""


class SheetItem(_File):
    """One item of a sheet."""

    token: Token
    task: GradingTask
    picture: str
    """The submitted picture, a PNG in base64."""
    original: str = ""
    """The original, a PNG in base64; empty for the question about validity."""
    practice: bool = False
    """Whether it is practice, which comes first and is not counted."""


class Sheet(_File):
    """The items of one rater in order, with the texts of the page."""

    version: Literal[1] = 1
    contest: str
    plan: Digest
    """The digest of the grading plan that the items are from."""
    rater: RaterId
    classes: Annotated[list[str], Field(min_length=2)]
    """The names of the classes, in the order of the labels."""
    height: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=1)]
    wording: dict[GradingTask, str]
    """The questions, as the contest file states them."""
    grades: Annotated[list[str], Field(min_length=5, max_length=5)]
    """What the grades 1 to 5 mean, worst first."""
    items: list[SheetItem]
    session_size: Annotated[int, Field(ge=1)] = 300
    """After so many items the page proposes a break (sessions of at most 30 minutes)."""


class Answer(_File):
    """A rater's answer to an item. An answer in less than `MINIMUM_MILLISECONDS` is kept but does not count."""

    token: Token
    class_index: Annotated[int, Field(ge=0)] | None = None
    """For validity: the class that the rater sees; None for none of them."""
    proper: bool | None = None
    """For validity: whether it is a proper picture."""
    grade: Annotated[int, Field(ge=1, le=5)] | None = None
    """For quality: 5 for no visible difference, 1 for a very annoying one."""
    milliseconds: Annotated[int, Field(ge=0, le=MAXIMUM_MILLISECONDS)]
    """The time from the display of the pictures to the answer."""
    device_pixel_ratio: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0


class AnswerFile(_File):
    """The answers that the page saves for the organizers, as JSON."""

    version: Literal[1] = 1
    plan: Digest
    rater: RaterId
    answers: list[Answer]
    """The answers in the order in which they were given. An item that was shown again has two; the later one counts."""


MINIMUM_MILLISECONDS = 500
"""A faster answer cannot come from somebody who looked: the item is shown once more, later."""
