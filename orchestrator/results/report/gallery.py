"""The gallery: pictures as an attack was given them, as it played them, and what it changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from orchestrator.results.examples import Example
from orchestrator.results.report import pictures

SILENT = ("abstained", "no answer", "not asked")
"""What `Example.before` and `after` say where there is no label."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One example as shown. The three pictures are data URIs of our own making; `largest` is in steps of 1/255."""

    example: Example
    outcome: str
    clean: Markup
    adversarial: Markup
    difference: Markup
    factor: int
    largest: int


def exhibits(examples: Sequence[Example]) -> tuple[Exhibit, ...]:
    """Returns the examples in their order. Raises ValueError for pictures that are not u8 [c, h, w] of one shape."""
    return tuple(map(_exhibit, examples))


def _exhibit(example: Example) -> Exhibit:
    changed, factor, largest = pictures.difference(example.clean, example.adversarial)
    clean, adversarial, difference = (
        Markup(pictures.data_uri(p))  # noqa: S704  base64 of a PNG that was encoded here, longer than any text may be
        for p in (example.clean, example.adversarial, changed)
    )
    return Exhibit(example, _outcome(example), clean, adversarial, difference, factor, largest)


def _outcome(example: Example) -> str:
    if example.forfeit:
        return "forfeit"
    if example.after in SILENT:
        return example.after
    return "held" if example.after == example.label else "fooled"
