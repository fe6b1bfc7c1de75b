"""`sparring appeal`: appeals of teams, and the review board's decisions."""

from dataclasses import asdict
from typing import Annotated

import typer

from orchestrator.application.contests import appeals, seasons
from orchestrator.cli import console, season
from orchestrator.cli.console import Json, out, safe_text
from orchestrator.domain.season import Appeal

app = typer.Typer(no_args_is_help=True, help="Appeals of teams, and the decisions about them.")


@app.command("file", epilog="Example: sparring appeal file cup corners --team 'Corner Shop' --text 'our batch was cut'")
@console.command
def file(
    folder: season.ContestDir,
    submission: season.Submission,
    team: Annotated[str, typer.Option("--team", help="Whose submission it is.")],
    text: Annotated[str, typer.Option("--text", help="What the team objects to. No bundle shows it.")],
    finding: Annotated[str, typer.Option("--finding", help="The finding that it is about, by its id.")] = "",
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Record a team's appeal about its own submission, or about one finding against it."""
    with seasons.administer(folder, by) as admin:
        _print([appeals.file_appeal(admin, team, submission, text, finding)], as_json=as_json)


@app.command(
    "decide", epilog="Example: sparring appeal decide cup 4f2a9c01d2e3b4a5 --uphold --reason 'our disk was full'"
)
@console.command
def decide(
    folder: season.ContestDir,
    appeal: Annotated[str, typer.Argument(help="The appeal's id.", metavar="ID")],
    upheld: Annotated[bool, typer.Option("--uphold/--dismiss", help="Whether the team is right.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, for the ledger. No bundle shows it.")],
    by: season.By = None,
    as_json: Json = False,
) -> None:
    """Record the final decision about an appeal. Consequences need a command of their own."""
    with seasons.administer(folder, by) as admin:
        _print([appeals.decide_appeal(admin, appeal, reason, upheld=upheld)], as_json=as_json)


@app.command("list", epilog="Example: sparring appeal list cup")
@console.command
def list_(folder: season.ContestDir, as_json: Json = False) -> None:
    """Show all appeals with their decisions."""
    with seasons.administer(folder) as admin:
        _print(list(admin.season.appeals.values()), as_json=as_json)


def _print(shown: list[Appeal], *, as_json: bool) -> None:
    if as_json:
        console.print_json([asdict(appeal) for appeal in shown])
        return
    for appeal in shown:
        state = "open"
        if appeal.decision is not None:
            word = "upheld" if appeal.decision.upheld else "dismissed"
            state = f"{word}: {appeal.decision.reason}"
        about = " ".join(filter(None, (appeal.submission, appeal.finding)))
        out.print(f"{appeal.id} {safe_text(appeal.team)}, {safe_text(about)}, {appeal.time}", soft_wrap=True)
        out.print(f"  {safe_text(appeal.text, 2000)}", soft_wrap=True)
        out.print(f"  {safe_text(state, 2000)}", soft_wrap=True)
