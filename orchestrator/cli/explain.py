"""`sparring explain`: what an error's code means, from the page on errors that is shipped with the software."""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from rich.markdown import Markdown

from orchestrator import resources
from orchestrator.cli import console
from orchestrator.cli.console import Json, out
from orchestrator.errors import UsageError

_HEADING = re.compile(r"^(##|###) +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the page says of a code: whose fault it is (`group`), the first sentence, and all of it as Markdown."""

    code: str
    group: str
    summary: str
    text: str


def explanations() -> dict[str, Explanation]:
    """Returns the section of every code, in the order of the page."""
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
        summary = re.split(r"(?<=[.:;])\s", text, maxsplit=1)[0]
        yield Explanation(heading[2], group, " ".join(summary.split()).rstrip(":;.") + ".", text)


@console.command
def explain(
    code: Annotated[str | None, typer.Argument(help="The code of an error; default: list all.", metavar="CODE")] = None,
    as_json: Json = False,
) -> None:
    """Explain an error: what it means, the usual cause and the remedy. Without a code, list all codes."""
    known = explanations()
    if code is None:
        _print_list(list(known.values()), as_json=as_json)
        return
    # Commands print `code: message`, and people copy both.
    name = code.strip().split(":")[0].lower()
    if name not in known:
        raise UsageError(f"there is no error {name!r}; `sparring explain` lists all codes")
    if as_json:
        console.print_json(asdict(known[name]))
        return
    out.print(f"[bold]{known[name].code}[/]  [dim]{known[name].group}[/]\n")
    out.print(Markdown(known[name].text))


def _print_list(known: list[Explanation], *, as_json: bool) -> None:
    if as_json:
        console.print_json([asdict(each) for each in known])
        return
    group = ""
    for each in known:
        if each.group != group:
            group = each.group
            out.print(f"\n[bold]{group}[/]")
        out.print(f"  {each.code:20} {each.summary}", soft_wrap=True)
