"""The warm-up's rules in words, one or two plain sentences each, for visitors."""

from collections.abc import Iterator

from orchestrator.domain.contest_format import RuleInWords, finding_in_words
from orchestrator.domain.text import counted_noun
from orchestrator.formats.warmup.attacks.spatial import Reading
from orchestrator.formats.warmup.attacks.spsa import StopReading
from orchestrator.formats.warmup.coverage import CoverageReading
from orchestrator.formats.warmup.rules import (
    BoundaryRules,
    MovementRules,
    SpatialRules,
    SpsaRules,
    StartRules,
    TransformRules,
    WarmupRules,
)

_COVERED = {
    CoverageReading.EXACT: "Exactly 80 %, rounded up, are kept; of two that are equally sure the earlier one is.",
    CoverageReading.REFERENCE: "All that are as sure as the last of these 80 % are kept, as in 2018.",
}
_AXES = {Reading.INTENDED: "", Reading.REFERENCE: " The three axes are mixed up as in the code of 2018."}
_INK = {
    "none": "",
    "intended": " Movements that change the ink of a picture by a tenth or more are invalid.",
    "reference": (
        " Movements that change the ink of a picture by a tenth or more are invalid; the worst of them is judged where "
        "no valid one fools the defence, as in 2018."
    ),
}
_STOPS = {
    StopReading.BEFORE: "the picture that stopped it",
    StopReading.AFTER: "the picture one step later, as in 2018",
}


def rules_in_words(rules: WarmupRules) -> list[RuleInWords]:
    """Returns the rules in the order of their numbers."""
    tries = counted_noun(rules.submissions_per_team, "defence")
    return [
        ("A4", f"A team may submit {tries} for each task."),
        ("A9, A10, B8", f"A defence answers each picture the same each time. {finding_in_words(rules.on_finding)}"),
        ("B1", "A task has two classes, and a defence answers with a score for each."),
        *(("B2", sentence) for sentence in _attacks(rules)),
        (
            "B3",
            (
                "A defence abstains on the fifth of the pictures of which it is least sure; its accuracy on the others "
                f"counts. {_COVERED[rules.coverage]}"
            ),
        ),
        ("B4", _floor(rules.throughput)),
        ("B5", "A defence is ranked by the attack against which it does worst."),
    ]


def _floor(throughput: float | None) -> str:
    if throughput is None:
        return "A defence may be as slow as the limits on time allow."
    return f"A defence that answers fewer than {throughput:g} pictures a second is shown without a rank."


def _attacks(rules: WarmupRules) -> Iterator[str]:
    if rules.spatial is not None:
        yield _spatial(rules.spatial)
    if rules.spsa is not None:
        yield _spsa(rules.spsa)
    if rules.boundary is not None:
        yield _boundary(rules.boundary)
    if rules.corruptions is not None:
        pictures = counted_noun(rules.corruptions.pictures, "picture")
        yield f"The corruptions: the worst of some mild noise, blur, light and coarse pixels on up to {pictures}."
    yield f"Pictures are turned and moved {_transform(rules.transform)}."


def _transform(rules: TransformRules) -> str:
    library = {"pillow": "Pillow", "tensorflow": "TensorFlow"}[rules.kind]
    return f"with the arithmetic of {library} and a black border of {100 * rules.border:g} % of each side"


def _movement(rules: MovementRules) -> str:
    return f"up to {rules.dx:g} pixels sideways, {rules.dy:g} up or down and {rules.angle:g} degrees"


def _spatial(rules: SpatialRules) -> str:
    return (
        f"The spatial attack: the worst of {rules.dx_steps} x {rules.dy_steps} x {rules.angle_steps} movements of "
        f"{_movement(rules.limits)}, on up to {counted_noun(rules.pictures, 'picture')}."
        f"{_AXES[rules.axes]}{_INK[rules.ink_check]}"
    )


def _spsa(rules: SpsaRules) -> str:
    return (
        f"SPSA: changes of at most {rules.epsilon:g}/255 in each value, on up to "
        f"{counted_noun(rules.pictures, 'picture')}, in at most {counted_noun(rules.steps, 'step')} of size "
        f"{rules.learning_rate:g} along a gradient estimated from {rules.samples} questions at a distance of "
        f"{rules.delta:g}. It stops at a margin of {rules.stop_margin:g}, and {_STOPS[rules.stop]} is judged."
        f"{_start(rules.start)}"
    )


def _boundary(rules: BoundaryRules) -> str:
    return (
        f"The boundary attack: a walk to an L2 distance of at most {rules.distance:g} on values from 0 to 1, "
        f"on up to {counted_noun(rules.pictures, 'picture')}, in at most {counted_noun(rules.iterations, 'step')} of "
        f"up to {counted_noun(rules.directions, 'direction')} each, {rules.directions_per_question} in a question."
        f"{_start(rules.start)}"
    )


def _start(rules: StartRules | None) -> str:
    if rules is None:
        return ""
    how = "" if rules.transform is None else f", {_transform(rules.transform)}"
    return f" Each picture is first moved at random by {_movement(rules)}{how}."
