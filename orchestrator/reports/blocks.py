"""What a format adds to the pages of a report: blocks of its own, from its own templates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import resolve_name

from jinja2 import BaseLoader, Environment, PackageLoader, TemplateNotFound

from orchestrator import plugins
from orchestrator.errors import UsageError
from orchestrator.scoring.results_file import Results


@dataclass(frozen=True, slots=True)
class Block:
    """A section of a page.

    `name` is a word for its address on the page, `title` what the page's navigation calls it. `template` lies in the
    folder `templates` of the format's report package and gets the block as `block`; what it shows is in `values`.
    `on_index`: whether the first page of a contest shows it as well.
    """

    name: str
    title: str
    template: str
    values: Mapping[str, object] = field(default_factory=dict)
    on_index: bool = False


class ReportBlocks:
    """What a format without blocks of its own adds: nothing. A format's class overrides what it needs.

    Results that pages for everybody are made of went through `redaction.redact_results` before (A2).
    """

    def round_blocks(self, results: Results) -> Sequence[Block]:
        """Returns what the page of a round shows after the boards."""
        del results
        return ()

    def blocks_by_submission(self, results: Results) -> Mapping[str, Sequence[Block]]:
        """Returns what teams' pages show of their submissions in a round, by the submission's id."""
        del results
        return {}

    def markdown_sections(self, results: Results) -> Sequence[str]:
        """Returns the lines of report.md after a round's boards and findings."""
        del results
        return ()

    def terms(self) -> Sequence[tuple[str, str]]:
        """Returns words that the format's boards and blocks use, each with what it means."""
        return ()


@cache
def report_blocks(format_name: str) -> ReportBlocks:
    """Returns what a format adds. Raises UsageError where the format is not installed."""
    place: str = plugins.load_plugin("formats", format_name).report
    found: ReportBlocks = resolve_name(place)() if place else ReportBlocks()
    return found


def decides_prizes(results: Results) -> bool:
    """Returns whether prizes follow from the boards of a round. Raises UsageError where its format is not installed."""
    decides: bool = plugins.load_plugin("formats", results.format).decides_prizes(results.round)
    return decides


class FormatTemplates(BaseLoader):
    """Finds the template `FORMAT/NAME` beside the class that the format names as its report."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        """Returns a template's text, as Jinja asks for it."""
        name, _, file = template.partition("/")
        if name not in plugins.plugin_names("formats"):
            raise TemplateNotFound(template)
        place: str = plugins.load_plugin("formats", name).report
        if not place:
            raise UsageError(f"the format {name} has no report package, and its page asks for {file}")
        module = import_module(place.partition(":")[0])
        return PackageLoader(module.__package__ or "").get_source(environment, file)
