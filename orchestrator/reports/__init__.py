"""Renders the report of a round, one self-contained HTML page, and that of a contest, a folder of pages.

A page loads no script, no font and nothing from another address: it contains its style and pictures, and its content
security policy allows nothing more. The same results give the same bytes.
"""

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path
from urllib.parse import quote

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
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
"""The longest text in one place of the page, in characters."""
_LINE_END = re.compile("\r?\n")


class _CompiledTemplates(FileSystemBytecodeCache):
    """Keeps compiled templates beside Python's bytecode of this module, where and when Python keeps that.

    A template is compiled again if its text, this module, which has the options that it is compiled with, or Jinja was
    changed.
    """

    def __init__(self) -> None:
        super().__init__(str(Path(cache_from_source(__file__)).parent), "template-%s.cache")
        self._compiled_by = f"{version('jinja2')}\n{Path(__file__).read_text(encoding='utf-8')}\n"

    def get_source_checksum(self, source: str) -> str:
        return super().get_source_checksum(self._compiled_by + source)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not sys.dont_write_bytecode:
            with suppress(OSError):  # a folder that cannot be written, as Python suppresses it
                super().dump_bytecode(bucket)


def render_round(results: Results, examples: Sequence[Example]) -> str:
    """Returns the organizers' page of a round. It has evidence and hidden pictures and must not be published (rule A2).

    All texts are escaped, and control and bidirectional characters are made visible.
    """
    return _render_template("page.html.j2", page=page_of(results, examples, for_organizers=True), links=Links())


def render_site(site: Site, files: Sequence[str]) -> dict[str, str]:
    """Returns the pages of a site of files, by address. `files` are names of files beside the first page."""
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
    """Returns the private pages of the teams, by file name."""
    return {name: _render_template("team.html.j2", page=page, links=Links()) for name, page in site.private.items()}


def render_trial(title: str, lines: Sequence[str], examples: Sequence[Example]) -> str:
    """Returns a page with pictures of one cell that a participant played on public pictures."""
    page = {"title": title, "lines": lines, "gallery": example_views(examples)}
    return _render_template("trial.html.j2", page=page)


def render_text(text: str) -> str:
    """Returns a text of a submission as a page shows it: printable, cut and escaped."""
    return _file_environment().from_string("{{ text }}").render(text=text)


def stylesheet() -> str:
    """Returns the style of all pages as the text of one CSS file, with colours and fonts as custom properties.

    The pages have no other style, so a site may serve them under `style-src 'self'`.
    """
    return _render_template("style.css.j2")


def environment(*loaders: BaseLoader) -> Environment:
    """Returns a Jinja environment for the reports' templates and those of `loaders`, which take precedence.

    A loader with a `base.html.j2` of its own shows every page with its own head and navigation: pages fill the blocks
    `title` and `body`. In all templates, also those of `loaders`, each text is made printable, cut after `MAX_TEXT`
    characters and escaped.

    The templates of a site need these values: `index.html.j2` needs `index`, `links` and `files`, pairs of a name and
    an address; `page.html.j2` and `team.html.j2` need `page` and `links`.
    """
    made = Environment(
        loader=ChoiceLoader([*loaders, PackageLoader(__name__), FormatTemplates()]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_make_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_CompiledTemplates(),
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
    """Returns a data URI that holds a JSON file byte for byte. It is quoted, so nothing in it is markup."""
    return Markup("data:application/json," + quote(document, safe=""))  # noqa: S704  quoted


def _make_printable(value: object) -> object:
    """Returns a text printable and cut to `MAX_TEXT`, any other value unchanged. Jinja calls it for every expression.

    Markup of our own templates and pictures stays unchanged. Line ends become spaces, as a browser shows them, because
    people write their reasons in several lines.
    """
    if type(value) is not str or (len(value) <= MAX_TEXT and value.isprintable()):  # true of nearly all texts
        return value
    return printable(_LINE_END.sub(" ", value), MAX_TEXT)
