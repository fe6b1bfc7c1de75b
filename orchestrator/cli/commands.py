"""The commands of `sparring`, grouped by purpose, each with its module in this folder.

`sparring board` imports only the module of `board`: importing all modules takes longer than most commands.
"""

import gc
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from orchestrator import __version__, logs
from orchestrator.cli import pod
from orchestrator.cli.console import run_app


@dataclass(frozen=True)
class _Command:
    """A command, or a group of commands, which is its module's `app`."""

    module: str
    attribute: str = "app"
    examples: tuple[str, ...] = ()
    hidden: bool = False


_EXIT_CODES = "0 fine, 1 the submission's fault or a failed check, 2 usage, 3 infrastructure, 130 cancelled"
_PANELS: Mapping[str, Mapping[str, _Command]] = {
    "First steps": {
        "demo": _Command("rounds", "demo", ("sparring demo --out demo --backend docker",)),
        "explain": _Command("explain", "explain", ("sparring explain deadline",)),
        "copy": _Command("copy_files", "copy", ("sparring copy examples images",)),
        "doctor": _Command("doctor", "doctor", ("sparring doctor --sweep",)),
    },
    "Teams": {
        "submission": _Command("submission"),
        "evaluate": _Command(
            "evaluate", "evaluate", ("sparring evaluate my_defence --contest contest.yaml --pictures 20",)
        ),
        "login": _Command("remote", "login", ("sparring login https://cup.example.org",)),
        "submit": _Command(
            "season",
            "submit",
            (
                "sparring submit cup my_attack --team 'Corner Shop' --task digits",
                "sparring submit my_attack --to https://cup.example.org --team 'Corner Shop'",
            ),
        ),
        "withdraw": _Command("season", "withdraw", ("sparring withdraw cup corners --reason 'the team found a bug'",)),
        "logout": _Command("remote", "logout", ("sparring logout https://cup.example.org",)),
    },
    "Organizers": {
        "contest": _Command("contests"),
        "team": _Command("team"),
        "role": _Command("roles"),
        "round": _Command("rounds"),
        "serve": _Command("serve", "serve", ("sparring serve cup --address https://cup.example.org --host 0.0.0.0",)),
        "work": _Command("work", "work", ("sparring work cup --backend docker",)),
        "tick": _Command("tick", "tick", ("sparring tick weeks",)),
        "grade": _Command("grading"),
        "appeal": _Command("appeals"),
        "disqualify": _Command(
            "season", "disqualify", ("sparring disqualify cup corners --reason 'two people, one team'",)
        ),
        "set-source": _Command(
            "season", "set_source", ("sparring set-source cup corners --licence MIT --reason 'published late'",)
        ),
        "correct": _Command(
            "season", "set_source", ("sparring correct cup corners --licence MIT --reason 'late'",), hidden=True
        ),
        "rescore": _Command(
            "season", "rescore", ("sparring rescore cup --apply --reason 'the jury lowered the floor'",)
        ),
        "rejudge": _Command(
            "season", "rescore", ("sparring rejudge cup --drop --reason 'no rule changes'",), hidden=True
        ),
    },
    "Results": {
        "board": _Command("season", "board", ("sparring board cup --round final",)),
        "status": _Command("status", "status", ("sparring status --from https://cup.example.org",)),
        "report": _Command("report", "report", ("sparring report round1",)),
        "replay": _Command("replay", "replay", ("sparring replay 3f2a --dir round1",)),
        "publish": _Command("publish", "publish", ("sparring publish cup --out cup-sealed",)),
        "verify": _Command("publish", "verify", ("sparring verify cup-sealed --key sha256:...",)),
    },
    "Machines and images": {
        "sandbox": _Command("sandbox"),
        "image": _Command("images"),
        "baseline": _Command("baseline"),
        "cluster": _Command("cluster"),
    },
}
"""The commands, grouped by purpose as in `sparring --help`."""
_COMMANDS = {name: command for commands in _PANELS.values() for name, command in commands.items()}


def make_app(name: str | None = None) -> typer.Typer:
    """Returns the command line with the command or group `name`, or with all of them for None."""
    app = typer.Typer(
        name="sparring",
        no_args_is_help=True,
        help="Attack-versus-defence competitions for image classifiers, played between isolated containers.",
        epilog=f"Exit codes: {_EXIT_CODES}.",
        pretty_exceptions_show_locals=False,
    )
    app.callback()(_root)
    for panel, commands in _PANELS.items():
        for each in commands if name is None else commands.keys() & {name}:
            _add_command(app, each, commands[each], panel)
    if name is None:
        app.add_typer(pod.group(), name="pod", hidden=True)
    return app


def _add_command(app: typer.Typer, name: str, command: _Command, panel: str) -> None:
    found = getattr(importlib.import_module(f"orchestrator.cli.{command.module}"), command.attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name, rich_help_panel=panel)
    else:
        epilog = "\n\n".join(f"Example: {example}" for example in command.examples)
        app.command(name, epilog=epilog, hidden=command.hidden, rich_help_panel=panel)(found)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"sparring {__version__}")
        raise typer.Exit


def _root(
    _version_asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Attack-versus-defence competitions for image classifiers, played between isolated containers."""
    logs.configure_logging(quiet=True)  # commands with options for logs set them up again


def main() -> None:
    """Runs the command line. Excludes the imported modules, which stay to the end, from garbage collection."""
    words = sys.argv[1:]
    app = make_app(words[0] if words and words[0] in _COMMANDS else None)
    gc.freeze()
    gc.enable()
    run_app(app, words)
