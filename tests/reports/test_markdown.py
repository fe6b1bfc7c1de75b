"""report.md: the boards as text, and nothing of a submission that a reader of Markdown would make more of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from orchestrator import redaction
from orchestrator.domain.text import printable
from orchestrator.reports import markdown

from .pages import results_of
from .test_report import HOSTILE

INLINE = {"text", "text_special", "softbreak"}
MEANT = [
    "[click](https://evil.example)",
    "![x](x.png)",
    "| another | cell |",
    "`code` **bold** _it_ ~~gone~~",
    "https://evil.example www.evil.example mail@evil.example",
    "&lt;b&gt; <b>",
    "\\| \\\\|",
    "#12 $x$ [^1]",
]


def parsed(text: str) -> list:
    """Returns the tokens of a text with tables and strike-through."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def inlines(text: str) -> list:
    """Returns the inline tokens of a text."""
    return [child for token in parsed(text) for child in token.children or ()]


def told(**changes) -> str:
    """Returns the text of the sample round."""
    return markdown.render_markdown([redaction.redact_results(results_of(**changes))])


@pytest.mark.parametrize("text", [*HOSTILE, *MEANT])
def test_text_reads_as_it_stands(text):
    """Inside a line and inside a cell of a table, a text is text: the same letters, no tag, no link, no mark."""
    for where in ("Name: {}", "| head |\n| --- |\n| {} |", "# Of {}", "- Against {}"):
        found = inlines(where.format(markdown.escape_markdown(text)))
        assert {token.type for token in found} <= INLINE
        assert printable(text).strip() in "".join(token.content for token in found).replace("\xa0", " ")
    cells = [
        token for token in parsed(f"| a |\n| --- |\n| {markdown.escape_markdown(text)} |") if token.type == "td_open"
    ]
    assert len(cells) == 1


@given(st.text(min_size=1, max_size=60))
def test_any_text_reads_as_it_stands(text):
    """No text at all becomes more than its own letters."""
    found = inlines(f"Name: {markdown.escape_markdown(text)}.")
    assert {token.type for token in found} <= INLINE
    assert "".join(token.content for token in found) == f"Name: {printable(text)}."


def test_addresses_become_no_links():
    """What readers make links of as it stands is taken apart: a colon before a slash, www, an at sign."""
    escaped = markdown.escape_markdown("http://a.example www.a.example WWW.a.example me@a.example")
    assert "://" not in escaped
    assert "www." not in escaped.lower()
    assert "@" not in escaped


def test_boards_and_matrix_are_tables():
    """Every board and the matrix are tables with a row for each line, the scores in them."""
    results = redaction.redact_results(results_of())
    tokens = parsed(told())
    assert sum(token.type == "table_open" for token in tokens) == len(results.boards) + 1
    rows = sum(len(board.rows) + 1 for board in results.boards) + 1 + 1 + 3
    assert sum(token.type == "tr_open" for token in tokens) == rows
    assert "| 1 | 1 to 2 | square | team of square | 41.26 | 38.5 to 44.2 | 4 | 1 |  |\n" in told()
    assert "| disqualified: finding-1 |\n" in told()
    assert "\n| Attack | undefended | madry | moody |\n" in told()
    assert "90 compared, 1 of them disagree." in told()


def test_hostile_names_keep_the_tables():
    """Whatever teams and submissions are called, the text has the same structure."""
    for hostile in (*HOSTILE, *MEANT):
        parts = [{**part, "team": hostile} for part in results_of().model_dump()["submissions"]]
        kinds = [token.type for token in parsed(told(submissions=parts))]
        assert kinds == [token.type for token in parsed(told())]
