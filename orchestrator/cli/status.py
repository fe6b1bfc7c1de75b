"""`sparring status`: shows what is being played in a contest, and what waits."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.contests import seasons
from orchestrator.application.rounds import round_progress
from orchestrator.cli import console, remote
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.errors import UsageError


@console.command
def status(
    folder: Annotated[Path | None, typer.Argument(help="The contest's folder.", metavar="DIR")] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="The site of a contest in place of DIR: https://cup.example.org.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the progress of rounds that are requested or being played, and what waits. It changes nothing."""
    if (folder is None) == (source is None):
        raise UsageError("give either DIR or --from")
    if folder is None:
        remote.print_status(source or "", as_json=as_json)
        return
    progress = seasons.read_progress(folder)
    if as_json:
        console.print_json(asdict(progress))
        return
    for line in round_progress.progress_lines(progress):
        out.print(safe_text(line), soft_wrap=True)
