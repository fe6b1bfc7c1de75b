"""Documents that claim something name the test that shows it, and the test is there."""

import ast
import re
from collections import Counter
from functools import cache

import pytest

PAGES = ("asvs", "complaints", "threat-model")
REFERENCE = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
REQUIREMENTS = 70
"""Of level 1 in version 5.0.0 of OWASP's ASVS."""
COMPLAINTS = 25


@cache
def names_in(path) -> frozenset[str]:
    """Returns the tests of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def table_counts(text: str) -> dict[str, int]:
    """Returns the numbers in the table at the beginning of a page: what each state has."""
    return {state: int(number) for state, number in re.findall(r"^\| ([a-z/ ]+) \|.*?(\d+) \|$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_there(root, page):
    """By its file and its name."""
    named = REFERENCE.findall((root / "docs" / f"{page}.md").read_text("utf-8"))
    assert named
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (root / file).is_file() or (name and name not in names_in(root / file))
    ]
    assert missing == []


def test_the_asvs_is_gone_through_whole(root):
    """Each requirement once, in order, and the counts at the top are those of the rows."""
    text = (root / "docs" / "asvs.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+\.\d+\.\d+) \| [^|]+ \| ([a-z/ ]+) \| [^|]+ \|$", text, re.MULTILINE)
    ids = [tuple(map(int, each.split("."))) for each, _ in rows]
    assert len(ids) == REQUIREMENTS
    assert ids == sorted(set(ids))
    assert table_counts(text) == Counter(state for _, state in rows)


def test_every_complaint_has_its_answer(root):
    """All of them in order, with the counts at the top."""
    text = (root / "docs" / "complaints.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| ([a-z]+) \| [^|]+ \| [^|]+ \|$", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, COMPLAINTS + 1))
    assert table_counts(text) == Counter(state for _, state in rows)
