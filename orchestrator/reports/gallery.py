"""The gallery: pictures as an attack got them, as it changed them, and the differences."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from orchestrator.reports import pictures
from orchestrator.reports.examples import Example

NO_LABEL_ANSWERS = ("abstained", "no answer", "not asked")
"""The values of `Example.clean_answer` and `adversarial_answer` that are no class names."""


@dataclass(frozen=True, slots=True)
class ExampleView:
    """An example as the page shows it.

    The three pictures are data URIs that were encoded here; `largest_change` is in steps of 1/255.
    """

    example: Example
    outcome: str
    clean: Markup
    adversarial: Markup
    difference: Markup
    amplification: int
    largest_change: int


def example_views(examples: Sequence[Example]) -> tuple[ExampleView, ...]:
    """Returns each example's view. Raises ValueError if its pictures are not u8 [c, h, w] of one shape."""
    return tuple(map(_example_view, examples))


def _example_view(example: Example) -> ExampleView:
    changed, factor, largest = pictures.difference_picture(example.clean, example.adversarial)
    clean, adversarial, difference = (
        Markup(pictures.data_uri(p))  # noqa: S704  base64 of a PNG that was encoded here; longer than `MAX_TEXT`
        for p in (example.clean, example.adversarial, changed)
    )
    return ExampleView(example, _outcome(example), clean, adversarial, difference, factor, largest)


def _outcome(example: Example) -> str:
    if example.forfeit:
        return "forfeit"
    if example.adversarial_answer in NO_LABEL_ANSWERS:
        return example.adversarial_answer
    return "held" if example.adversarial_answer == example.label else "fooled"
