"""The settings of the unrestricted contest, as the contest file's `rules:` writes them.

The proposal of 2018 (docs/unrestricted.md) leaves several readings open, and its authors later clarified some of them
differently in different places; each is a setting, whose default is what the proposal writes.
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
from orchestrator.formats.unrestricted.weeks import Weekday, load_zone

_PERCENT = 100


class ClosedDefences(StrEnum):
    """Whether a defence without published code may take part (issue 55 of the proposal's repository)."""

    REFUSED = "refused"
    ALLOWED = "allowed"
    """It may be staked and broken for the attackers' prize, and cannot win that of defences."""


class EligibilityReading(StrEnum):
    """What a defence has to do on the eligibility set (U2)."""

    PERFECT = "perfect"
    """Answer at least 80 %, and make no mistake there, as the rule is written."""
    RIGHT_ON_80 = "right_on_80"
    """Be right on at least 80 %; it may be wrong on the others, as the authors' answers to questions say."""


class OnFault(StrEnum):
    """What it is where a defence gives no answer to a picture (U7)."""

    ABSTAIN = "abstain"
    BREAK = "break"


class _Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _weekday(value: object) -> object:
    """Returns a day by its name. Raises ValueError for no name of one."""
    if not isinstance(value, str):
        return value
    if value.upper() not in Weekday.__members__:
        days = ", ".join(day.name.lower() for day in Weekday)
        raise ValueError(f"{show_value(value)} is no day; write one of {days}")
    return Weekday[value.upper()]


class WeekRules(_Rules):
    """When a week closes (U5)."""

    ends: Annotated[Weekday, BeforeValidator(_weekday)] = Weekday.FRIDAY
    """The last day of a week; it closes when this day is over in the contest's time zone."""


class PrizeRules(_Rules):
    """Prizes (U10). An amount is written with its currency, such as 1000.50 EUR."""

    pool: MoneyText
    """All that there is. One half is for defences, the other for who breaks them."""
    per_break: MoneyText
    """What is staked on a defence, and so the prize for breaking it."""
    advances: dict[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1, le=100)]] = {}
    """Days unbroken, and the percent of the defences' half that is paid in advance then."""

    @model_validator(mode="after")
    def _fits_the_pool(self) -> "PrizeRules":
        if self.per_break.currency != self.pool.currency:
            raise ValueError(
                f"per_break: {self.per_break} is of another currency than the pool of {self.pool}; write both in one"
            )
        if not 0 < self.per_break.units <= halve(self.pool.units)[0]:
            raise ValueError(
                f"per_break: {self.per_break} is nothing, or more than half of the pool of {self.pool}; write less"
            )
        if sum(self.advances.values()) >= _PERCENT:
            raise ValueError(
                f"advances: {sum(self.advances.values())} % in all leave nothing for the prize; write smaller ones"
            )
        return self


class UnrestrictedRules(FormatRules):
    """The rules of the unrestricted contest."""

    on_finding: OnFinding = OnFinding.FLAG
    """A defence may use chance here (U13), so that differing answers are no breach (A10)."""
    time_zone: str = "UTC"
    """The contest's zone, by its IANA name: weeks and days are of its calendar (U5)."""
    week: WeekRules = WeekRules()
    last_day: date | None = None
    """The last day on which pictures are received, in the contest's zone; null while nobody has fixed it."""
    closed: ClosedDefences = ClosedDefences.REFUSED
    eligibility: EligibilityReading = EligibilityReading.PERFECT
    on_fault: OnFault = OnFault.ABSTAIN
    uploads_per_day: Annotated[int, Field(ge=1)] = 10
    """How many pictures a team may hand in on a day of the contest's zone (U4)."""
    days_unbroken: Annotated[int, Field(ge=1)] = 90
    """How long a staked defence has to hold for the prize: so many times 24 hours (U10)."""
    appeal_days: Annotated[int, Field(ge=1)] = 14
    """How long a team may appeal, in days of 24 hours from the ruling on a picture (U8)."""
    validity: ValidityRules = ValidityRules()
    """What raters are asked to agree on, and the panel of an appeal (U6, U8)."""
    raters: RaterRules = RaterRules()
    """How raters are tested by pictures whose class is known (U6)."""
    classes: tuple[ObjectClass, ObjectClass] = (BIRD, BICYCLE)
    """The two classes, in the words in which raters are asked about them."""
    prizes: PrizeRules | None = None
    """Null where nothing is paid."""

    @model_validator(mode="after")
    def _advances_come_before_the_prize(self) -> "UnrestrictedRules":
        if self.prizes and (late := [days for days in self.prizes.advances if days >= self.days_unbroken]):
            raise ValueError(
                f"prizes.advances: {late[0]} days are not before the prize after {self.days_unbroken}; write fewer"
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
    """Returns what organizers should know of the rules that they chose, a sentence each."""
    found = []
    if (area := rules.validity.minimum_area_percent) < PROPOSED_AREA_PERCENT:
        found.append(
            f"rules.validity.minimum_area_percent: {area} accepts smaller objects than the proposal of 2018 (U6), "
            f"which asks for {PROPOSED_AREA_PERCENT}"
        )
    if rules.last_day is None:
        found.append("rules.last_day is not set: stakes of teams are refunded at the end of a contest, which has none")
    if rules.prizes is None:
        found.append("rules.prizes is not set: nothing is paid, and a stake is only a date")
    if rules.eligibility is EligibilityReading.RIGHT_ON_80:
        found.append(
            "rules.eligibility: right_on_80 admits a defence that is wrong on a picture of the eligibility set; an "
            "attacker who guesses that picture breaks it at once"
        )
    if rules.on_fault is OnFault.BREAK:
        found.append("rules.on_fault: break lets a picture that crashes a defence break it, whatever it shows")
    if rules.time_zone == "UTC":
        found.append("rules.time_zone is UTC: weeks close at midnight in UTC, wherever the participants are")
    return found
