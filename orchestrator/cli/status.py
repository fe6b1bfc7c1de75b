"""`sparring status`: shows what is being played in a contest, and what waits."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.application.contests import seasons
from orchestrator.application.contests.review_board_cases import untold_cases
from orchestrator.application.contests.unrestricted_contest import open_unrestricted, unrestricted_rules
from orchestrator.application.rounds import round_progress
from orchestrator.cli import console, remote
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.domain.text import counted_noun
from orchestrator.errors import UsageError
from orchestrator.intake.contest_file import Contest
from orchestrator.ledger.contest_folder import contest_file


@console.command
def status(
    folder: Annotated[Path | None, typer.Argument(help="The contest's folder.", metavar="DIR")] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="The site of a contest in place of DIR: https://cup.example.org.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a contest does now: rounds that are requested or being played, and what waits. It changes nothing.

    `sparring round status` shows one round, also a finished one, with its failures.
    """
    if (folder is None) == (source is None):
        raise UsageError("give either DIR or --from")
    if folder is None:
        remote.print_status(source or "", as_json=as_json)
        return
    progress, untold = seasons.read_progress(folder), _untold_cases(folder)
    if as_json:
        console.print_json(asdict(progress) | {"untold_cases": untold})
        return
    for line in round_progress.progress_lines(progress):
        out.print(safe_text(line), soft_wrap=True)
    if untold:
        cases = f"{counted_noun(untold, 'case')} of the review board cannot be decided"
        why = "members are missing, and everybody whom the site could tell has a conflict (U8)"
        out.print(f"{cases}: {why}. Make somebody else an organizer: their page says what is missing.", soft_wrap=True)


def _untold_cases(folder: Path) -> int:
    """Returns `untold_cases` of an unrestricted contest, 0 of another one."""
    if unrestricted_rules(Contest(contest_file(folder))) is None:
        return 0
    with open_unrestricted(folder) as opened:
        return opened.read(lambda state: untold_cases(state, seasons.now()))
