"""The whole command line, with every command, for who calls commands from Python."""

from orchestrator.cli.commands import make_app

app = make_app()
