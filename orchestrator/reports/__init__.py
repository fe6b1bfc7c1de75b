"""The report of a round, one HTML page that needs nothing else, and that of a contest, a folder of them.

No script, no font, no address outside: style and pictures are inside the page, and its content security policy allows
nothing more. The same results give the same bytes.
"""

import re
from collections.abc import Sequence
from functools import cache
from urllib.parse import quote

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from orchestrator.domain.text import printable
from orchestrator.reports import colours, formatting
from orchestrator.reports.blocks import FormatTemplates, decides_prizes
from orchestrator.reports.examples import Example
from orchestrator.reports.gallery import example_views
from orchestrator.reports.page import page_of
from orchestrator.reports.site import Links, Site
from orchestrator.scoring import fault_texts
from orchestrator.scoring.results_file import Results

MAX_TEXT = 2000
_LINE_END = re.compile("\r?\n")
"""The longest text in one place of the page, in characters."""


def render_round(results: Results, examples: Sequence[Example]) -> str:
    """Returns the organizers' page of a round, with evidence and hidden pictures: it is not for the web (rule A2).

    Every text in it is escaped, and control and bidirectional characters are made visible.
    """
    return _render_template("page.html.j2", page=page_of(results, examples, for_organizers=True), links=Links())


def render_site(site: Site, files: Sequence[str]) -> dict[str, str]:
    """Returns the pages of a site of files, by their address. `files` lie beside its first page."""
    linked_files = [(name, site.addresses.file(name)) for name in files]
    first = _render_template("index.html.j2", index=site.index, files=linked_files, links=site.links)
    pages = {site.links.index: first}
    links_below = site.links.seen_from("../")
    for name, template, page in (
        *((name, "page.html.j2", page) for name, page in site.rounds.items()),
        *((name, "team.html.j2", page) for name, page in site.teams.items()),
    ):
        pages[name] = _render_template(template, page=page, links=links_below)
    return pages


def render_private(site: Site) -> dict[str, str]:
    """Returns the pages that go to each team alone, by file name."""
    return {name: _render_template("team.html.j2", page=page, links=Links()) for name, page in site.private.items()}


def render_trial(title: str, lines: Sequence[str], examples: Sequence[Example]) -> str:
    """Returns a page of pictures of one cell that a participant played on public pictures."""
    page = {"title": title, "lines": lines, "gallery": example_views(examples)}
    return _render_template("trial.html.j2", page=page)


def render_text(text: str) -> str:
    """Returns a text of a submission as the page holds it."""
    return _file_environment().from_string("{{ text }}").render(text=text)


def stylesheet() -> str:
    """Returns the style of all pages as one CSS file, with the colours and fonts as custom properties.

    No page of ours has style beside it, so a site may serve it under `style-src 'self'`.
    """
    return _render_template("style.css.j2")


def environment(*loaders: BaseLoader) -> Environment:
    """Returns what renders our pages, and templates of `loaders`, which are asked first.

    Whoever puts a `base.html.j2` of its own before ours gets every page within its own head and navigation: pages fill
    the blocks `title` and `body`. In templates of `loaders` too, each text is made printable, cut after `MAX_TEXT`
    characters and escaped.

    Pages of a site ask for these values: `index.html.j2` for `index`, `links` and `files`, which are names and
    addresses; `page.html.j2` and `team.html.j2` for `page` and `links`.
    """
    made = Environment(
        loader=ChoiceLoader([*loaders, PackageLoader(__name__), FormatTemplates()]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_make_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        palettes=colours.PALETTES,
        scales={theme: colours.scale(theme) for theme in colours.PALETTES},
        steps=colours.STEPS,
        decides_prizes=decides_prizes,
    )
    made.filters.update(
        count=formatting.counted_noun,
        duration=formatting.duration,
        size=formatting.byte_size,
        distance=formatting.distance,
        signed=formatting.signed,
        number=formatting.number,
        moment=formatting.ledger_time,
        forfeits=fault_texts.forfeit_lines,
        saved=_data_uri,
    )
    return made


@cache
def _file_environment() -> Environment:
    return environment()


def _render_template(template: str, **values: object) -> str:
    return _file_environment().get_template(template).render(**values)


def _data_uri(document: bytes) -> Markup:
    """Returns the address of a JSON file that lies in the page itself, every byte as it is; nothing in it is markup."""
    return Markup("data:application/json," + quote(document, safe=""))  # noqa: S704  quoted


def _make_printable(value: object) -> object:
    """Every expression's value passes here before it is escaped; markup of our own templates and pictures does not.

    The ends of lines become spaces, as a browser shows them: people write their reasons in several lines.
    """
    if type(value) is not str or (len(value) <= MAX_TEXT and value.isprintable()):  # as nearly all of a report is
        return value
    return printable(_LINE_END.sub(" ", value), MAX_TEXT)
