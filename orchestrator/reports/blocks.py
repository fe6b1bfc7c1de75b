"""The blocks that a format adds to the pages of a report, from its own templates."""

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

    `name` is a word for its anchor on the page, `title` its title in the page's navigation. `template` is a file in the
    folder `templates` of the format's report package; it gets the block as `block` and shows its `values`.
    `on_index`: whether the first page of a contest shows the block, too.
    """

    name: str
    title: str
    template: str
    values: Mapping[str, object] = field(default_factory=dict)
    on_index: bool = False


class ReportBlocks:
    """The base class of a format's blocks, which adds nothing. A format overrides the methods that it needs.

    For public pages the methods get results that `redaction.redact_results` returned (A2).
    """

    def round_blocks(self, results: Results) -> Sequence[Block]:
        """Returns the blocks that a round's page shows after the boards."""
        del results
        return ()

    def blocks_by_submission(self, results: Results) -> Mapping[str, Sequence[Block]]:
        """Returns the blocks that teams' pages show for their submissions in a round, by the submission's id."""
        del results
        return {}

    def markdown_sections(self, results: Results) -> Sequence[str]:
        """Returns the lines of report.md after a round's boards and findings."""
        del results
        return ()

    def terms(self) -> Sequence[tuple[str, str]]:
        """Returns the terms that the format's boards and blocks use, each with its meaning."""
        return ()


@cache
def report_blocks(format_name: str) -> ReportBlocks:
    """Returns the blocks of a format. Raises UsageError if the format is not installed."""
    place: str = plugins.load_plugin("formats", format_name).report
    found: ReportBlocks = resolve_name(place)() if place else ReportBlocks()
    return found


def decides_prizes(results: Results) -> bool:
    """Returns whether the boards of a round decide prizes. Raises UsageError if its format is not installed."""
    decides: bool = plugins.load_plugin("formats", results.format).decides_prizes(results.round)
    return decides


class FormatTemplates(BaseLoader):
    """Loads the template `FORMAT/NAME` from the package of the class that the format names as its report."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        """Returns a template's source, as Jinja specifies. Raises UsageError if the format has no report package."""
        name, _, file = template.partition("/")
        if name not in plugins.plugin_names("formats"):
            raise TemplateNotFound(template)
        place: str = plugins.load_plugin("formats", name).report
        if not place:
            raise UsageError(f"the format {name} has no report package, and its page asks for {file}")
        module = import_module(place.partition(":")[0])
        return PackageLoader(module.__package__ or "").get_source(environment, file)
