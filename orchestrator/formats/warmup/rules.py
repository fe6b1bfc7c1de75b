"""The settings of the warm-up, in the form of the contest file's `rules:`.

The defaults are those of the warm-up of 2018 for pictures of birds and bicycles, as its rules were meant. For every
place where its code differs from the rules there is a setting; examples/warmup-2018.yaml sets them all as the code had
them.
"""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from orchestrator.domain.contest_format import FormatRules
from orchestrator.domain.findings import OnFinding
from orchestrator.domain.tasks import require_whole_step
from orchestrator.formats.warmup.attacks.spatial import MovementLimits, Reading
from orchestrator.formats.warmup.attacks.spsa import StopReading
from orchestrator.formats.warmup.coverage import CoverageReading

Pictures = Annotated[int, Field(ge=1)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _in_steps(epsilon: float) -> float:
    require_whole_step(Decimal(str(epsilon)))
    return epsilon


class _Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MovementRules(_Rules):
    """How far a picture is moved, in pixels, and rotated, in degrees, to either side."""

    dx: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 18.0
    dy: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 18.0
    angle: Annotated[float, Field(ge=0, le=180)] = 30.0

    def limits(self) -> MovementLimits:
        """Returns the limits."""
        return MovementLimits(self.dx, self.dy, self.angle)


class TransformRules(_Rules):
    """How pictures are rotated and moved: the library whose arithmetic is used, and the black border."""

    kind: Literal["pillow", "tensorflow"] = "pillow"
    border: Annotated[float, Field(ge=0, lt=0.5)] = 0.15
    """The visible black border on each side, as a share of height and width."""


class StartRules(MovementRules):
    """A random movement before another attack."""

    transform: TransformRules | None = None
    """How the picture is moved; None for the same way as in the grid."""


class SpatialRules(_Rules):
    """The worst of a grid of rotations and translations (B2)."""

    pictures: Pictures = 1000
    limits: MovementRules = MovementRules()
    dx_steps: Annotated[int, Field(ge=1, le=1000)] = 5
    dy_steps: Annotated[int, Field(ge=1, le=1000)] = 5
    angle_steps: Annotated[int, Field(ge=1, le=1000)] = 31
    axes: Reading = Reading.INTENDED
    """`reference` mixes up the three axes of the grid, as the code of 2018 did."""
    ink_check: Literal["none", "intended", "reference"] = "none"
    """Whether movements that push a digit off its picture are invalid; `reference` judges the worst invalid one."""


class SpsaRules(_Rules):
    """Gradients estimated from scores, in the Linf ball (B2)."""

    pictures: Pictures = 1000
    epsilon: Annotated[float, Field(gt=0, le=255), AfterValidator(_in_steps)] = 16.0
    """The largest change of a value, in steps of 1/255."""
    steps: Annotated[int, Field(ge=1)] = 200
    samples: Annotated[int, Field(ge=2, multiple_of=2)] = 64
    delta: _Positive = 0.01
    learning_rate: _Positive = 0.01
    stop_margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    stop: StopReading = StopReading.BEFORE
    start: StartRules | None = None
    """A random movement before the attack, within these limits."""


class BoundaryRules(_Rules):
    """The boundary attack: an L2 distance, by decisions alone (B2)."""

    pictures: Pictures = 100
    distance: _Positive = 10.0
    """The largest Euclidean length of the change, on values from 0 to 1."""
    iterations: Annotated[int, Field(ge=1)] = 5000
    directions: Annotated[int, Field(ge=1)] = 25
    directions_per_question: Annotated[int, Field(ge=1)] = 5
    start: StartRules | None = None
    """A random movement before the attack, within these limits."""


class CorruptionRules(_Rules):
    """The worst of some common corruptions: noise, blur, light and coarse pixels (B2)."""

    pictures: Pictures = 1000


class WarmupRules(FormatRules):
    """The warm-up's rules."""

    on_finding: OnFinding = OnFinding.FLAG
    """Rules A9 and A10. A noisy defence stays on the leaderboard, with a remark (B8)."""
    submissions_per_team: Annotated[int, Field(ge=1)] = 10
    """Per task. With unlimited attempts a team could fit a defence to the hidden pictures."""
    coverage: CoverageReading = CoverageReading.EXACT
    """Rule B3."""
    throughput: _Positive | None = 100.0
    """Pictures per second below which a defence is not ranked (B4); null for no floor."""
    transform: TransformRules = TransformRules()
    spatial: SpatialRules | None = SpatialRules()
    spsa: SpsaRules | None = SpsaRules()
    boundary: BoundaryRules | None = BoundaryRules()
    corruptions: CorruptionRules | None = None

    def reduced_sizes(self) -> list[str]:
        """Returns which sizes of the attacks are below their defaults, such as `spsa.steps 100 of 200`."""
        sections = {name: section for name in _ATTACKS if (section := getattr(self, name)) is not None}
        return [
            f"{name}.{size} {wanted:,} of {default:,}"
            for name, section in sections.items()
            for size, default in type(section)()
            if size in _SIZES and (wanted := getattr(section, size)) < default
        ]


_ATTACKS = ("spatial", "spsa", "boundary", "corruptions")
_SIZES = {"pictures", "dx_steps", "dy_steps", "angle_steps", "steps", "samples", "iterations", "directions"}
"""Sizes of an attack: if one is smaller, the attack is weaker, or its result is less certain."""
