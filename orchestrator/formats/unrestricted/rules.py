"""The settings of the unrestricted contest, as the contest file's `rules:` writes them.

Seed 003 leaves several readings open, and upstream clarified some of them differently in different places; each is a
setting, whose default is what the document writes.
"""

from datetime import date
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from orchestrator.domain.contest_format import FormatRules
from orchestrator.domain.findings import OnFinding
from orchestrator.formats.unrestricted.weeks import Weekday, load_zone


class ClosedDefences(StrEnum):
    """Whether a defence without published code may take part (upstream issue 55)."""

    REFUSED = "refused"
    ALLOWED = "allowed"
    """It may be staked and broken for the attackers' prize, and cannot win that of defences."""


class EligibilityReading(StrEnum):
    """What a defence has to do on the eligibility set (U2)."""

    PERFECT = "perfect"
    """Answer at least 80 %, and make no mistake there, as the rule is written."""
    RIGHT_ON_80 = "right_on_80"
    """Be right on at least 80 %; it may be wrong on the others, as upstream's answers to questions say."""


class OnFault(StrEnum):
    """What it is where a defence gives no answer to a picture (U7)."""

    ABSTAIN = "abstain"
    BREAK = "break"


class _Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WeekRules(_Rules):
    """When a week closes (U5)."""

    ends: Annotated[Weekday, Field(validate_default=True)] = Weekday.FRIDAY
    """The last day of a week; it closes when this day is over in the contest's time zone."""

    @field_validator("ends", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        if isinstance(value, str):
            if value.upper() not in Weekday.__members__:
                raise ValueError(f"{value!r} is no day: write one of {', '.join(day.name.lower() for day in Weekday)}")
            return Weekday[value.upper()]
        return value


class PrizeRules(_Rules):
    """Prizes (U10). Amounts are in minor units of the currency: 1000 are 10.00 EUR and 1,000 JPY."""

    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")]
    """By its ISO 4217 code."""
    pool: Annotated[int, Field(ge=1, lt=2**53)]
    """All that there is. One half is for defences, the other for who breaks them."""
    per_break: Annotated[int, Field(ge=1, lt=2**53)]
    """What the organizers stake on a defence."""
    advances: dict[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1, le=100)]] = Field(default_factory=dict)
    """Days unbroken, and the percent of the defences' half that is paid in advance then."""

    @model_validator(mode="after")
    def _fits_the_pool(self) -> "PrizeRules":
        if self.per_break > self.pool // 2 + self.pool % 2:
            raise ValueError(f"per_break: {self.per_break} is more than half of the pool of {self.pool}")
        if sum(self.advances.values()) > 100:  # noqa: PLR2004  a share of one half
            raise ValueError(f"advances: {sum(self.advances.values())} % in all is more than the half that they are of")
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
    prizes: PrizeRules | None = None
    """Null where nothing is paid."""

    @field_validator("time_zone")
    @classmethod
    def _zone_is_known(cls, name: str) -> str:
        load_zone(name)
        return name


def rule_warnings(rules: UnrestrictedRules) -> list[str]:
    """Returns what organizers should know of the rules that they chose, a sentence each."""
    found = []
    if rules.last_day is None:
        found.append("rules.last_day is not set: stakes of teams are refunded at the end of a contest, which has none")
    if rules.prizes is None:
        found.append("rules.prizes is not set: nothing is paid, and a stake is only a date")
    elif any(days >= rules.days_unbroken for days in rules.prizes.advances):
        found.append(
            f"rules.prizes.advances: one after {rules.days_unbroken} days or more comes after the prize itself"
        )
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
