"""`sparring explain`: explains error codes, and shows the pages of the shipped documentation that messages name."""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from rich.markdown import Markdown

from orchestrator import resources
from orchestrator.cli import console
from orchestrator.cli.console import Json, out
from orchestrator.domain.text import printable
from orchestrator.errors import UsageError

_HEADING = re.compile(r"^(##|###) +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]+)\]\([^)]*\)")
_FIRST_CLAUSE = re.compile(r"(?:`[^`]*`|[^`])*?(?:[.:;](?=\s)|$)", re.DOTALL)
_ANY_HEADING = re.compile(r"^(#+) +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A code's section on the page of errors: whose fault it is (`group`), its first sentence, and its Markdown."""

    code: str
    group: str
    summary: str
    text: str


def explanations() -> dict[str, Explanation]:
    """Returns the section of each code, in the order of the page."""
    page = resources.resource_path("docs", "limits-and-errors.md").read_text("utf-8")
    return {each.code: each for each in _sections(page)}


def _sections(page: str) -> Iterator[Explanation]:
    headings = list(_HEADING.finditer(page))
    ends = [heading.start() for heading in headings[1:]] + [len(page)]
    group = ""
    for heading, end in zip(headings, ends, strict=True):
        if heading[1] == "##":
            group = heading[2]
            continue
        text = _LINK.sub(r"\1", page[heading.end() : end]).strip()
        summary = _FIRST_CLAUSE.findall(text)[0]
        yield Explanation(heading[2], group, " ".join(summary.split()).rstrip(":;.") + ".", text)


def page_names() -> list[str]:
    """Returns the names of the pages of the documentation, without `.md`."""
    return sorted(path.stem for path in resources.resource_path("docs").glob("*.md"))


def read_page(name: str, section: str = "") -> str:
    """Returns a page, or one section of it, as Markdown without links.

    Args:
        name: one of `page_names`.
        section: the section's heading as in links, in lower case with `-` between words; empty for the whole page.

    Raises:
        UsageError: there is no such section.
    """
    page = _LINK.sub(r"\1", resources.resource_path("docs", f"{name}.md").read_text("utf-8"))
    if not section:
        return page
    headings = list(_ANY_HEADING.finditer(page))
    for number, heading in enumerate(headings):
        if _anchor(heading[2]) == section:
            ends = [later.start() for later in headings[number + 1 :] if len(later[1]) <= len(heading[1])]
            return page[heading.start() : ends[0] if ends else len(page)]
    known = ", ".join(_anchor(heading[2]) for heading in headings[1:])
    raise UsageError(f"the page {name} has no section {printable(section, 80)!r}; it has {known}")


def _anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


@console.command
def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            help="The code of an error, or a page: sandbox, packing#the-package; default: list all.",
            metavar="CODE",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain an error: what it means, the usual cause and the remedy. Without a code, list all codes and pages."""
    known = explanations()
    if code is None:
        _print_list(list(known.values()), as_json=as_json)
        return
    # Commands print `code: message`, and people copy both.
    name = code.strip().split(":")[0].lower()
    page, _, section = name.removeprefix("docs/").replace(".md", "").partition("#")
    if name not in known and page in page_names():
        text = read_page(page, section)
        if as_json:
            console.print_json({"page": page, "section": section, "text": text})
            return
        out.print(Markdown(text))
        return
    if name not in known:
        raise UsageError(f"there is no error and no page {printable(name, 80)!r}; `sparring explain` lists them all")
    if as_json:
        console.print_json(asdict(known[name]))
        return
    out.print(f"[bold]{known[name].code}[/]  [dim]{known[name].group}[/]\n")
    out.print(Markdown(known[name].text))


def _print_list(known: list[Explanation], *, as_json: bool) -> None:
    if as_json:
        console.print_json({"codes": [asdict(each) for each in known], "pages": page_names()})
        return
    group = ""
    for each in known:
        if each.group != group:
            group = each.group
            out.print(f"\n[bold]{group}[/]")
        out.print(f"  {each.code:20} {each.summary}", soft_wrap=True)
    out.print("\n[bold]Pages of the documentation[/]")
    out.print(f"  {', '.join(page_names())}")
