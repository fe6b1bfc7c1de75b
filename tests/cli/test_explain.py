"""`sparring explain`: the page on errors, where there is no clone to look it up in."""

import json

from typer.testing import CliRunner

from orchestrator.cli.app import app
from orchestrator.cli.explain import explanations
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
    assert "](" not in "".join(each.text for each in known.values()), "a link leads nowhere in a terminal"


def test_an_error_names_the_command_that_explains_it() -> None:
    """What an error prints below itself works as it stands, also with the message that people copy along."""
    failed = runner.invoke(app, ["contest", "check", "nosuch"])
    (line,) = [line for line in failed.stderr.splitlines() if line.startswith("sparring explain")]
    explained = runner.invoke(app, line.split()[1:])
    assert explained.exit_code == 0
    assert "Every problem is listed with its place" in " ".join(explained.stdout.split())
    copied = runner.invoke(app, ["explain", "Deadline: no complete answer before the deadline", "--json"])
    assert json.loads(copied.stdout)["code"] == "deadline"


def test_all_codes_are_listed_and_a_wrong_one_is_usage() -> None:
    """Without a code there is a line for each; a code that is none is refused with what to do."""
    listed = runner.invoke(app, ["explain"])
    assert {line.split()[0] for line in listed.stdout.splitlines() if line.startswith("  ")} == explanations().keys()
    refused = runner.invoke(app, ["explain", "nope"])
    assert refused.exit_code == 2
    assert "lists all codes" in refused.stderr
