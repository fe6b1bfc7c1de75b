"""`sparring status`: what is being played in a contest and what waits."""

from dataclasses import asdict

from orchestrator.application.contests import seasons
from orchestrator.application.rounds import round_progress
from orchestrator.cli import console
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.cli.season import ContestDir


@console.command
def status(folder: ContestDir, as_json: Json = False) -> None:
    """Show which rounds are asked for or being played, how far they are, and what waits. It changes nothing."""
    progress = seasons.read_progress(folder)
    if as_json:
        console.print_json(asdict(progress))
        return
    for line in round_progress.progress_lines(progress):
        out.print(safe_text(line), soft_wrap=True)
