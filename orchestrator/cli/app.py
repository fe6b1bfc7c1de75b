"""The command line with all commands, for code that calls commands from Python."""

from orchestrator.cli.commands import make_app

app = make_app()
