"""The report of a round, one HTML page that needs nothing else, and that of a contest, a folder of them.

No script, no font, no address outside: style and pictures are inside the page, and its content security policy allows
nothing more. The same results give the same bytes.
"""

from collections.abc import Sequence
from functools import cache
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from orchestrator.domain.text import printable
from orchestrator.results import faults
from orchestrator.results.document import Results
from orchestrator.results.examples import Example
from orchestrator.results.report import colours, words
from orchestrator.results.report.gallery import exhibits
from orchestrator.results.report.page import page_of
from orchestrator.results.report.site import Site

TEXT_LIMIT = 2000
"""The longest text in one place of the page, in characters."""


def render(results: Results, examples: Sequence[Example]) -> str:
    """Returns the organizers' page of a round, with evidence and hidden pictures: it is not for the web (rule A2).

    Every text in it is escaped, and control and bidirectional characters are made visible.
    """
    return _page("page.html.j2", page=page_of(results, examples, inside=True), links={}, up="")


def render_site(site: Site, files: Sequence[str]) -> dict[str, str]:
    """Returns the pages of a site by their address. `files` lie beside its first page."""
    pages = {"index.html": _page("index.html.j2", index=site.index, files=files, links=site.links, up="")}
    for name, template, page in (
        *((name, "page.html.j2", page) for name, page in site.rounds.items()),
        *((name, "team.html.j2", page) for name, page in site.teams.items()),
    ):
        pages[name] = _page(template, page=page, links=site.links, up="../")
    return pages


def render_private(site: Site) -> dict[str, str]:
    """Returns the pages that go to each team alone, by file name."""
    return {name: _page("team.html.j2", page=page, links={}, up="") for name, page in site.private.items()}


def render_trial(title: str, lines: Sequence[str], examples: Sequence[Example]) -> str:
    """Returns a page of pictures of one cell that a participant played on public pictures."""
    page = {"title": title, "lines": lines, "gallery": exhibits(examples)}
    return _page("trial.html.j2", page=page)


def shown(text: str) -> str:
    """Returns a text of a submission as the page holds it."""
    return _environment().from_string("{{ text }}").render(text=text)


def _page(template: str, **values: object) -> str:
    return _environment().get_template(template).render(**values)


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
        count=words.count,
        duration=words.duration,
        size=words.size,
        distance=words.distance,
        signed=words.signed,
        moment=words.moment,
        forfeits=faults.forfeits,
        saved=_saved,
    )
    return environment


def _saved(document: bytes) -> Markup:
    """Returns the address of a JSON file that lies in the page itself, every byte as it is; nothing in it is markup."""
    return Markup("data:application/json," + quote(document, safe=""))  # noqa: S704  quoted


def _harmless(value: object) -> object:
    """Every expression's value passes here before it is escaped; markup of our own templates and pictures does not."""
    return printable(value, TEXT_LIMIT) if type(value) is str else value
