"""The settings of the tournament, in the form of the contest file's `rules:`."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from orchestrator.domain.contest_format import FormatRules
from orchestrator.domain.outcomes import OnMissing, OnViolation
from orchestrator.formats.tournament.gradient_attacks import GRADIENT_ATTACKS


class CleanFloor(BaseModel):
    """A defence with a lower clean accuracy than that of `baseline` minus `points` is shown, unranked (rule A17)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    baseline: str = "undefended"
    points: Annotated[Decimal, Field(ge=0, le=100)] = Decimal(10)


class InitialRules(BaseModel):
    """The baselines that the initial round measures with, by id (rules A11 and A12)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    classifier: str = "fgsm_trained"
    crafted_on: Literal["surrogate", "self"] = "surrogate"
    """The source of gradients of a defence's three attacks: the organizers' model, or the defence itself (A12).

    With `self` the three are the format's own, and every defence has to give gradients."""
    weights: dict[str, Annotated[Decimal, Field(gt=0, le=1)]] = Field(
        default={"fgsm": Decimal("0.2"), "bim": Decimal("0.4"), "pgd": Decimal("0.4")}, min_length=1
    )

    @model_validator(mode="after")
    def _only_own_attacks(self) -> "InitialRules":
        own = [attack.name for attack in GRADIENT_ATTACKS]
        if self.crafted_on == "self" and (others := sorted(self.weights.keys() - set(own))):
            raise ValueError(
                f"with `crafted_on: self` the weights are of {', '.join(own)}, not of {', '.join(others)}; name its own"
            )
        return self


class TournamentRules(FormatRules):
    """The tournament's rules, with the documents' defaults."""

    on_missing: OnMissing = OnMissing.HELD
    """Rule A8."""
    on_violation: OnViolation = OnViolation.FORFEIT
    """Rule A14."""
    clean_floor: CleanFloor | None = CleanFloor()
    initial: InitialRules = InitialRules()
    finalists: Annotated[int, Field(ge=1)] = 5
    """How many of each side go on to the final round, and all that share the last rank (A11, A12, A16)."""
    final: Literal["everybody", "finalists"] = "everybody"
    """Who plays in the final round: all submissions (A3), or finalists only. Means are over finalists either way."""
    tasks_per_person: Annotated[int, Field(ge=1)] = 3
    """Rule A1."""
    submissions_per_team: Annotated[int, Field(ge=1)] = 3
    """Per task and side (rule A4)."""
