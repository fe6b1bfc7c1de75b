"""The settings of the attack-set contest, in the form of the contest file's `rules:`.

The announcement of the contest that this format follows (Chinese, on CIFAR-10, rules C1 to C9) is ambiguous in several
places; there is a setting for each, whose default is the literal reading.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_validator

from orchestrator.domain.contest_format import FormatRules
from orchestrator.domain.submissions import PictureFormat
from orchestrator.formats.attack_set.grading.rules import GradingRules
from orchestrator.measures.margins import Probabilities
from orchestrator.measures.similarity import Similarity


class CountReading(StrEnum):
    """Which pictures the attack success rate is a share of (C3)."""

    ALL = "all"
    """All of them, as written: a picture that the hidden model misclassifies unchanged is a success too."""
    CORRECT = "correct"
    """Those that the hidden model classifies correctly unchanged."""


class NteReading(StrEnum):
    """The pictures over which the noise tolerance is a mean (C5)."""

    ALL = "all"
    """All counted pictures, as written."""
    SUCCESSFUL = "successful"
    """Those that fool the hidden model."""


class AttackSetRules(FormatRules):
    """The rules of the attack-set contest."""

    formats: tuple[PictureFormat, ...] = tuple(PictureFormat)
    """The kinds of files in which pictures may be submitted (C2)."""
    count: CountReading = CountReading.ALL
    ssim: Similarity = Similarity.GLOBAL
    nte: NteReading = NteReading.ALL
    probabilities: Probabilities = Probabilities.SOFTMAX
    tries_per_day: Annotated[int, Field(ge=1)] | None = 3
    """How many submissions a team may make on a day, in UTC (C9); null for no limit."""
    grading: GradingRules | None = None
    """How people grade (C7); null for no grading."""
    human_scale: Literal[1, 100] = 100
    """The largest Score_H in the sum with Score_M, whose largest value is 100 (C8)."""

    @field_validator("formats")
    @classmethod
    def _some_format(cls, formats: tuple[PictureFormat, ...]) -> tuple[PictureFormat, ...]:
        if not formats or len(set(formats)) != len(formats):
            raise ValueError(
                "the list is empty or has a kind of file twice; name at least one kind, and each only once"
            )
        return formats
