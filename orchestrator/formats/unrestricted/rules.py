"""The settings of the unrestricted contest: the contest file's `rules:`.

The proposal of 2018 (docs/unrestricted.md) can be read in several ways, and its authors later explained some points
differently in different places. Each such point is a setting, and its default is what the proposal says.
"""

from datetime import date
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from orchestrator.domain.contest_format import FormatRules
from orchestrator.domain.field_errors import show_value
from orchestrator.domain.findings import OnFinding
from orchestrator.formats.unrestricted.money import MoneyText, halve
from orchestrator.formats.unrestricted.questionnaire import BICYCLE, BIRD, ObjectClass
from orchestrator.formats.unrestricted.rater_tests import RaterRules
from orchestrator.formats.unrestricted.validity import ValidityRules
from orchestrator.formats.unrestricted.week_calendar import Weekday, load_zone

_PERCENT = 100


class ClosedDefences(StrEnum):
    """Whether a defence without published code may take part (issue 55 of the proposal's repository)."""

    REFUSED = "refused"
    ALLOWED = "allowed"
    """It may be staked, and breaking it wins the attackers' prize, but it cannot win the prize for defences."""


class EligibilityReading(StrEnum):
    """How a defence passes the eligibility set (U2)."""

    PERFECT = "perfect"
    """Answer at least 80 %, and make no mistake in these answers, as the rule is written."""
    RIGHT_ON_80 = "right_on_80"
    """Be right on at least 80 %; mistakes on the others are allowed, as the authors said when they were asked."""


class OnFault(StrEnum):
    """What it counts as if a defence gives no answer at all to a picture (U7)."""

    ABSTAIN = "abstain"
    BREAK = "break"


class _Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _weekday(value: object) -> object:
    """Returns the day of the week with this name. Raises ValueError if there is none."""
    if not isinstance(value, str):
        return value
    if value.upper() not in Weekday.__members__:
        days = ", ".join(day.name.lower() for day in Weekday)
        raise ValueError(f"{show_value(value)} is not a day of the week; write one of {days}")
    return Weekday[value.upper()]


class WeekRules(_Rules):
    """When a week closes (U5)."""

    ends: Annotated[Weekday, BeforeValidator(_weekday)] = Weekday.FRIDAY
    """The last day of a week; it closes when this day is over in the contest's time zone."""


class PrizeRules(_Rules):
    """Prizes (U10). An amount is written with its currency, such as 1000.50 EUR."""

    pool: MoneyText
    """The whole sum. One half is for defences, the other for the teams that break them."""
    per_break: MoneyText
    """The stake on a defence, which is the prize for breaking it."""
    advances: dict[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1, le=100)]] = {}
    """Number of days unbroken -> the percentage of the defences' half that is paid in advance after these days."""

    @model_validator(mode="after")
    def _fits_the_pool(self) -> "PrizeRules":
        if self.per_break.currency != self.pool.currency:
            raise ValueError(
                f"per_break: {self.per_break} is not in the currency of the pool, {self.pool}; use the same for both"
            )
        if not 0 < self.per_break.units <= halve(self.pool.units)[0]:
            raise ValueError(
                f"per_break: {self.per_break} is 0 or more than half of the pool of {self.pool}; "
                "write an amount above 0 and up to that half"
            )
        if sum(self.advances.values()) >= _PERCENT:
            raise ValueError(
                f"advances: {sum(self.advances.values())} % in total leave nothing for the prize; write smaller ones"
            )
        return self


class UnrestrictedRules(FormatRules):
    """The rules of the unrestricted contest."""

    on_finding: OnFinding = OnFinding.FLAG
    """`flag` by default: a defence may use random numbers here (U13), so answers that differ break no rule (A10)."""
    time_zone: str = "UTC"
    """The contest's time zone, by its IANA name: weeks and days are those of its calendar (U5)."""
    week: WeekRules = WeekRules()
    last_day: date | None = None
    """The last day on which pictures are received, in the contest's time zone; null until it is decided."""
    closed: ClosedDefences = ClosedDefences.REFUSED
    eligibility: EligibilityReading = EligibilityReading.PERFECT
    on_fault: OnFault = OnFault.ABSTAIN
    uploads_per_day: Annotated[int, Field(ge=1)] = 10
    """How many pictures a team may submit on a day of the contest's time zone (U4)."""
    days_unbroken: Annotated[int, Field(ge=1)] = 90
    """How long a staked defence has to stay unbroken to win the prize, in periods of 24 hours (U10)."""
    appeal_days: Annotated[int, Field(ge=1)] = 14
    """How long a team may appeal, in periods of 24 hours from the ruling on a picture (U8).

    The board has as long to decide an appeal whose new raters do not agree, from the last of their answers.
    """
    validity: ValidityRules = ValidityRules()
    """When a picture counts as valid, for its raters and for the panel of an appeal (U6, U8)."""
    raters: RaterRules = RaterRules()
    """How raters are tested with pictures whose class is known (U6)."""
    classes: tuple[ObjectClass, ObjectClass] = (BIRD, BICYCLE)
    """The two classes, with the words of the questions about them."""
    prizes: PrizeRules | None = None
    """Null in a contest without prizes."""

    @property
    def prize_days(self) -> tuple[int, ...]:
        """The numbers of days for which a staked defence may win something: those of the advances, then the whole."""
        return (*sorted(self.prizes.advances if self.prizes else ()), self.days_unbroken)

    @model_validator(mode="after")
    def _advances_come_before_the_prize(self) -> "UnrestrictedRules":
        if self.prizes and (late := [days for days in self.prizes.advances if days >= self.days_unbroken]):
            raise ValueError(
                f"prizes.advances: {late[0]} days are not fewer than the {self.days_unbroken} of the prize; write fewer"
            )
        if self.classes[0].name == self.classes[1].name:
            raise ValueError(f"classes: both are called {self.classes[0].name!r}; give each its own name")
        return self

    @field_validator("time_zone")
    @classmethod
    def _zone_is_known(cls, name: str) -> str:
        load_zone(name)
        return name


PROPOSED_AREA_PERCENT = ValidityRules().minimum_area_percent


def rule_warnings(rules: UnrestrictedRules) -> list[str]:
    """Returns what organizers should know about the rules that they chose, one sentence each."""
    found = []
    if (area := rules.validity.minimum_area_percent) < PROPOSED_AREA_PERCENT:
        found.append(
            f"rules.validity.minimum_area_percent: {area} accepts smaller objects than the proposal of 2018 (U6), "
            f"which asks for {PROPOSED_AREA_PERCENT}"
        )
    if rules.last_day is None:
        found.append(
            "rules.last_day is not set: the contest never ends, and what is left of the prizes is never returned to "
            "the organizers"
        )
    if rules.prizes is None:
        found.append("rules.prizes is not set: there are no prizes, and staking a defence only starts its days")
    if rules.eligibility is EligibilityReading.RIGHT_ON_80:
        found.append(
            "rules.eligibility: right_on_80 admits a defence that is wrong on a picture of the eligibility set; an "
            "attacker who guesses that picture and submits it breaks the defence"
        )
    if rules.on_fault is OnFault.BREAK:
        found.append(
            "rules.on_fault: break lets a valid picture that crashes a defence break it, whichever class it shows"
        )
    if rules.time_zone == "UTC":
        found.append(
            "rules.time_zone is UTC: weeks close at midnight UTC; set the zone of most participants if it differs"
        )
    return found
