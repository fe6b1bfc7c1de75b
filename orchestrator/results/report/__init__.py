"""The report of a round: one HTML page that needs nothing else.

No script, no font, no address outside: style and pictures are inside the page, and its content security policy allows
nothing more. The same results give the same bytes.
"""

from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.domain.text import printable
from orchestrator.results.document import Results
from orchestrator.results.examples import Example
from orchestrator.results.report import colours, words
from orchestrator.results.report.page import page_of

TEXT_LIMIT = 2000
"""The longest text in one place of the page, in characters."""


def render(results: Results, examples: Sequence[Example]) -> str:
    """Returns the page. Every text in it is escaped, and control and bidirectional characters are made visible."""
    return _environment().get_template("page.html.j2").render(page=page_of(results, examples), results=results)


def shown(text: str) -> str:
    """Returns a text of a submission as the page holds it."""
    return _environment().from_string("{{ text }}").render(text=text)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__name__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        palettes=colours.PALETTES,
        scales={theme: colours.scale(theme) for theme in colours.PALETTES},
        steps=colours.STEPS,
    )
    environment.filters.update(
        count=words.count, duration=words.duration, size=words.size, distance=words.distance, signed=words.signed
    )
    return environment


def _harmless(value: object) -> object:
    """Every expression's value passes here before it is escaped; markup of our own templates and pictures does not."""
    return printable(value, TEXT_LIMIT) if type(value) is str else value
