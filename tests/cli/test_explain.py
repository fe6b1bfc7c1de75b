"""`sparring explain`: the page on errors, where there is no clone to look it up in."""

import ast
import json
import re

import pytest
from typer.testing import CliRunner

from orchestrator import resources
from orchestrator.cli.app import app
from orchestrator.cli.explain import explanations, page_names, read_page
from orchestrator.errors import SparringError

runner = CliRunner()


def leaves(kind: type[SparringError]) -> set[str]:
    """Returns the codes of an error and of all that are more special."""
    return {kind.code} | {code for each in kind.__subclasses__() for code in leaves(each)}


def test_every_error_is_explained() -> None:
    """Each code has its section with a text, a first sentence and whose fault it is."""
    known = explanations()
    assert known.keys() >= leaves(SparringError)
    assert all(each.text and each.group and each.summary.endswith(".") for each in known.values())
    assert not set(known) & set(page_names()), "a name means one thing"
    assert "](" not in "".join(each.text for each in known.values()), "a link leads nowhere in a terminal"
    assert all(each.summary.count("`") % 2 == 0 for each in known.values()), "a name is not cut in two"


def test_an_error_names_the_command_that_explains_it() -> None:
    """What an error prints below itself works as it stands, also with the message that people copy along."""
    failed = runner.invoke(app, ["contest", "check", __file__])
    (line,) = [line for line in failed.stderr.splitlines() if line.startswith("sparring explain")]
    explained = runner.invoke(app, line.split()[1:])
    assert explained.exit_code == 0
    assert "Every problem is listed with its place" in " ".join(explained.stdout.split())
    copied = runner.invoke(app, ["explain", "Deadline: no complete answer before the deadline", "--json"])
    assert json.loads(copied.stdout)["code"] == "deadline"


def test_all_codes_are_listed_and_a_wrong_one_is_usage() -> None:
    """Without a code there is a line for each; a code that is none is refused with what to do."""
    listed = runner.invoke(app, ["explain"])
    codes, _, pages = listed.stdout.partition("Pages of the documentation")
    assert {line.split()[0] for line in codes.splitlines() if line.startswith("  ")} == explanations().keys()
    assert " ".join(pages.split()).split(", ") == page_names()
    refused = runner.invoke(app, ["explain", "nope"])
    assert refused.exit_code == 2
    assert "lists them all" in refused.stderr


def test_what_is_copied_or_shown_names_no_file_of_a_clone() -> None:
    """Report pages, and contest files and manifests that people copy, name commands in place of files below docs/."""
    pages = list(resources.resource_path("orchestrator").rglob("*.j2"))
    files = [path for name in ("examples", "images") for path in resources.resource_path(name).rglob("*.yaml")]
    assert len(pages) > 20
    assert len(files) > 20
    assert [path for path in pages + files if re.search(r"docs/[a-z0-9-]+\.md", path.read_text("utf-8"))] == []


@pytest.mark.slow
def test_every_page_that_a_message_names_is_printed() -> None:
    """No message names a file below docs/ or a target of make, which only a clone has."""
    named, pages = {}, "|".join(page_names())
    for path in resources.resource_path("orchestrator").rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                assert not re.search(rf"[ (/`](?:{pages})\.md|`make [a-z]|^make [a-z]+$", node.value), (
                    f"{path}: {node.value}"
                )
                named |= dict.fromkeys(re.findall(r"sparring explain ([a-z0-9-]+(?:#[a-z0-9-]+)?)", node.value), path)
    assert "threat-model#memory-by-time" in named
    for name in named:
        page, _, section = name.partition("#")
        assert name in explanations() or read_page(page, section)


def test_a_page_is_printed_whole_or_by_its_section() -> None:
    """A page is Markdown without links; a section ends where the next of its depth begins; a wrong one is told."""
    printed = runner.invoke(app, ["explain", "docs/sandbox.md"])
    assert printed.exit_code == 0
    assert printed.stdout.strip()
    assert "](" not in read_page("sandbox")
    layers = read_page("packing", "reading-one")
    assert layers.startswith("## Reading one")
    assert "### The image" in layers
    assert "A folder, or the name of an image" not in layers
    refused = runner.invoke(app, ["explain", "packing#nope"])
    assert refused.exit_code == 2
    assert "the page packing has no section 'nope'; it has building, " in refused.stderr
