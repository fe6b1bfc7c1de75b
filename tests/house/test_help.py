"""Every command explains itself."""

import re
import shlex
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from orchestrator.cli.app import app


def commands(group: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns every command that does something, by what is typed after `sparring`."""
    found = {}
    for name, command in group.commands.items():
        here = (*path, name)
        found |= commands(command, here) if hasattr(command, "commands") else {" ".join(here): command}
    return found


COMMANDS = commands(typer.main.get_command(app))


def options(command: Any) -> set[str]:
    """Returns the long options of a command."""
    return {option for parameter in command.params for option in parameter.opts if option.startswith("--")}


def test_there_are_commands() -> None:
    """The tests below have something to look at."""
    assert {"demo", "round run", "contest check", "doctor"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example_that_parses(name) -> None:
    """`--help` ends with an example line of this command, and its options exist."""
    command = COMMANDS[name]
    shown = CliRunner().invoke(app, [*name.split(), "--help"])
    assert shown.exit_code == 0
    assert f"Example: sparring {name}" in " ".join(shown.output.split())
    words = shlex.split(command.epilog.removeprefix("Example: "))
    assert words[: len(name.split()) + 1] == ["sparring", *name.split()]
    assert {word for word in words if word.startswith("--")} <= options(command)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_does(name) -> None:
    """A command has a help text, and so has each of its options."""
    command = COMMANDS[name]
    assert re.match(r"[A-Z].*\.", command.help)
    assert [parameter.name for parameter in command.params if not parameter.help] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_output_comes_as_json_too(name) -> None:
    """Every command prints something, and offers it as JSON."""
    assert "--json" in options(COMMANDS[name])


def test_the_exit_codes_are_stated_once() -> None:
    """`sparring --help` ends with one sentence about exit codes."""
    shown = " ".join(CliRunner().invoke(app, ["--help"]).output.split())
    assert shown.count("Exit codes:") == 1
    assert shown.endswith("130 cancelled.")


@pytest.mark.parametrize("name", ["board", "round promote", "round status", "round watch", "submission list"])
def test_a_filter_is_not_called_needed(name) -> None:
    """The option `--task` of a command that goes through all tasks says that it may be left out."""
    (task,) = (option for option in COMMANDS[name].params if "--task" in option.opts)
    assert task.help == "Only this task; default: every task."
