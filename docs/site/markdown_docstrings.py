"""Docstrings are Markdown, and Sphinx reads reStructuredText: this turns the one into the other.

It knows what docstrings of this repository use: paragraphs, lists, code in backticks, indented blocks and tables. The
sections of Google's style (`Args:`, `Raises:`) are left to napoleon. It is called from here and not set up as an
extension, because it would read the docstring of a field as `type: text` where it has a colon.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

CODE = re.compile(r"(?P<before>\w?)(?P<ticks>`+)(?P<text>.+?)(?P=ticks)(?P<after>\w?)")
NAME = re.compile(r"[A-Z]\w*[a-z]\w*|[A-Za-z_]\w*(\.\w+)+")
"""A class, or a name with a dot in it. Many classes have a field `time`: a single small word says too little."""
SPECIAL = re.compile(r"[\\*|]|(?<=\w)_(?!\w)")
"""What means something outside code in reStructuredText, and nothing in these docstrings."""
SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields|Note|Notes|Example|Examples):$")
FIELDS = {"attribute", "data", "property"}
STYLE = Config(napoleon_use_ivar=True)
"""Fields that a docstring lists do not stand for themselves: the class lists them too."""


def convert_docstring(lines: list[str]) -> list[str]:
    """Returns a docstring's lines as reStructuredText."""
    converted: list[str] = []
    for is_table, group in groupby(_without_sections(lines), key=lambda line: line[0].startswith("|")):
        part = list(group)
        converted += _convert_table([line for line, _ in part]) if is_table else _convert_text(part)
    return converted


def _without_sections(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Yields each line, and whether it is in a section, where indentation does not mean that it is code."""
    inside = False
    for line in lines:
        inside = bool(SECTION.match(line)) or (inside and (not line or line.startswith(" ")))
        yield line, inside


def _convert_text(lines: list[tuple[str, bool]]) -> list[str]:
    converted: list[str] = []
    literal = False
    previous = ""
    for line, section in lines:
        indented = line.startswith("    ") and not section
        if indented and not previous and not literal:
            converted += ["::", ""]
            literal = True
        elif line and not indented:
            literal = False
        converted.append(line if literal else convert_line(line))
        previous = line
    return converted


def convert_line(line: str) -> str:
    """Returns a line outside code blocks as reStructuredText."""
    parts, end = [], 0
    for code in CODE.finditer(line):
        parts += [_escape(line[end : code.start()]), _escape(code["before"]), "\\ " if code["before"] else ""]
        parts += [_convert_code(code["text"].strip()), "\\ " if code["after"] else "", code["after"]]
        end = code.end()
    return "".join([*parts, _escape(line[end:])])


def _convert_code(text: str) -> str:
    """Returns code as a reference where it may be one of our names, which is plain code where nobody has that name."""
    return f":py:obj:`{text}`" if NAME.fullmatch(text) else f"``{text}``"


def _escape(text: str) -> str:
    return SPECIAL.sub(lambda found: f"\\{found[0]}", text)


def _convert_table(lines: list[str]) -> list[str]:
    """Returns a table as a directive; its second line only says that the first is the header."""
    rows = [[convert_line(cell.strip()) for cell in line.strip().strip("|").split(" | ")] for line in lines]
    cells = [f"   {'*' if first else ' '} - {cell}" for row in (rows[0], *rows[2:]) for first, cell in _marked(row)]
    return [".. list-table::", "   :header-rows: 1", "", *cells]


def _marked(row: list[str]) -> Iterator[tuple[bool, str]]:
    return ((number == 0, cell) for number, cell in enumerate(row))


def _process(_app: Sphinx, what: str, _name: str, _found: Any, _options: Any, lines: list[str]) -> None:
    converted = convert_docstring(lines)
    lines[:] = converted if what in FIELDS else GoogleDocstring(converted, STYLE, what=what).lines()


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the conversion with autodoc."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True}
