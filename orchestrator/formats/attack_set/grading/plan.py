"""The grading plan: the items of each rater, their order and their tokens.

The plan is secret until the round is closed. Raters get sheets that are made from it, and `round_grades` interprets the
answers with it.
"""

from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from orchestrator.domain.ids import canonical_json, digest
from orchestrator.formats.attack_set.grading.rules import MINIMUM_RATERS_PER_PICTURE
from orchestrator.formats.attack_set.grading.sheets import Digest, GradingTask, RaterId, Token

Position = Annotated[int, Field(ge=0)]
"""The number of a picture in the task, from 0."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ItemKind(StrEnum):
    """What an item shows as the submitted picture."""

    SUBMISSION = "submission"
    ORIGINAL = "original"
    """The untouched picture: nobody should see a difference."""
    ANCHOR = "anchor"
    """A heavily distorted picture: everybody should see it."""


class PlannedItem(_Record):
    """One item of a sheet, with what it shows."""

    token: Token
    task: GradingTask
    kind: ItemKind
    position: Position
    submission: str | None = None
    """The submission that the picture is from, for the kind `submission`."""
    practice: bool = False
    """Whether it is practice, which is not counted."""
    repeat_of: Token | None = None
    """The earlier item of this rater that this one repeats. Only the earlier one counts for the submission."""
    appeal: bool = False
    """Whether it is part of an appeal."""

    @property
    def scored(self) -> bool:
        """Whether an answer counts for a submission."""
        return self.kind is ItemKind.SUBMISSION and not self.practice and self.repeat_of is None


class RaterItems(_Record):
    """The items of one rater, in order."""

    rater: RaterId
    items: tuple[PlannedItem, ...]


class GradingPlan(_Record):
    """All items of the raters in a round, or in a supplement to its plan.

    Equal plans have equal digests. `submissions` are in the order of the caller.
    """

    version: Literal[1] = 1
    submissions: tuple[str, ...]
    picture_count: Annotated[int, Field(ge=1)]
    """The number of pictures of the task."""
    positions: tuple[Position, ...]
    """The pictures that are graded, ascending: the same for every submission."""
    raters_per_picture: Annotated[int, Field(ge=MINIMUM_RATERS_PER_PICTURE)]
    distance: Annotated[int, Field(ge=1)]
    supplements: Digest | None = None
    """The digest of the round's plan if this one is a supplement to it."""
    sheets: tuple[RaterItems, ...]

    @model_validator(mode="after")
    def _each_token_once(self) -> Self:
        tokens = [item.token for sheet in self.sheets for item in sheet.items]
        if len({*tokens}) < len(tokens):
            raise ValueError("a token occurs twice")
        return self

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON, 64 hex digits. It does not reveal the plan, since tokens are random."""
        return digest(canonical_json(self.model_dump(mode="json"))).removeprefix("sha256:")

    @property
    def raters(self) -> tuple[str, ...]:
        """The raters who have a sheet, in the order of the plan."""
        return tuple(sheet.rater for sheet in self.sheets)

    def items_of(self, rater: str) -> tuple[PlannedItem, ...]:
        """Returns a rater's items in order. Raises KeyError for a rater without a sheet."""
        for sheet in self.sheets:
            if sheet.rater == rater:
                return sheet.items
        raise KeyError(rater)

    def items(self) -> Iterator[tuple[str, PlannedItem]]:
        """Yields every item with its rater."""
        for sheet in self.sheets:
            for item in sheet.items:
                yield sheet.rater, item
